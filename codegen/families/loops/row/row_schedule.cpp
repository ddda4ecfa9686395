// SPDX-License-Identifier: Apache-2.0
// Row schedules: distribution of rows over threads, blocks and clusters.
#include "codegen/families/loops/row/row_schedule.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "codegen/emit/approximations.h"
#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

// Most registers of a thread for its elements, also for unknown sizes.
constexpr double kWarpRowWords = 72, kBlockRowWords = 44, kMostWords = 96;
// With many rows: as few threads a row as can hold it, since rows in flight hide latency. 16-bit
// rows have enough arithmetic to keep more in registers. If long operations are recomputed, more
// threads hide them.
constexpr double kLeanWarpWords = 48, kLeanWords = 36, kLeanWords16 = 44, kAgainWords = 32;
// Below this, rows that are held whole need not be lean. For 16-bit elements the held values are
// wider than the loaded ones.
constexpr double kHeldWords = 128, kHeldWords16 = 80;
// Least threads that keep a multiprocessor busy: fewer rows are spread over more threads.
constexpr int kBusyThreads = 768;
// Registers of a thread besides its elements (addresses, accumulators, one vector's operations):
// typical, and minimum.
constexpr int kOtherWords = 48, kLeastOtherWords = 32;
// Rows of a multiprocessor: with fewer, little overlaps.
constexpr std::int64_t kManyRows = 4;
// Vectors of a thread whose passes have no barrier and recompute: `hold` has a cost.
constexpr int kMostHeld = 4;
constexpr int kManyElements = 32;  // of a thread: half as many rows for each block

/// Vectors in flight on a GPU with two for each thread; with fewer in total, long rows count as
/// few.
std::int64_t vectors_at_once(const DeviceModel& device) {
  return std::int64_t{device.multiprocessors} * device.threads * 2;
}

/// Rows of a block, if each takes `lanes` <= 32 threads: blocks of kBlockThreads, half as many if a
/// thread has many elements, or fewer if multiprocessors would idle.
int rows_per_block(const ProgramAnalysis& analysis, int lanes, int held) {
  const int fewest = 32 / lanes;
  int rows = kBlockThreads / lanes / (held >= kManyElements ? 2 : 1);
  const auto all = upper(analysis, analysis.row_count());
  while (all && rows > fewest && *all < std::int64_t{analysis.device().multiprocessors} * rows)
    rows /= 2;
  return rows;
}

/// True if the compiler would finish one vector's work before it loads the next: with long
/// operations before the first reduction, on more than one loaded vector. Such loads are
/// staged.
bool should_stage(const ProgramAnalysis& analysis, const Schedule& schedule) {
  const Approximations math(analysis);
  int loads = 0;
  bool is_long = false;
  for (const std::size_t i : analysis.live()) {
    const auto& instr = analysis.instr(i);
    if (!math.is_live(i) || analysis.value(i).stage > 0 || !analysis.in_row(i)) continue;
    if (instr.kind == InstrKind::Op && math.function(i) == nullptr)
      is_long = is_long || is_long_operation(static_cast<ScalarOp>(instr.op));
    loads += can_stage(analysis, schedule, i) ? 1 : 0;
  }
  return is_long && loads * schedule.unroll > 1;
}

/// Whether a lean schedule recomputes anything.
bool recomputes(const ProgramAnalysis& analysis) {
  return std::ranges::any_of(analysis.live(InstrKind::Op), [&](std::size_t i) {
    return analysis.in_row(i) && keeps_for_later(analysis, i) && is_cheap_again(analysis, i);
  });
}

bool shares_loads(const ProgramAnalysis& analysis) {
  return std::ranges::any_of(analysis.live(InstrKind::Load), [&](std::size_t i) {
    return analysis.in_row(i) && is_shared_by_rows(analysis, i);
  });
}

struct RowShape {
  int lanes = 32, unroll = 1, cluster = 1;
};

Schedule row_schedule(const ProgramAnalysis& analysis, const VectorPlan& vectors,
                      const RowShape& shape) {
  const int held = shape.unroll * vectors.vector;
  Schedule schedule = with_vectors(
      vectors, RowParameters{{.cluster = shape.cluster}, vectors.tail}, shape.unroll, shape.lanes,
      shape.lanes <= 32 ? rows_per_block(analysis, shape.lanes, held) : 1);
  auto& row = schedule.as<RowParameters>();
  row.staged = should_stage(analysis, schedule);
  if (schedule.looped() && schedule.vector > 1)
    row.ahead = words_per_element(analysis) * schedule.vector <= 4 ? 4 : 2;
  return schedule;
}

int registers_of(double words, int others = kOtherWords) {
  return ceil_div(others + std::llround(words), 8) * 8;
}

Schedule looped_row(const ProgramAnalysis& analysis, const VectorPlan& vectors,
                    std::int64_t length) {
  return row_schedule(analysis, vectors, {length >= 8192 ? 1024 : 256, 0, 1});
}

/// Chooses schedules for rows of `length` vectors, held in registers.
class RowChoice {
 public:
  /// `many` rows share a multiprocessor; otherwise latency of single rows counts. See
  /// ReductionParameters for `again` and `lean`.
  RowChoice(const ProgramAnalysis& analysis, const VectorPlan& vectors, std::int64_t length,
            bool many, bool lean, bool again)
      : analysis_(analysis),
        vectors_(vectors),
        length_(length),
        many_(many),
        lean_(lean),
        again_(again) {}

  /// Nothing if no cluster can hold a row.
  std::optional<Schedule> choose() {
    std::optional<RowShape> shape = in_warp();
    if (!shape) shape = in_blocks();
    if (!shape) return std::nullopt;
    if (many_) spread(*shape);
    Schedule schedule = row_schedule(analysis_, vectors_, *shape);
    if (!lean_) return schedule;
    const int threads = schedule.threads();
    const DeviceModel& device = analysis_.device();
    const auto fit = device.registers / (threads * registers(*shape));
    if (fit > 1 && can_hold_all(*shape)) return schedule;
    auto& row = schedule.as<RowParameters>();
    row.lean = vectors_.vector > 1 && !row.staged;
    row.again = row.lean && again_;
    row.blocks = static_cast<int>(std::clamp<std::int64_t>(fit, 1, device.threads / threads));
    return schedule;
  }

 private:
  std::optional<RowShape> in_warp() const {
    if (length_ <= 32) {
      const int lanes = power_of_two_up(std::max<std::int64_t>(length_, 1));
      // Two vectors a thread, if a row keeps at least eight lanes.
      const int unroll = many_ && vectors_.vector > 1 && lanes >= 16 ? 2 : 1;
      return RowShape{lanes / unroll, unroll, 1};
    }
    if (!many_) return std::nullopt;
    const int unroll = ceil_div(length_, 32);
    if (unroll > kMostHeld && vectors_.vector > 4 && recomputes(analysis_)) return std::nullopt;
    if (unroll * words_ <= kLeanWarpWords) return RowShape{32, unroll, 1};
    return std::nullopt;
  }

  /// Many rows: fewest idle lanes, then most vectors per thread that leave registers for other
  /// blocks, then smallest cluster. Few rows: least time.
  std::optional<RowShape> in_blocks() const {
    std::optional<RowShape> best;
    double best_cost = 1e30;
    for (int cluster = 1; cluster <= most_cluster(analysis_); cluster *= 2)
      for (int unroll = 1; unroll <= 16; ++unroll) {
        const int warps = ceil_div(length_, std::int64_t{32} * unroll * cluster);
        const double used = unroll * words_;
        if (warps < 2 || warps > 32 || (unroll > 1 && used > kMostWords)) continue;
        if (warps * 32 * registers_of(used, kLeastOtherWords) > analysis_.device().registers)
          continue;
        const double cost =
            many_ ? cost_of(cluster, unroll, warps) : time_of(cluster, unroll, warps);
        if (cost >= best_cost) continue;
        best_cost = cost;
        best = RowShape{32 * warps, unroll, cluster};
      }
    return best;
  }

  /// Gives rows more threads if there are too few rows to fill the multiprocessors.
  void spread(RowShape& shape) const {
    while (rows_ && shape.cluster == 1 && shape.unroll > 1 && shape.lanes >= 32 &&
           shape.lanes <= 512 &&
           *rows_ * shape.lanes < std::int64_t{analysis_.device().multiprocessors} * kBusyThreads) {
      shape.lanes *= 2;
      shape.unroll = ceil_div(length_, shape.lanes);
    }
  }

  /// Whether data that all rows share can be loaded with the row, which takes more registers. Rows
  /// that share a warp gain nothing.
  bool can_hold_all(const RowShape& shape) const {
    const int elements = vectors_.vector * shape.unroll;
    const double held = words_per_element(analysis_) * elements;
    return !again_ && shape.lanes >= 32 && (!shares_ || elements <= kManyElements) &&
           held <= (vectors_.vector > 4 ? kHeldWords16 : kHeldWords);
  }

  /// Whether little besides the row is held: the last pass loads nothing, and no exponentials wait
  /// for it.
  bool is_spare() const { return again_ || (vectors_.vector > 4 && !shares_); }

  int registers(const RowShape& shape) const {
    return registers_of(words_ * shape.unroll, is_spare() ? kLeastOtherWords : kOtherWords);
  }

  double cost_of(int cluster, int unroll, int warps) const {
    const double used = unroll * words_;
    const double room = is_spare() ? kAgainWords : vectors_.vector > 4 ? kLeanWords16 : kLeanWords;
    const double idle =
        static_cast<double>(warps) * 32 * unroll * cluster / static_cast<double>(length_) - 1;
    double cost =
        idle + (is_spare() ? 0.6 : 0.3) * std::max(0.0, used - room) / room + 0.04 * warps;
    if (unroll == 1) cost += 0.1;
    // A multiprocessor with only one block idles whenever that block waits; blocks of a cluster
    // wait for each other.
    if (2 * warps * 32 * registers({warps * 32, unroll, cluster}) > analysis_.device().registers)
      cost += 0.2;
    return cost + 0.5 * std::log2(cluster);
  }

  /// Approximate microseconds from a row's first load to its last store. A thread's vectors are
  /// serial; warps and clusters synchronize. More blocks than multiprocessors slow each other down.
  double time_of(int cluster, int unroll, int warps) const {
    const RowCosts& costs = analysis_.device().fitted->row;
    const double vectors = std::log2(unroll), joined = std::log2(warps);
    const double blocks = static_cast<double>(rows_.value_or(1)) * cluster /
                          static_cast<double>(analysis_.device().multiprocessors);
    return costs.more_blocks * std::max(0.0, blocks - 1) + costs.vectors * vectors +
           costs.vectors_more * std::max(0.0, vectors - 1) +
           (cluster > 1 ? costs.cluster + costs.cluster_warps * joined : costs.warps * joined) +
           warps * 32 * unroll * 16 / costs.bytes;
  }

  const ProgramAnalysis& analysis_;
  const VectorPlan& vectors_;
  std::int64_t length_;
  bool many_, lean_, again_;
  const std::optional<std::int64_t> rows_ = upper(analysis_, analysis_.row_count());
  const bool shares_ = shares_loads(analysis_);  // loads data that all rows share
  const double words_ = words_per_element(analysis_, lean_, again_) * vectors_.vector;
};

/// Rows held in registers, if a cluster can hold them.
std::optional<Schedule> held_row(const ProgramAnalysis& analysis, const VectorPlan& vectors,
                                 std::int64_t length, bool many) {
  const auto choose = [&](bool lean, bool again) {
    return RowChoice(analysis, vectors, length, many, lean, again).choose();
  };
  std::optional<Schedule> held = choose(many, false);
  if (held && held->row().cluster == 1) return held;
  // Long rows must keep few registers.
  for (const bool again : {false, true}) {
    if (many && !again) continue;
    const std::optional<Schedule> other = choose(true, again);
    if (!other) continue;
    const RowParameters &row = other->row(), &least = held ? held->row() : row;
    if (!held || row.cluster < least.cluster ||
        (row.cluster == least.cluster && many && least.lean && row.blocks > least.blocks))
      held = other;
  }
  return held;
}

/// Rows of `length` vectors: held in registers; looped if no cluster can hold them or the GPU has
/// no clusters.
void add_rows(const ProgramAnalysis& analysis, const VectorPlan& vectors, std::int64_t length,
              bool many, std::vector<Schedule>& schedules) {
  const std::optional<Schedule> held = held_row(analysis, vectors, length, many);
  if (held) schedules.push_back(*held);
  if (!held || held->row().cluster > 1) schedules.push_back(looped_row(analysis, vectors, length));
}

/// Schedules for rows of unknown length, each up to a bound. True if one accepts all lengths.
bool add_tiers(const ProgramAnalysis& analysis, const VectorPlan& vectors,
               std::vector<Schedule>& schedules) {
  const ir::Dim length = analysis.row_length();
  const auto longest = upper(analysis, length);
  const double words = words_per_element(analysis) * vectors.vector;
  struct Tier {
    int lanes;
    double words;  // of a thread, for elements
  };
  for (const Tier tier : {Tier{32, words}, Tier{32, kWarpRowWords}, Tier{256, kBlockRowWords}}) {
    if (vectors.vector == 1 && tier.words == words) continue;  // rows are rarely that short
    int unroll = std::clamp(static_cast<int>(tier.words / words), 1, 16);
    std::int64_t bound = std::int64_t{tier.lanes} * unroll * vectors.vector;
    const bool last = longest && *longest <= bound;
    if (last) {
      unroll = std::max(1, ceil_div(*longest, std::int64_t{tier.lanes} * vectors.vector));
      bound = *longest;
    }
    Schedule schedule = row_schedule(analysis, vectors, {tier.lanes, unroll, 1});
    if (!last) limit(schedule, analysis, length, bound);
    schedules.push_back(std::move(schedule));
    if (last) return true;
  }
  return false;
}

/// Rows of known length: their number decides the distribution.
void add_known(const ProgramAnalysis& analysis, const VectorPlan& vectors, std::int64_t length,
               std::vector<Schedule>& schedules) {
  const ir::Dim rows = analysis.row_count();
  const auto most = upper(analysis, rows);
  const DeviceModel& device = analysis.device();
  const std::int64_t many =
      std::clamp<std::int64_t>(vectors_at_once(device) / std::max<std::int64_t>(length, 1), 1,
                               kManyRows * device.multiprocessors);
  const bool can_be_few = !rows.is_constant() || rows.value() < many;
  const bool can_be_many = !most || *most >= many;
  if (can_be_few) {
    const std::size_t first = schedules.size();
    add_rows(analysis, vectors, length, false, schedules);
    // Schedules that do not hold rows gain nothing from another.
    if (!can_be_many || schedules.back().looped()) return;
    for (std::size_t s = first; s < schedules.size(); ++s)
      limit(schedules[s], analysis, rows, many - 1);
  }
  add_rows(analysis, vectors, length, true, schedules);
}

constexpr int kFewRowThreads = 128;

bool takes_row(const ProgramAnalysis& analysis) { return analysis.program().inner_dims > 0; }

std::vector<Schedule> choose_row(const ProgramAnalysis& analysis) {
  const int dim = analysis.last_dim(analysis.inner_dims());
  const ir::Dim length = analysis.row_length();
  int most = 8;
  if (length.is_constant()) {
    // Of few rows, short ones have a warp each.
    const int few = vector_of_few(analysis, length * analysis.row_count(), kFewRowThreads);
    while (most > few && length.value() * 2 <= std::int64_t{32} * most) most /= 2;
  }
  const VectorPlan vectors = plan_vectors(analysis, dim, most), scalar = no_vectors(analysis);
  std::vector<Schedule> schedules;
  if (length.is_constant()) {
    add_known(analysis, vectors, length.value() / vectors.vector, schedules);
    if (!vectors.conditions.empty()) add_known(analysis, scalar, length.value(), schedules);
    return schedules;
  }
  if (vectors.vector > 1 && add_tiers(analysis, vectors, schedules) && vectors.conditions.empty())
    return schedules;
  if (!add_tiers(analysis, scalar, schedules))
    schedules.push_back(row_schedule(analysis, scalar, {256, 0, 1}));
  return schedules;
}

Schedule complete_row(const ProgramAnalysis& analysis, const Schedule& requested,
                      const std::string& text) {
  Schedule schedule = complete_schedule(analysis, requested, analysis.inner_dims(), text);
  auto& row = schedule.as<RowParameters>();
  if (!requested.looped()) row.ahead = 1;
  if (row.cluster > analysis.device().cluster_blocks)
    refuse_schedule(analysis, text,
                    fmt::format("clusters of {} have {} blocks at most",
                                analysis.device().architecture, analysis.device().cluster_blocks));
  require_held(analysis, schedule,
               std::int64_t{schedule.unroll} * row.cluster * schedule.vector * schedule.threads_x,
               text);
  return schedule;
}

}  // namespace

Schedule choose_shared_row(const ProgramAnalysis& analysis, int threads) {
  const int dim = analysis.last_dim(analysis.inner_dims());
  // A tail requires rows of one dimension.
  const bool tails = dim >= 0 && analysis.inner_dims() == dim_bit(dim);
  VectorPlan vectors = plan_vectors(analysis, dim, 8, tails);
  if (!vectors.conditions.empty()) vectors = no_vectors(analysis);
  return row_schedule(analysis, vectors, {threads, 0, 1});
}

bool takes_ordered(const ProgramAnalysis& analysis) {
  return analysis.combines() && analysis.stages() == 0;
}

std::vector<Schedule> choose_ordered(const ProgramAnalysis& analysis) {
  return {with_vectors(no_vectors(analysis), RowParameters{}, 0, 1, kBlockThreads)};
}

const LoopSchedule kRowSchedule = {true, takes_row, choose_row, search_row, map_row, complete_row};

}  // namespace sinter::codegen
