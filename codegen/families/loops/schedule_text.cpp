// Schedules as text, and back.
#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

namespace {

constexpr const char* kFamilies[] = {"pointwise", "row", "column", "scan", "window", "transpose"};
// Whose texts others read: AttentionSchedule, ProductSchedule.
constexpr const char* kOtherFamilies[] = {"attention", "product", "skinny"};

[[noreturn]] void refuse(const ProgramAnalysis& analysis, const std::string& text,
                         const std::string& why) {
  throw Error(ErrorCode::kUsage,
              fmt::format("schedule '{}' for kernel '{}': {}", text, analysis.request().name, why));
}

}  // namespace

void check_family(const std::string& text) {
  const std::string family = text.substr(0, text.find(' '));
  const auto is_it = [&](const char* name) { return family == name; };
  if (!std::ranges::any_of(kFamilies, is_it) && !std::ranges::any_of(kOtherFamilies, is_it))
    throw Error(ErrorCode::kUsage,
                fmt::format("schedule '{}' begins with none of {}, {}", text,
                            fmt::join(kFamilies, ", "), fmt::join(kOtherFamilies, ", ")));
}

std::string Schedule::to_string() const {
  const bool turns = family == Family::kTranspose;
  std::string text = fmt::format("{} vector={}{} ", kFamilies[static_cast<int>(family)], vector,
                                 turns ? fmt::format("x{}", turn.vector) : "");
  text += looped() ? std::string("looped") : fmt::format("unroll={}", unroll);
  text += fmt::format(" threads={}x{}", threads_x, threads_y);
  if (cluster > 1) text += fmt::format(" cluster={}", cluster);
  if (blocks > 0) text += fmt::format(" blocks={}", blocks);
  if (tile > 1) text += fmt::format(" tile={}", tile);
  if (turns) text += fmt::format(" tile={}x{}", turn.width, turn.height);
  if (rolled) text += " rolled";
  if (ahead > 1) text += fmt::format(" ahead={}", ahead);
  if (tail) text += " tail";
  if (staged) text += " staged";
  if (lean) text += " lean";
  if (again) text += " again";
  return text;
}

Schedule parse_schedule(const ProgramAnalysis& analysis, const std::string& text) {
  std::istringstream words(text);
  std::string family, word;
  words >> family;
  Schedule wish;
  bool known = false;
  for (std::size_t f = 0; f < std::size(kFamilies); ++f)
    if (family == kFamilies[f]) {
      wish.family = static_cast<Family>(f);
      known = true;
    }
  if (!known)
    refuse(analysis, text, fmt::format("it begins with none of {}", fmt::join(kFamilies, ", ")));
  while (words >> word) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    int numbers[2] = {0, 1};
    if (equals != word.npos) {
      const char* end = word.data() + word.size();
      auto read = std::from_chars(word.data() + equals + 1, end, numbers[0]);
      if (read.ec == std::errc() && read.ptr != end && *read.ptr == 'x')
        read = std::from_chars(read.ptr + 1, end, numbers[1]);
      if (read.ec != std::errc() || read.ptr != end || numbers[0] < 1 || numbers[1] < 1)
        refuse(analysis, text, fmt::format("'{}' has no number", word));
    }
    if (word == "looped")
      wish.unroll = 0;
    else if (word == "staged")
      wish.staged = true;
    else if (word == "lean")
      wish.lean = true;
    else if (word == "again")
      wish.again = true;
    else if (key == "vector")
      wish.vector = numbers[0], wish.turn.vector = numbers[1];
    else if (key == "unroll")
      wish.unroll = numbers[0];
    else if (key == "cluster")
      wish.cluster = numbers[0];
    else if (key == "ahead")
      wish.ahead = numbers[0];
    else if (key == "tile")
      wish.tile = wish.turn.width = numbers[0], wish.turn.height = numbers[1];
    else if (word == "rolled")
      wish.rolled = true;  // what a tile takes decides
    else if (key == "blocks")
      wish.blocks = numbers[0];
    else if (key == "threads")
      wish.threads_x = numbers[0], wish.threads_y = numbers[1];
    else
      refuse(analysis, text, fmt::format("'{}' is unknown", word));
  }

  const bool reduces = analysis.program().inner_dims > 0;
  if ((wish.family == Family::kPointwise || wish.family == Family::kTranspose) == reduces)
    refuse(analysis, text, reduces ? "the kernel reduces rows" : "the kernel reduces nothing");
  if (wish.family == Family::kWindow)
    return window_schedule(analysis, wish.vector, wish.tile, wish.threads());
  if (wish.family == Family::kTranspose) return transpose_schedule(analysis, wish);
  const bool along_rows = reduces && wish.family != Family::kColumn;
  const DimSet dims = along_rows ? analysis.inner_dims() : analysis.outer_dims();
  const int dim = wish.vector > 1 ? analysis.last_dim(dims) : -1;
  Schedule schedule = with_vectors(plan_vectors(analysis, dim, wish.vector), wish.family);
  if (schedule.vector != wish.vector || !schedule.conditions.empty())
    refuse(analysis, text, fmt::format("its vectors are {} long", schedule.vector));
  schedule.unroll = wish.unroll;
  schedule.threads_x = wish.threads_x;
  schedule.threads_y = wish.threads_y;
  schedule.cluster = wish.cluster;
  schedule.blocks = wish.blocks;
  const bool groups = wish.family == Family::kRow || wish.family == Family::kColumn;
  schedule.ahead = wish.looped() && groups ? wish.ahead : 1;
  schedule.staged = wish.staged;
  schedule.lean = wish.lean;
  schedule.again = wish.again;
  if (schedule.threads() > 1024) refuse(analysis, text, "a block has at most 1024 threads");
  if (schedule.cluster > analysis.device().cluster_blocks)
    refuse(analysis, text,
           fmt::format("clusters of {} have {} blocks at most", analysis.device().architecture,
                       analysis.device().cluster_blocks));
  const ir::Dim length = analysis.size_of_dims(analysis.inner_dims());
  const std::int64_t held =
      std::int64_t{wish.unroll} * wish.cluster *
      (along_rows ? std::int64_t{wish.vector} * wish.threads_x : std::int64_t{wish.threads_y});
  if (reduces && !wish.looped() && !(length.is_constant() && length.value() <= held))
    refuse(analysis, text, fmt::format("it holds {} elements of a row", held));
  return schedule;
}

}  // namespace sinter::codegen
