// SPDX-License-Identifier: Apache-2.0
// Contiguous adjacent rows: how many rows, and which part of each, a thread and a block process.
#include <algorithm>

#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/loop_schedule.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr double kWords = 48;  // registers of a thread for its elements
constexpr int kThreads = 256, kLeastThreads = 128, kMostThreads = 512, kScratchBytes = 40 * 1024;
// Bytes of adjacent threads: a cache line, and the minimum for full memory bandwidth.
constexpr int kLine = 128, kLeastLine = 64;
constexpr int kSector = 32;               // unit of memory transfers, for few rows
constexpr std::int64_t kLarge = 1 << 30;  // assumed if no bound is known
constexpr int kAhead = 4;

/// Threads, with loads in flight, that saturate memory bandwidth: half of the resident ones.
std::int64_t enough_threads(const DeviceModel& device) {
  return std::int64_t{device.multiprocessors} * device.threads / 2;
}

/// Whether elements are read again after a reduction.
bool reads_again(const ProgramAnalysis& analysis) {
  return std::ranges::any_of(analysis.live(), [&](std::size_t i) {
    const int stage = analysis.value(i).stage;
    return analysis.instr(i).kind == InstrKind::Reduce ? stage > 1
                                                       : stage > 0 && analysis.in_row(i);
  });
}

/// Bytes of the results of all reductions.
int bytes_of_results(const ProgramAnalysis& analysis) {
  std::size_t bytes = 0;
  for (const std::size_t i : analysis.live(InstrKind::Reduce))
    bytes += size_of(analysis.type_of(i));
  return static_cast<int>(bytes);
}

/// One thread for each row.
Schedule single_columns(const ProgramAnalysis& analysis) {
  Schedule schedule = with_vectors(no_vectors(analysis), ColumnParameters{}, 0, 32, 16);
  const ir::Dim length = analysis.row_length();
  if (length.is_constant()) {
    const std::int64_t n = std::max<std::int64_t>(length.value(), 1);
    schedule.threads_y = std::min(16, power_of_two_up((n + 3) / 4));
    schedule.threads_x = std::max(32, kBlockThreads / schedule.threads_y);
    const int each = ceil_div(n, schedule.threads_y);
    if (each * words_per_element(analysis) <= kWords) schedule.unroll = each;
    if (n >= 2048) schedule.threads_y = 32;
  }
  return schedule;
}

struct Sizes {
  std::int64_t rows, length;
};

/// Threads loop over vectors of rows. With few rows, or if elements are read `again`:
/// rows of one cache line for each block, and as many threads for each as fill the
/// GPU.
Schedule looped(const ProgramAnalysis& analysis, const VectorPlan& vectors, int bytes,
                const Sizes& sizes, bool again) {
  Schedule schedule = with_vectors(vectors, ColumnParameters{{.ahead = kAhead}}, 0, 32);
  const auto blocks = [&] { return sizes.rows / vectors.vector / schedule.threads_x; };
  while (schedule.threads_x * bytes > kLine &&
         (again || blocks() < 2 * analysis.device().multiprocessors))
    schedule.threads_x /= 2;
  schedule.threads_y = (again ? kMostThreads : kThreads) / schedule.threads_x;
  while (schedule.threads() < 1024 &&
         blocks() * schedule.threads() < enough_threads(analysis.device()))
    schedule.threads_y *= 2;
  const int most = power_of_two_up(ceil_div(sizes.length, kAhead));
  schedule.threads_y = std::min(schedule.threads_y, most);
  const double words = words_per_element(analysis) * vectors.vector;
  const int each = ceil_div(sizes.length, schedule.threads_y);
  if (analysis.row_length().is_constant() && each * words <= kWords) schedule.unroll = each;
  return schedule;
}

/// Keeps elements in registers for later passes, if at most `most` threads of a block can. Lean: in
/// their storage type; each pass recomputes what it needs.
std::optional<Schedule> held(const ProgramAnalysis& analysis, const VectorPlan& vectors, int bytes,
                             const Sizes& sizes, bool lean, int most) {
  if (!analysis.row_length().is_constant()) return std::nullopt;
  const double words = words_per_element(analysis, lean, lean) * vectors.vector;
  // The widest lines that give every multiprocessor a block, then other widths.
  std::vector<int> lines = {kLine, kLeastLine};
  const auto leaves_idle = [&](int line) {
    const int columns = std::max(1, line / bytes) * vectors.vector;
    return sizes.rows < std::int64_t{columns} * analysis.device().multiprocessors;
  };
  if (leaves_idle(kLeastLine))
    lines = {kSector, kLeastLine, kLine};
  else if (leaves_idle(kLine))
    lines = {kLeastLine, kLine};
  Schedule schedule = with_vectors(vectors, ColumnParameters{{.lean = lean, .again = lean}});
  for (const int line : lines)
    for (schedule.threads_y = 1; schedule.threads_y < 2 * sizes.length; schedule.threads_y *= 2) {
      schedule.threads_x = std::max(1, line / bytes);
      schedule.unroll = ceil_div(sizes.length, schedule.threads_y);
      if (schedule.threads() > most) break;
      while (schedule.threads() < kLeastThreads && schedule.threads_x < 32 && line != kSector)
        schedule.threads_x *= 2;
      if (schedule.unroll * words <= kWords) return schedule;
    }
  return std::nullopt;
}

bool fits_shared(const ProgramAnalysis& analysis, const Schedule& schedule) {
  return schedule.threads_y == 1 ||
         schedule.threads() * schedule.vector * bytes_of_results(analysis) <= kScratchBytes;
}

/// Elements read once: longest vectors. Elements read again stay in registers: in storage type if
/// few threads can hold a row, otherwise widened, with short vectors, whose accumulators leave more
/// registers. If that does not fit, the blocks' rows should at least stay in the L2.
std::optional<Schedule> best_vectors(const ProgramAnalysis& analysis) {
  const int dim = analysis.last_dim(analysis.outer_dims());
  const Sizes sizes = {
      upper(analysis, analysis.row_count()).value_or(kLarge),
      std::max<std::int64_t>(upper(analysis, analysis.row_length()).value_or(kLarge), 1)};
  std::vector<VectorPlan> plans;
  for (int most = 8; most > 1; most /= 2) {
    VectorPlan plan = plan_vectors(analysis, dim, most);
    if (plan.vector == most) plans.push_back(std::move(plan));
  }
  if (plans.empty()) return std::nullopt;
  const auto bytes = [&](const VectorPlan& plan) {
    return plan.vector * widest_element(analysis, dim_bit(dim));
  };
  const bool again = reads_again(analysis);
  if (again) {
    for (const VectorPlan& plan : plans) {
      if (widest_element(analysis, dim_bit(dim)) > 2) break;  // as wide as the compute type
      const auto schedule = held(analysis, plan, bytes(plan), sizes, true, kLeastThreads);
      if (schedule && fits_shared(analysis, *schedule)) return schedule;
    }
    for (auto plan = plans.rbegin(); plan != plans.rend(); ++plan) {
      const auto schedule = held(analysis, *plan, bytes(*plan), sizes, false, kMostThreads);
      if (schedule && fits_shared(analysis, *schedule)) return schedule;
    }
    for (const VectorPlan& plan : plans) {
      auto schedule = held(analysis, plan, bytes(plan), sizes, true, kMostThreads);
      if (schedule && fits_shared(analysis, *schedule)) return schedule;
    }
  }
  for (const VectorPlan& plan : plans) {
    const Schedule schedule = looped(analysis, plan, bytes(plan), sizes, again);
    if (fits_shared(analysis, schedule)) return schedule;
  }
  return std::nullopt;
}

bool takes_column(const ProgramAnalysis& analysis) {
  return analysis.program().inner_dims > 0 && analysis.outer_dims() != 0;
}

std::vector<Schedule> choose_column(const ProgramAnalysis& analysis) {
  std::vector<Schedule> schedules;
  if (auto vectors = best_vectors(analysis)) schedules.push_back(std::move(*vectors));
  if (schedules.empty() || !schedules[0].conditions.empty())
    schedules.push_back(single_columns(analysis));
  return schedules;
}

void search_column(CandidateSearch& search) {
  const auto longest = search.longest_row();
  const ReductionParameters& rule = search.rule.reduction();
  for (const VectorPlan& vectors : search.vectors())
    for (const int x : {32, 64, 128, 256})
      for (const int y : {1, 2, 4, 8, 16, 32}) {
        if (x * y > kMostCandidateThreads || x * y < 64) continue;
        Schedule s = with_vectors(vectors, ColumnParameters{}, 0, x, y);
        int& ahead = s.as<ColumnParameters>().ahead;
        const double words = words_per_element(search.analysis) * s.vector;
        const double distance = search.row_distance(s) + steps_between(y, search.rule.threads_y);
        for (ahead = 1; ahead <= 8; ahead *= 2)
          if (ahead * words <= kMostCandidateWords)
            search.found.add(
                s, distance + (search.rule.looped() ? steps_between(ahead, rule.ahead) : 1));
        ahead = 1;
        if (!longest) continue;
        s.unroll = ceil_div(std::max<std::int64_t>(*longest, 1), y);
        if (s.unroll <= kMostCandidateUnroll && s.unroll * words <= kMostCandidateWords)
          search.found.add(s, distance + (search.rule.looped() ? 1 : 0));
      }
  if (kWindowSchedule.takes(search.analysis)) kWindowSchedule.search(search);
}

Schedule complete_column(const ProgramAnalysis& analysis, const Schedule& requested,
                         const std::string& text) {
  Schedule schedule = complete_schedule(analysis, requested, analysis.outer_dims(), text);
  if (!requested.looped()) schedule.as<ColumnParameters>().ahead = 1;
  require_held(analysis, schedule, std::int64_t{requested.unroll} * requested.threads_y, text);
  return schedule;
}

}  // namespace

const LoopSchedule kColumnSchedule = {true,          takes_column, choose_column,
                                      search_column, map_column,   complete_column};

}  // namespace sinter::codegen
