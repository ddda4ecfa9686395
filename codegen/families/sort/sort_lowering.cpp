// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include <sinter/error.h>

#include "codegen/families/sort/emit_sort.h"

namespace sinter::codegen {

SortProblem lower_sort(const Graph& body, Buffers inputs, Buffers outputs) {
  const Node* sort = outputs.size() == 1 ? body.producer(body.outputs()[0]) : nullptr;
  if (sort == nullptr || sort->op->name != "ArgSort" || inputs.size() != 1 ||
      sort->inputs[0] != body.inputs()[0])
    throw Error(ErrorCode::kUnsupported,
                "a region of kind 'sort' must be one ArgSort of a value in memory");
  const TensorType& type = body.type(sort->inputs[0]);
  const auto axis = static_cast<std::size_t>(sort->attrs.get_int("axis"));
  SortProblem problem;
  problem.input = inputs[0];
  problem.output = outputs[0];
  problem.dtype = type.dtype;
  problem.outer = problem.inner = 1;
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    Dim& count = d < axis ? problem.outer : problem.inner;
    if (d != axis) count *= type.shape[d];
  }
  problem.length = type.shape[axis];
  problem.count = sort->attrs.get_dims("count").at(0);
  problem.descending = sort->attrs.get_int("descending") != 0;
  return problem;
}

plan::fb::SortStepT sort_step(const SortProblem& problem, ExprTable& exprs) {
  plan::fb::SortStepT step;
  step.input = problem.input;
  step.output = problem.output;
  step.outer = exprs.intern(problem.outer);
  step.length = exprs.intern(problem.length);
  step.inner = exprs.intern(problem.inner);
  step.count = exprs.intern(problem.count);
  step.descending = problem.descending;
  return step;
}

StepCost cost_of(const SortProblem& problem, const ExprTable& exprs) {
  const Dim rows = problem.outer * problem.inner, elements = rows * problem.length;
  const auto most = ir::upper_bound(problem.length, exprs.ranges());
  const int levels = most && *most > 1 ? std::bit_width(static_cast<std::uint64_t>(*most - 1))
                     : most            ? 1
                                       : 32;
  StepCost work;
  work.bytes_read = elements * Dim(static_cast<std::int64_t>(size_of(problem.dtype)));
  work.bytes_written = rows * problem.count * Dim(8);
  work.flops = elements * Dim(levels);
  return work;
}

}  // namespace sinter::codegen
