#include "codegen/cuda/schedule.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr int kPointwiseThreads = 256;
constexpr int kBlockThreads = 128;         // of blocks that hold several rows
constexpr std::int64_t kProcessors = 132;  // of an H100 or H200: fewer blocks leave some idle
// Registers that a thread spends on its elements: more rows in flight are worth more than fewer
// threads, so long rows are spread over a block early.
constexpr double kWarpRowWords = 72, kBlockRowWords = 44, kMostWords = 96;

int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

int power_of_two_up(std::int64_t value) {
  int power = 1;
  while (power < value) power *= 2;
  return power;
}

std::optional<std::int64_t> upper(const ProgramAnalysis& analysis, const ir::Dim& dim) {
  if (dim.is_constant()) return dim.value();
  return ir::upper_bound(dim, analysis.exprs().ranges());
}

Schedule with_vectors(const VectorPlan& plan, Family family) {
  Schedule schedule;
  schedule.family = family;
  schedule.vector = plan.vector;
  schedule.vector_dim = plan.vector > 1 ? plan.dim : -1;
  schedule.vector_access = plan.vector_access;
  schedule.conditions = plan.conditions;
  return schedule;
}

VectorPlan no_vectors(const ProgramAnalysis& analysis) { return plan_vectors(analysis, -1); }

/// How many loads and stores run along `dim` with stride one and also vary with both the rows and
/// the elements of rows: those are what a reduction's memory traffic consists of.
int unit_strides(const ProgramAnalysis& analysis, int dim) {
  if (dim < 0) return 0;
  int count = 0;
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    if (!analysis.value(i).live || !plan::is_memory(instr.kind)) continue;
    const DimSet dims = analysis.access_dims(instr.access);
    if ((dims & analysis.inner_dims()) == 0 || (dims & analysis.outer_dims()) == 0) continue;
    const std::uint32_t stride =
        analysis.access(instr.access).strides[static_cast<std::size_t>(dim)];
    count += analysis.exprs().dim(stride) == ir::Dim(1);
  }
  return count;
}

/// Rows of a block whose rows take `lanes` <= 32 threads each: a block of kBlockThreads, or less
/// where so few rows exist that processors would stay idle.
int rows_per_block(const ProgramAnalysis& analysis, int lanes) {
  const int fewest = 32 / lanes;
  int rows = kBlockThreads / lanes;
  const auto all = upper(analysis, analysis.size_of_dims(analysis.outer_dims()));
  while (all && rows > fewest && *all < kProcessors * rows) rows /= 2;
  return rows;
}

/// True where the compiler would rather finish the work on one vector than load the next: long
/// operations before the first reduction, on more than one vector from memory. Such loads are
/// staged.
bool should_stage(const ProgramAnalysis& analysis, const Schedule& schedule) {
  int loads = 0;
  bool is_long = false;
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    const ValueInfo& info = analysis.value(i);
    if (!info.live || info.stage > 0 || (info.dims & analysis.inner_dims()) == 0) continue;
    if (instr.kind == InstrKind::Op)
      is_long = is_long || is_long_operation(static_cast<ScalarOp>(instr.op));
    loads += can_stage(analysis, schedule, i) ? 1 : 0;
  }
  return is_long && loads * schedule.unroll > 1;
}

Schedule lanes_schedule(const ProgramAnalysis& analysis, const VectorPlan& vectors, int lanes,
                        int unroll) {
  Schedule schedule = with_vectors(vectors, Family::kRow);
  schedule.threads_x = lanes;
  schedule.unroll = unroll;
  schedule.threads_y = lanes <= 32 ? rows_per_block(analysis, lanes) : 1;
  schedule.staged = should_stage(analysis, schedule);
  return schedule;
}

/// Rows of `length` vectors, held in registers if they fit.
Schedule row_of(const ProgramAnalysis& analysis, const VectorPlan& vectors, std::int64_t length) {
  const double words = words_per_element(analysis) * vectors.vector;  // of one vector
  if (length <= 32)
    return lanes_schedule(analysis, vectors, power_of_two_up(std::max<std::int64_t>(length, 1)), 1);
  const int in_warp = ceil_div(length, 32);
  if (in_warp == 1 || in_warp * words <= kWarpRowWords)
    return lanes_schedule(analysis, vectors, 32, in_warp);
  // A block a row. Least idle lanes first, then the most vectors per thread that leave registers
  // for other blocks.
  Schedule best;
  double best_cost = 1e30;
  for (int unroll = 1; unroll <= 16; ++unroll) {
    const int warps = ceil_div(length, std::int64_t{32} * unroll);
    const double used = unroll * words;
    if (warps < 2 || warps > 32 || (unroll > 1 && used > kMostWords)) continue;
    const double idle = static_cast<double>(warps) * 32 * unroll / static_cast<double>(length) - 1;
    const double crowded = std::max(0.0, used - kBlockRowWords) / kBlockRowWords;
    const double cost =
        idle + crowded + (warps > 8 ? 0.02 * (warps - 8) : 0) + (unroll == 1 ? 0.1 : 0);
    if (cost < best_cost) {
      best_cost = cost;
      best = lanes_schedule(analysis, vectors, 32 * warps, unroll);
    }
  }
  if (best_cost < 1e30) return best;
  return lanes_schedule(analysis, vectors, length >= 8192 ? 1024 : 256, 0);
}

/// Adds `dim <= max` to the conditions.
void limit(Schedule& schedule, const ProgramAnalysis& analysis, const ir::Dim& dim,
           std::int64_t max) {
  const std::uint32_t expression = analysis.exprs().intern(dim);
  for (auto& condition : schedule.conditions)
    if (condition.expression() == expression) {
      condition = plan::fb::Condition(expression, condition.divisor(), max);
      return;
    }
  schedule.conditions.emplace_back(expression, 1, max);
}

/// Schedules for rows of unknown length: each takes rows up to a bound. True if one takes them all.
bool add_tiers(const ProgramAnalysis& analysis, const VectorPlan& vectors,
               std::vector<Schedule>& schedules) {
  const ir::Dim length = analysis.size_of_dims(analysis.inner_dims());
  const auto longest = upper(analysis, length);
  const double words = words_per_element(analysis) * vectors.vector;
  struct Tier {
    int lanes;
    double words;  // registers to spend on elements
  };
  for (const Tier tier : {Tier{32, words}, Tier{32, kWarpRowWords}, Tier{256, kBlockRowWords}}) {
    if (vectors.vector == 1 && tier.words == words) continue;  // few rows are that short
    int unroll = std::clamp(static_cast<int>(tier.words / words), 1, 16);
    std::int64_t bound = std::int64_t{tier.lanes} * unroll * vectors.vector;
    const bool last = longest && *longest <= bound;
    if (last) {
      unroll = std::max(1, ceil_div(*longest, std::int64_t{tier.lanes} * vectors.vector));
      bound = *longest;
    }
    Schedule schedule = lanes_schedule(analysis, vectors, tier.lanes, unroll);
    if (!last) limit(schedule, analysis, length, bound);
    schedules.push_back(std::move(schedule));
    if (last) return true;
  }
  return false;
}

}  // namespace

std::string Schedule::to_string() const {
  const char* names[] = {"pointwise", "row", "column"};
  std::string text = fmt::format("{} vector={} ", names[static_cast<int>(family)], vector);
  text += looped() ? std::string("looped") : fmt::format("unroll={}", unroll);
  return text + fmt::format(" threads={}x{}{}", threads_x, threads_y, staged ? " staged" : "");
}

double words_per_element(const ProgramAnalysis& analysis) {
  const DimSet elements =
      analysis.program().inner_dims > 0 ? analysis.inner_dims() : analysis.outer_dims();
  double words = 0;
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    const ValueInfo& info = analysis.value(i);
    if (!info.live || (info.dims & elements) == 0) continue;
    if (instr.kind == InstrKind::Load)
      words +=
          static_cast<double>(size_of(analysis.buffer_type(analysis.access(instr.access).buffer))) /
          4;
    if (instr.kind == InstrKind::Op && keeps_for_later(analysis, i))
      words += std::max(1.0, static_cast<double>(size_of(analysis.type_of(i))) / 4);
  }
  return std::max(words, 0.5);
}

bool is_long_operation(ScalarOp op) {
  switch (op) {
    case ScalarOp::kDiv:
    case ScalarOp::kMod:
    case ScalarOp::kFmod:
    case ScalarOp::kPow:
    case ScalarOp::kExp:
    case ScalarOp::kLog:
    case ScalarOp::kErf:
    case ScalarOp::kTanh:
    case ScalarOp::kSin:
    case ScalarOp::kCos: return true;
    default: return false;
  }
}

bool can_stage(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load) {
  constexpr std::size_t kMostShared =
      24 * 1024;  // of one array: two blocks' worth in the static 48 KiB
  const auto& instr = analysis.instr(load);
  if (instr.kind != InstrKind::Load || schedule.looped() || schedule.vector == 1 ||
      !schedule.vector_access[instr.access])
    return false;
  const auto& access = analysis.access(instr.access);
  const std::size_t bytes =
      size_of(analysis.buffer_type(access.buffer)) * static_cast<std::size_t>(schedule.vector);
  // Rows of their own: what all rows share comes from the cache in no time.
  return access.guards.empty() && access.gathers.empty() && bytes >= 4 &&
         (analysis.access_dims(instr.access) & analysis.outer_dims()) != 0 &&
         bytes * static_cast<std::size_t>(schedule.unroll * schedule.threads()) <= kMostShared;
}

bool keeps_for_later(const ProgramAnalysis& analysis, std::size_t value) {
  const ValueInfo& info = analysis.value(value);
  for (std::size_t i = value + 1; i < analysis.instr_count(); ++i) {
    const auto& user = analysis.instr(i);
    if (!analysis.value(i).live || user.kind == InstrKind::Reduce) continue;
    if (analysis.value(i).stage > info.stage &&
        std::find(user.args.begin(), user.args.end(), value) != user.args.end())
      return true;
    if (!plan::is_memory(user.kind)) continue;
    for (const auto& gather : analysis.access(user.access).gathers)
      if (gather.value() == value && analysis.value(i).stage > info.stage) return true;
  }
  return false;
}

bool can_schedule_pointwise(const ProgramAnalysis& analysis) {
  return analysis.program().inner_dims == 0 || (analysis.scatters() && !analysis.combines());
}

std::vector<Schedule> choose_pointwise(const ProgramAnalysis& analysis) {
  const DimSet all = analysis.outer_dims() | analysis.inner_dims();
  const VectorPlan vectors = plan_vectors(analysis, analysis.last_dim(all));
  std::vector<Schedule> schedules = {with_vectors(vectors, Family::kPointwise)};
  const ir::Dim elements = analysis.size_of_dims(all);
  // Large tensors: several vectors per thread, so that more loads are in flight.
  if (elements.is_constant() &&
      elements.value() / vectors.vector / kPointwiseThreads >= kProcessors * 8 * 4) {
    const double words = words_per_element(analysis) * vectors.vector;
    bool is_long = false;  // then threads have enough to do, and their code would grow large
    for (std::size_t i = 0; i < analysis.instr_count(); ++i)
      is_long = is_long || (analysis.instr(i).kind == InstrKind::Op &&
                            is_long_operation(static_cast<ScalarOp>(analysis.instr(i).op)));
    schedules[0].unroll = is_long ? 1 : words <= 4 ? 4 : words <= 16 ? 2 : 1;
  }
  if (!vectors.conditions.empty())
    schedules.push_back(with_vectors(no_vectors(analysis), Family::kPointwise));
  return schedules;
}

bool can_schedule_row(const ProgramAnalysis& analysis) { return analysis.program().inner_dims > 0; }

std::vector<Schedule> choose_row(const ProgramAnalysis& analysis) {
  const int dim = analysis.last_dim(analysis.inner_dims());
  const VectorPlan vectors = plan_vectors(analysis, dim), scalar = no_vectors(analysis);
  const ir::Dim length = analysis.size_of_dims(analysis.inner_dims());
  std::vector<Schedule> schedules;
  if (length.is_constant()) {
    schedules.push_back(row_of(analysis, vectors, length.value() / vectors.vector));
    if (!vectors.conditions.empty()) schedules.push_back(row_of(analysis, scalar, length.value()));
    return schedules;
  }
  if (vectors.vector > 1 && add_tiers(analysis, vectors, schedules) && vectors.conditions.empty())
    return schedules;
  if (!add_tiers(analysis, scalar, schedules))
    schedules.push_back(lanes_schedule(analysis, scalar, 256, 0));
  return schedules;
}

bool can_schedule_column(const ProgramAnalysis& analysis) {
  return analysis.program().inner_dims > 0 && analysis.outer_dims() != 0;
}

std::vector<Schedule> choose_column(const ProgramAnalysis& analysis) {
  Schedule schedule = with_vectors(no_vectors(analysis), Family::kColumn);
  const ir::Dim length = analysis.size_of_dims(analysis.inner_dims());
  schedule.unroll = 0;
  schedule.threads_x = 32;
  schedule.threads_y = 16;
  if (length.is_constant()) {
    const std::int64_t n = std::max<std::int64_t>(length.value(), 1);
    schedule.threads_y = std::min(16, power_of_two_up((n + 3) / 4));
    schedule.threads_x = std::max(32, kBlockThreads / schedule.threads_y);
    const int each = ceil_div(n, schedule.threads_y);
    if (each * words_per_element(analysis) <= kBlockRowWords) schedule.unroll = each;
    if (n >= 2048) schedule.threads_y = 32;
  }
  return {schedule};
}

bool can_schedule_ordered(const ProgramAnalysis& analysis) {
  return analysis.combines() && analysis.stages() == 0;
}

std::vector<Schedule> choose_ordered(const ProgramAnalysis& analysis) {
  Schedule schedule = with_vectors(no_vectors(analysis), Family::kRow);
  schedule.threads_x = 1;
  schedule.threads_y = kBlockThreads;
  schedule.unroll = 0;
  return {schedule};
}

std::vector<Schedule> choose_schedules(const ProgramAnalysis& analysis) {
  if (can_schedule_pointwise(analysis)) return choose_pointwise(analysis);
  if (can_schedule_ordered(analysis)) return choose_ordered(analysis);
  const int along_rows = unit_strides(analysis, analysis.last_dim(analysis.outer_dims()));
  const int along_elements = unit_strides(analysis, analysis.last_dim(analysis.inner_dims()));
  if (can_schedule_column(analysis) && along_rows > along_elements) return choose_column(analysis);
  if (can_schedule_row(analysis)) return choose_row(analysis);
  throw Error(ErrorCode::kUnsupported,
              fmt::format("kernel '{}': no schedule takes its loops", analysis.request().name));
}

}  // namespace sinter::codegen
