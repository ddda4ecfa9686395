// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/loop_schedules.h"

#include <charconv>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/families/loops/row/row_schedule.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/families/loops/window/window_schedule.h"

namespace sinter::codegen {

namespace {

/// Parses a word of a schedule's text other than "looped".
void read_word(const ProgramAnalysis& analysis, const std::string& text, const std::string& word,
               Schedule& requested) {
  const std::size_t equals = word.find('=');
  int numbers[2] = {0, 1};
  if (equals != word.npos) {
    const char* end = word.data() + word.size();
    auto read = std::from_chars(word.data() + equals + 1, end, numbers[0]);
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == 'x')
      read = std::from_chars(read.ptr + 1, end, numbers[1]);
    if (read.ec != std::errc() || read.ptr != end || numbers[0] < 1 || numbers[1] < 1)
      refuse_schedule(analysis, text, fmt::format("'{}' has no number", word));
  }
  if (!requested.read(word.substr(0, equals), numbers[0], numbers[1]))
    refuse_schedule(analysis, text, fmt::format("'{}' is unknown", word));
}

/// The schedule that `text` (from Schedule::to_string) describes, for measurements.
Schedule parse_schedule(const ProgramAnalysis& analysis, const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  const std::optional<ScheduleKind> kind = schedule_kind(word);
  if (!kind)
    refuse_schedule(analysis, text,
                    fmt::format("it begins with none of {}", fmt::join(schedule_names(), ", ")));
  Schedule requested{*kind};
  while (words >> word)
    if (word == "looped")
      requested.unroll = 0;
    else
      read_word(analysis, text, word, requested);
  const bool reduces = analysis.program().inner_dims > 0;
  if (loop_schedule(requested).reduces != reduces)
    refuse_schedule(analysis, text,
                    reduces ? "the kernel reduces rows" : "the kernel reduces nothing");
  return loop_schedule(requested).complete(analysis, requested, text);
}

}  // namespace

const LoopSchedule& loop_schedule(const Schedule& schedule) {
  static const LoopSchedule* const all[] = {
      &kPointwiseSchedule, &kRowSchedule,       &kColumnSchedule,  &kScanSchedule,
      &kWindowSchedule,    &kTransposeSchedule, &kStridedSchedule, &kStencilSchedule};
  static_assert(std::size(all) == std::variant_size_v<ScheduleKind>);
  return *all[schedule.kind.index()];
}

std::vector<Schedule> choose_schedules(const ProgramAnalysis& analysis) {
  if (!analysis.request().schedule.empty())
    return {parse_schedule(analysis, analysis.request().schedule)};
  for (const LoopSchedule* own : {&kTransposeSchedule, &kPointwiseSchedule, &kScanSchedule})
    if (own->takes(analysis)) return own->choose(analysis);
  if (takes_ordered(analysis)) return choose_ordered(analysis);
  if (kStencilSchedule.takes(analysis)) return kStencilSchedule.choose(analysis);
  const int along_rows = unit_strides(analysis, analysis.last_dim(analysis.outer_dims()));
  const int along_elements = unit_strides(analysis, analysis.last_dim(analysis.inner_dims()));
  if (kColumnSchedule.takes(analysis) && along_rows > along_elements)
    return kWindowSchedule.takes(analysis) && fills_windows(analysis)
               ? kWindowSchedule.choose(analysis)
               : kColumnSchedule.choose(analysis);
  for (const LoopSchedule* own : {&kStridedSchedule, &kRowSchedule})
    if (own->takes(analysis)) return own->choose(analysis);
  throw Error(ErrorCode::kUnsupported,
              fmt::format("kernel '{}': no schedule takes its loops", analysis.request().name));
}

std::vector<Schedule> schedule_candidates(const ProgramAnalysis& analysis, const Schedule& rule,
                                          bool clusters) {
  CandidateSearch search{analysis, rule, clusters, Neighbours<Schedule>(rule)};
  loop_schedule(rule).search(search);
  return search.found.take();
}

}  // namespace sinter::codegen
