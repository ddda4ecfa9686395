// SPDX-License-Identifier: Apache-2.0
// Schedules of kernels that run several programs; each uses the block's threads as given.
#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/loop_schedules.h"
#include "codegen/families/loops/row/row_schedule.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

namespace {

// Registers for a row's elements, limited as the kernel's other functions need registers too.
constexpr std::int64_t kShortWindow = 32;
constexpr double kHeldWords = 64, kColumnWords = 48;

/// Whether adjacent rows, not a row's elements, are contiguous. For windows both are, and their
/// rows are too short for several threads.
bool lies_in_columns(const ProgramAnalysis& analysis) {
  const int along_rows = unit_strides(analysis, analysis.last_dim(analysis.outer_dims()));
  const int along_elements = unit_strides(analysis, analysis.last_dim(analysis.inner_dims()));
  if (along_rows != along_elements) return along_rows > along_elements;
  const ir::Dim length = analysis.row_length();
  return along_rows > 0 && length.is_constant() && length.value() <= kShortWindow;
}

/// One thread for each row, which loads all elements at once; nothing if they are too many.
std::optional<Schedule> thread_rows(const ProgramAnalysis& analysis, int threads) {
  const ir::Dim length = analysis.row_length();
  if (!length.is_constant() || length.value() < 1 ||
      static_cast<double>(length.value()) * words_per_element(analysis) > kColumnWords)
    return std::nullopt;
  return with_vectors(no_vectors(analysis), RowParameters{}, static_cast<int>(length.value()), 1,
                      threads);
}

/// A row schedule for blocks of `threads`; nothing if it needs too many registers.
std::optional<Schedule> with_threads(const ProgramAnalysis& analysis, Schedule schedule,
                                     int threads) {
  auto& row = schedule.as<RowParameters>();
  if (row.cluster > 1) return std::nullopt;
  row.blocks = 0;
  row.staged = false;  // static shared memory adds up over all functions
  if (schedule.threads_x <= 32) {
    schedule.threads_y = threads / schedule.threads_x;
    return schedule;
  }
  if (!schedule.looped()) {
    const ir::Dim length = analysis.row_length();
    schedule.unroll =
        std::max(1, ceil_div(length.value() / schedule.vector, std::int64_t{threads}));
  }
  schedule.threads_x = threads;
  schedule.threads_y = 1;
  return held_words(analysis, schedule) <= kHeldWords ? std::optional(schedule) : std::nullopt;
}

std::vector<Schedule> choose_rows(const ProgramAnalysis& analysis, int threads) {
  std::vector<Schedule> schedules;
  if (analysis.row_length().is_constant())
    for (const Schedule& alone : kRowSchedule.choose(analysis)) {
      std::optional<Schedule> schedule = with_threads(analysis, alone, threads);
      if (!schedule) break;
      schedules.push_back(std::move(*schedule));
    }
  if (schedules.empty() || !schedules.back().conditions.empty())
    schedules.push_back(choose_shared_row(analysis, threads));
  return schedules;
}

/// Parts whose sizes are no multiples of the vector process the remainder element by element.
std::vector<Schedule> choose_elements(const ProgramAnalysis& analysis, int threads) {
  std::vector<Schedule> schedules = kPointwiseSchedule.choose(analysis);
  const int dim = analysis.last_dim(analysis.outer_dims());
  if (dim < 0 || analysis.outer_dims() != dim_bit(dim)) return schedules;
  const int most = vector_of_few(analysis, analysis.size_of_dims(dim_bit(dim)), threads);
  const VectorPlan vectors = plan_vectors(analysis, dim, most, true);
  if (!vectors.tail || vectors.vector == 1) return schedules;
  schedules = {with_vectors(vectors, PointwiseParameters{vectors.tail})};
  if (!vectors.conditions.empty())
    schedules.push_back(with_vectors(no_vectors(analysis), PointwiseParameters{}));
  return schedules;
}

}  // namespace

std::vector<Schedule> choose_shared(const ProgramAnalysis& analysis, int threads) {
  if (analysis.combines() || analysis.scans())
    throw Error(ErrorCode::kUnsupported,
                fmt::format("'{}': scans and scatters that combine are kernels of their own",
                            analysis.request().name));
  const bool by_element = kPointwiseSchedule.takes(analysis);
  if (!by_element && !lies_in_columns(analysis)) return choose_rows(analysis, threads);
  std::vector<Schedule> schedules;
  if (by_element) {
    schedules = choose_elements(analysis, threads);
  } else if (kWindowSchedule.takes(analysis)) {
    schedules = kWindowSchedule.choose(analysis);
  } else {
    if (const auto rows = thread_rows(analysis, threads)) return {*rows};
    return {choose_shared_row(analysis, threads)};
  }
  for (Schedule& schedule : schedules) {
    schedule.threads_x = threads;
    schedule.threads_y = 1;
  }
  return schedules;
}

}  // namespace sinter::codegen
