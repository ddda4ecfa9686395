#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/approximations.h"
#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr int kPointwiseThreads = 256;

}  // namespace

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

namespace {

/// Vectors of a thread of a large tensor. What mostly moves is fastest with one: enough threads are
/// in flight. Arithmetic on several of one input at once overlaps with their loads; long code would
/// grow too large.
int pointwise_unroll(const ProgramAnalysis& analysis, const VectorPlan& vectors) {
  constexpr int kFewOperations = 8, kManyOperations = 40;
  const int operations = count_operations(analysis);
  if (operations <= kFewOperations || operations > kManyOperations) return 1;
  const double words = words_per_element(analysis) * vectors.vector;
  return words <= 4 ? 4 : 1;
}

}  // namespace

int count_operations(const ProgramAnalysis& analysis) {
  constexpr int kLong = 20;
  const Approximations math(analysis);
  int operations = 0;
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    if (analysis.instr(i).kind != InstrKind::Op || !math.is_live(i)) continue;
    const auto op = static_cast<ScalarOp>(analysis.instr(i).op);
    operations += math.function(i) != nullptr ? math.length(i) : is_long_operation(op) ? kLong : 1;
  }
  return operations;
}

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
  schedule.tail = plan.tail;
  return schedule;
}

int most_cluster(const ProgramAnalysis& analysis) {
  return std::min(kMostCluster, analysis.device().cluster_blocks);
}

VectorPlan no_vectors(const ProgramAnalysis& analysis) { return plan_vectors(analysis, -1); }

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
  const std::int64_t many_blocks = std::int64_t{analysis.device().multiprocessors} * 8 * 4;
  if (elements.is_constant() &&
      elements.value() / vectors.vector / kPointwiseThreads >= many_blocks)
    schedules[0].unroll = pointwise_unroll(analysis, vectors);
  if (!vectors.conditions.empty())
    schedules.push_back(with_vectors(no_vectors(analysis), Family::kPointwise));
  return schedules;
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
  if (!analysis.request().schedule.empty())
    return {parse_schedule(analysis, analysis.request().schedule)};
  if (can_schedule_transpose(analysis)) return choose_transpose(analysis);
  if (can_schedule_pointwise(analysis)) return choose_pointwise(analysis);
  if (can_schedule_scan(analysis)) return choose_scan(analysis);
  if (can_schedule_ordered(analysis)) return choose_ordered(analysis);
  const int along_rows = unit_strides(analysis, analysis.last_dim(analysis.outer_dims()));
  const int along_elements = unit_strides(analysis, analysis.last_dim(analysis.inner_dims()));
  if (can_schedule_column(analysis) && along_rows > along_elements)
    return can_schedule_window(analysis) && fills_windows(analysis) ? choose_window(analysis)
                                                                    : choose_column(analysis);
  if (can_schedule_row(analysis)) return choose_row(analysis);
  throw Error(ErrorCode::kUnsupported,
              fmt::format("kernel '{}': no schedule takes its loops", analysis.request().name));
}

}  // namespace sinter::codegen
