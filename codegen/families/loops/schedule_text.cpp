#include "codegen/families/loops/schedule_text.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/families/loops/loop_schedules.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

void refuse_schedule(const ProgramAnalysis& analysis, const std::string& text,
                     const std::string& why) {
  throw Error(ErrorCode::kUsage,
              fmt::format("schedule '{}' for kernel '{}': {}", text, analysis.request().name, why));
}

Schedule complete_schedule(const ProgramAnalysis& analysis, const Schedule& requested, DimSet dims,
                           const std::string& text) {
  const int dim = requested.vector > 1 ? analysis.last_dim(dims) : -1;
  Schedule schedule = with_vectors(plan_vectors(analysis, dim, requested.vector), requested.family);
  if (schedule.vector != requested.vector || !schedule.conditions.empty())
    refuse_schedule(analysis, text, fmt::format("its vectors are {} long", schedule.vector));
  schedule.unroll = requested.unroll;
  schedule.threads_x = requested.threads_x;
  schedule.threads_y = requested.threads_y;
  if (schedule.threads() > 1024)
    refuse_schedule(analysis, text, "a block has at most 1024 threads");
  return schedule;
}

void require_held(const ProgramAnalysis& analysis, const Schedule& schedule, std::int64_t held,
                  const std::string& text) {
  const ir::Dim length = analysis.size_of_dims(analysis.inner_dims());
  if (!schedule.looped() && !(length.is_constant() && length.value() <= held))
    refuse_schedule(analysis, text, fmt::format("it holds {} elements of a row", held));
}

Schedule parse_schedule(const ProgramAnalysis& analysis, const std::string& text) {
  std::istringstream words(text);
  std::string name, word;
  words >> name;
  const auto all = loop_schedules();
  const auto found =
      std::ranges::find_if(all, [&](const LoopSchedule* one) { return name == one->name; });
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const LoopSchedule* one : all) names.emplace_back(one->name);
    refuse_schedule(analysis, text,
                    fmt::format("it begins with none of {}", fmt::join(names, ", ")));
  }
  const LoopSchedule& own = **found;
  Schedule requested;
  requested.family = own.family;
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
        refuse_schedule(analysis, text, fmt::format("'{}' has no number", word));
    }
    if (own.read(requested, key, numbers[0], numbers[1])) continue;
    if (word == "looped")
      requested.unroll = 0;
    else if (key == "vector")
      requested.vector = numbers[0];
    else if (key == "unroll")
      requested.unroll = numbers[0];
    else if (key == "threads")
      requested.threads_x = numbers[0], requested.threads_y = numbers[1];
    else
      refuse_schedule(analysis, text, fmt::format("'{}' is unknown", word));
  }
  const bool reduces = analysis.program().inner_dims > 0;
  if (own.reduces != reduces)
    refuse_schedule(analysis, text,
                    reduces ? "the kernel reduces rows" : "the kernel reduces nothing");
  return own.complete(analysis, requested, text);
}

}  // namespace sinter::codegen
