#include "codegen/families/loops/schedule_parts.h"

#include <algorithm>

#include "codegen/emit/approximations.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

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

int most_cluster(const ProgramAnalysis& analysis) {
  return std::min(kMostCluster, analysis.device().cluster_blocks);
}

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

}  // namespace sinter::codegen
