// Fused region of kind "sort": which buffers, and how rows lie in them.
#pragma once

#include <cstdint>
#include <span>

#include <sinter/dtype.h>

#include "codegen/plan/cost.h"
#include "codegen/plan/expr_table.h"
#include "ir/graph.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// outer * inner rows of `length` elements of type `dtype`: element e of row (o, i) is at
/// (o * length + e) * inner + i. The places (int64) of the first `count` elements in order go to
/// the same layout with `count` elements a row.
struct SortProblem {
  std::uint32_t input = 0, output = 0;  // plan buffers
  DType dtype = DType::kFloat32;
  ir::Dim outer, length, inner, count;
  bool descending = false;
};

/// `body` holds one ArgSort of its input.
SortProblem lower_sort(const ir::Graph& body, std::span<const std::uint32_t> inputs,
                       std::span<const std::uint32_t> outputs);

/// The step that the CPU runs.
plan::fb::SortStepT sort_step(const SortProblem& problem, ExprTable& exprs);

/// One pass over the elements, and `length * log2(length)` comparisons, of a bound below 2^32.
StepCost cost_of(const SortProblem& problem, const ExprTable& exprs);

}  // namespace sinter::codegen
