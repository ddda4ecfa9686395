// SPDX-License-Identifier: Apache-2.0
// Distribution of rows of strided runs over threads, blocks and clusters.
#include "codegen/families/loops/strided/strided_schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

// Per thread: registers for elements; for addresses, accumulators and one vector's operations. Per
// block: threads, and shared memory of reductions.
constexpr double kMostWords = 64;
constexpr int kOtherWords = 40;
constexpr int kLeastThreads = 128, kMostThreads = 512, kLoopThreads = 1024;
constexpr int kMostScratch = 40 * 1024;
constexpr int kSector = 32;

struct Shape {
  int rows = 1;     // of a block
  int cluster = 1;  // blocks that share them
  int threads_y = 1, unroll = 1;
};

class StridedChoice {
 public:
  StridedChoice(const ProgramAnalysis& analysis, const Runs& runs, const VectorPlan& vectors)
      : analysis_(analysis),
        runs_(runs),
        vectors_(vectors),
        lanes_(static_cast<int>(runs.length) / vectors.vector),
        steps_(analysis.size_of_dims(runs.steps).value()),
        rows_(upper(analysis, analysis.row_count()).value_or(1)),
        reductions_(analysis.live(InstrKind::Reduce).size()) {}

  /// The fastest schedule that holds rows in registers; nothing if no cluster can.
  std::optional<Schedule> held() const {
    std::optional<Schedule> best;
    double least = 1e30;
    for (const bool lean : {false, true}) {
      for (const bool again : {false, true}) {
        if (again && !lean) continue;
        const double words =
            words_per_element(analysis_, lean, again, runs_.steps) * vectors_.vector;
        each_shape([&](const Shape& shape) {
          if (!fits(shape, words)) return;
          const double time = time_of(shape, words) + (lean ? 0.05 : 0) + (again ? 0.1 : 0);
          if (time >= least) return;
          least = time;
          best = schedule(shape, {.cluster = shape.cluster, .lean = lean, .again = again});
        });
      }
    }
    return best;
  }

  /// Loops, with a block for each few rows.
  Schedule looped() const {
    const int x = lanes_ * least_rows();
    Shape shape{.rows = least_rows(),
                .threads_y = whole_warps(x, std::max(1, kLoopThreads / x)),
                .unroll = 0};
    while (!fits_shared(shape) && shape.threads_y > 32)
      shape.threads_y = whole_warps(x, shape.threads_y / 2);
    return schedule(shape, {.ahead = 4});
  }

  Schedule schedule(const Shape& shape, const ReductionParameters& own) const {
    return with_vectors(vectors_, StridedParameters{own}, shape.unroll, lanes_ * shape.rows,
                        shape.threads_y);
  }

  /// Visits all shapes that hold a row's elements, regardless of registers.
  template <class Visit>
  void each_shape(const Visit& visit) const {
    const std::int64_t neighbours = analysis_.extent(runs_.row_dim).value();
    for (int rows = 1; rows <= neighbours && rows * lanes_ <= kMostThreads; ++rows) {
      if (neighbours % rows != 0) continue;
      for (int cluster = 1; cluster <= most_cluster(analysis_); cluster *= 2) {
        const int x = rows * lanes_, least = whole_warps(x, 1);
        for (int y = least; x * y <= kMostThreads; y += least) {
          const Shape shape{rows, cluster, y, ceil_div(steps_, std::int64_t{y} * cluster)};
          if (x * y >= kLeastThreads && shape.unroll <= 64 && fits_shared(shape)) visit(shape);
          if (shape.unroll == 1) break;
        }
      }
    }
  }

 private:
  /// `y` rounded down, but not to 0, so that x * y is a multiple of 32.
  static int whole_warps(int x, int y) {
    const int step = 32 / std::gcd(x, 32);
    return std::max(step, y / step * step);
  }

  /// Rows whose runs together fill a sector.
  int least_rows() const {
    const std::int64_t neighbours = analysis_.extent(runs_.row_dim).value();
    int rows = 1;
    while (rows < neighbours && run_bytes(rows) < kSector) ++rows;
    while (neighbours % rows != 0) ++rows;
    return rows;
  }

  double run_bytes(int rows) const {
    return static_cast<double>(rows * runs_.length) *
           widest_element(analysis_, analysis_.outer_dims());
  }

  bool fits_shared(const Shape& shape) const {
    const std::size_t values = static_cast<std::size_t>(lanes_ * shape.rows * shape.threads_y +
                                                        shape.rows * shape.cluster + 1);
    return values * reductions_ * RowReduction::kScratchValue <= kMostScratch;
  }

  bool fits(const Shape& shape, double words) const {
    const double held = shape.unroll * words;
    const int threads = lanes_ * shape.rows * shape.threads_y;
    return held <= kMostWords &&
           threads * (kOtherWords + static_cast<int>(held)) <= analysis_.device().registers;
  }

  /// Approximate microseconds: traffic of a multiprocessor's blocks, in whole sectors of each run,
  /// then synchronization within a block and a cluster.
  double time_of(const Shape& shape, double words) const {
    const double run = run_bytes(shape.rows);
    const double moved = (run + (std::fmod(run, kSector) == 0 ? 0 : kSector)) *
                         static_cast<double>(steps_);  // for a block's rows
    const double blocks = static_cast<double>(rows_) / shape.rows * shape.cluster;
    const int threads = lanes_ * shape.rows * shape.threads_y;
    const DeviceModel& device = analysis_.device();
    const StridedCosts& costs = device.fitted->strided;
    const double at_once = std::min(std::floor(static_cast<double>(device.registers) / threads /
                                               (kOtherWords + shape.unroll * words)),
                                    std::floor(static_cast<double>(device.threads) / threads));
    const double each = std::ceil(blocks / device.multiprocessors);
    // Whole clusters cannot use all multiprocessors of a GPC.
    const double usable = device.multiprocessors * (1 - (shape.cluster - 1) / 64.0);
    const double waves = std::ceil(blocks / usable / std::max(1.0, at_once));
    const std::int64_t walked = std::int64_t{shape.unroll} * shape.threads_y * shape.cluster;
    const double idle = static_cast<double>(walked) / static_cast<double>(steps_) - 1;
    const double one =
        std::max(each * moved / shape.cluster / costs.bytes,
                 moved * static_cast<double>(rows_) / shape.rows / costs.all_bytes) +
        costs.idle * idle + (idle > 0 ? costs.some_idle : 0) +
        costs.threads * std::log2(threads / 32.0) + costs.unroll * shape.unroll +
        (shape.cluster > 1 ? costs.cluster + costs.cluster_more * std::log2(shape.cluster) : 0);
    return one * (1 + costs.wave * (waves - 1));
  }

  const ProgramAnalysis& analysis_;
  Runs runs_;
  VectorPlan vectors_;
  int lanes_;           // vectors of a run
  std::int64_t steps_;  // runs of a row
  std::int64_t rows_;
  std::size_t reductions_;
};

bool takes_strided(const ProgramAnalysis& analysis) {
  return analysis.stages() > 0 && !analysis.scatters() && !analysis.scans() &&
         runs_of(analysis).has_value();
}

VectorPlan vectors_of_runs(const ProgramAnalysis& analysis, const Runs& runs, int most = 8) {
  const VectorPlan plan = plan_vectors(analysis, runs.run_dim, most);
  return plan.conditions.empty() ? plan : no_vectors(analysis);
}

std::vector<Schedule> choose_strided(const ProgramAnalysis& analysis) {
  const Runs runs = runs_of(analysis).value();
  const StridedChoice choice(analysis, runs, vectors_of_runs(analysis, runs));
  std::vector<Schedule> schedules;
  if (auto held = choice.held()) schedules.push_back(std::move(*held));
  // For GPUs without clusters.
  if (schedules.empty() || schedules[0].reduction().cluster > 1)
    schedules.push_back(choice.looped());
  return schedules;
}

void search_strided(CandidateSearch& search) {
  const ProgramAnalysis& analysis = search.analysis;
  const Runs runs = runs_of(analysis).value();
  for (const VectorPlan& vectors : search.vectors()) {
    if (runs.length % vectors.vector != 0) continue;
    const StridedChoice choice(analysis, runs, vectors);
    for (const bool lean : {false, true}) {
      const double words = words_per_element(analysis, lean, false, runs.steps) * vectors.vector;
      choice.each_shape([&](const Shape& shape) {
        if (shape.unroll * words > kMostCandidateWords) return;
        if (shape.cluster > 1 && !search.clusters) return;
        const Schedule s = choice.schedule(shape, {.cluster = shape.cluster, .lean = lean});
        search.found.add(s, search.row_distance(s) +
                                steps_between(shape.cluster, search.rule.reduction().cluster) +
                                steps_between(shape.threads_y, search.rule.threads_y));
      });
    }
  }
}

Schedule complete_strided(const ProgramAnalysis& analysis, const Schedule& requested,
                          const std::string& text) {
  const auto runs = runs_of(analysis);
  if (!runs) refuse_schedule(analysis, text, "the kernel's rows do not lie in runs");
  Schedule schedule = complete_schedule(analysis, requested, dim_bit(runs->run_dim), text);
  auto& own = schedule.as<StridedParameters>();
  if (!requested.looped()) own.ahead = 1;
  const std::int64_t lanes = runs->length / schedule.vector;
  const std::int64_t rows = schedule.threads_x / lanes;
  if (schedule.threads_x % lanes != 0 || rows == 0 ||
      analysis.extent(runs->row_dim).value() % rows != 0)
    refuse_schedule(analysis, text, "its first threads are no runs of rows that divide all");
  if (schedule.threads() % 32 != 0)
    refuse_schedule(analysis, text, "its threads are no whole warps");
  if (own.cluster > most_cluster(analysis) || (own.cluster > 1 && schedule.looped()))
    refuse_schedule(analysis, text, "no such cluster shares its rows");
  require_held(analysis, schedule,
               std::int64_t{schedule.unroll} * schedule.threads_y * own.cluster * runs->length,
               text);
  return schedule;
}

}  // namespace

std::optional<Runs> runs_of(const ProgramAnalysis& analysis) {
  Runs runs{.row_dim = analysis.last_dim(analysis.outer_dims()),
            .run_dim = analysis.last_dim(analysis.inner_dims())};
  if (runs.row_dim < 0 || runs.run_dim < 0 || !analysis.row_length().is_constant() ||
      !analysis.extent(runs.row_dim).is_constant())
    return std::nullopt;
  runs.length = analysis.extent(runs.run_dim).value();
  runs.steps = analysis.inner_dims() & ~dim_bit(runs.run_dim);
  const int step = analysis.last_dim(runs.steps);
  // Odd lengths move single elements, which is slower than several kernels.
  if (step < 0 || runs.length > 256 || runs.length % 2 != 0) return std::nullopt;
  const auto lies_so = [&](std::size_t i) {
    const std::uint32_t access = analysis.instr(i).access;
    const DimSet dims = analysis.access_dims(access);
    const DimSet all = dim_bit(runs.row_dim) | dim_bit(runs.run_dim) | dim_bit(step);
    return (dims & all) == all && analysis.stride(access, runs.run_dim) == ir::Dim(1) &&
           analysis.stride(access, runs.row_dim) == ir::Dim(runs.length) &&
           analysis.stride(access, step) != ir::Dim(runs.length);
  };
  // Most accesses of the rows' elements.
  std::ptrdiff_t moved = 0;
  for (const std::size_t i : analysis.live_accesses()) {
    const DimSet dims = analysis.access_dims(analysis.instr(i).access);
    if ((dims & runs.steps) != 0 && (dims & analysis.outer_dims()) != 0) ++moved;
  }
  if (moved == 0 || 2 * std::ranges::count_if(analysis.live_accesses(), lies_so) <= moved)
    return std::nullopt;
  return runs;
}

const LoopSchedule kStridedSchedule = {true,           takes_strided, choose_strided,
                                       search_strided, map_strided,   complete_strided};

}  // namespace sinter::codegen
