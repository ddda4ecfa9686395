// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/schedule_parts.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/approximations.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

int unit_strides(const ProgramAnalysis& analysis, int dim) {
  if (dim < 0 || analysis.outer_dims() == 0) return 0;
  // What is the same in adjacent rows, as the weights of a weighted sum of rows, is small.
  const DimSet rows = (analysis.inner_dims() & dim_bit(dim)) != 0
                          ? dim_bit(analysis.last_dim(analysis.outer_dims()))
                          : analysis.outer_dims();
  const auto runs_along = [&](std::size_t i) {
    const std::uint32_t access = analysis.instr(i).access;
    const DimSet dims = analysis.access_dims(access);
    return (dims & analysis.inner_dims()) != 0 && (dims & rows) != 0 &&
           analysis.stride(access, dim) == ir::Dim(1);
  };
  return static_cast<int>(std::ranges::count_if(analysis.live_accesses(), runs_along));
}

int widest_element(const ProgramAnalysis& analysis, DimSet dims) {
  std::size_t bytes = 1;
  for (const std::size_t i : analysis.live_accesses()) {
    const DimSet own = analysis.access_dims(analysis.instr(i).access);
    if ((own & dims) != 0 && (own & analysis.inner_dims()) != 0)
      bytes = std::max(bytes, analysis.memory_bytes(i));
  }
  return static_cast<int>(bytes);
}

int count_operations(const ProgramAnalysis& analysis) {
  constexpr int kLong = 20;
  const Approximations math(analysis);
  int operations = 0;
  for (const std::size_t i : analysis.live(InstrKind::Op)) {
    if (!math.is_live(i)) continue;
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

void refuse_schedule(const ProgramAnalysis& analysis, const std::string& text,
                     const std::string& why) {
  throw Error(ErrorCode::kUsage,
              fmt::format("schedule '{}' for kernel '{}': {}", text, analysis.request().name, why));
}

Schedule complete_schedule(const ProgramAnalysis& analysis, const Schedule& requested, DimSet dims,
                           const std::string& text) {
  const int dim = requested.vector > 1 ? analysis.last_dim(dims) : -1;
  Schedule schedule = with_vectors(plan_vectors(analysis, dim, requested.vector), requested.kind,
                                   requested.unroll, requested.threads_x, requested.threads_y);
  if (schedule.vector != requested.vector || !schedule.conditions.empty())
    refuse_schedule(analysis, text, fmt::format("its vectors are {} long", schedule.vector));
  if (schedule.threads() > 1024)
    refuse_schedule(analysis, text, "a block has at most 1024 threads");
  return schedule;
}

void require_held(const ProgramAnalysis& analysis, const Schedule& schedule, std::int64_t held,
                  const std::string& text) {
  const ir::Dim length = analysis.row_length();
  if (!schedule.looped() && !(length.is_constant() && length.value() <= held))
    refuse_schedule(analysis, text, fmt::format("it holds {} elements of a row", held));
}

}  // namespace sinter::codegen
