// SPDX-License-Identifier: Apache-2.0
// Reductions over axes: one row each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

struct ReduceRow {
  const char* name;
  Combine combine;
  const char* pre;     // of x: an element
  const char* finish;  // of x: the combined value, y: the number of combined elements
  Growth growth = Growth::kNone;
};

constexpr ReduceRow kReduceRows[] = {
    {"ReduceSum", Combine::kSum, "x", "x"},
    {"ReduceMean", Combine::kSum, "x", "x / y"},
    {"ReduceMax", Combine::kMax, "x", "x"},
    {"ReduceMin", Combine::kMin, "x", "x"},
    {"ReduceProd", Combine::kProd, "x", "x", Growth::kPower},
    {"ReduceSumSquare", Combine::kSum, "x * x", "x", Growth::kPower},
};

}  // namespace

std::vector<TensorType> infer_reduce(const Attrs& attrs, Types inputs) {
  const TensorType& input = inputs[0];
  require_numbers(inputs);
  const auto& axes = attrs.get_ints("axes");
  const auto rank = static_cast<std::int64_t>(input.shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= rank || (i > 0 && axes[i] <= axes[i - 1]))
      invalid(fmt::format("axes [{}] must be sorted, unique dimensions of {}",
                          fmt::join(axes, ", "), to_string(input)));
  const std::int64_t keepdims = attrs.get_int("keepdims");
  if (keepdims != 0 && keepdims != 1) invalid(fmt::format("keepdims is {}, not 0 or 1", keepdims));
  TensorType result{input.dtype, {}};
  std::size_t next = 0;
  for (std::int64_t d = 0; d < rank; ++d) {
    const bool reduced = next < axes.size() && axes[next] == d;
    if (reduced) ++next;
    if (!reduced)
      result.shape.push_back(input.shape[static_cast<std::size_t>(d)]);
    else if (keepdims == 1)
      result.shape.push_back(1);
  }
  return {result};
}

std::vector<OpDef> reduce_ops() {
  std::vector<OpDef> ops;
  for (const ReduceRow& row : kReduceRows) {
    OpDef op;
    op.name = row.name;
    op.kind = OpKind::kReduce;
    op.attrs = {{"axes", AttrKind::kInts, std::nullopt},
                {"keepdims", AttrKind::kInt, Attr(std::int64_t{1})}};
    op.infer = infer_reduce;
    op.detail = ReduceDef{row.combine, parse_scalar_expr(row.pre), parse_scalar_expr(row.finish)};
    op.numerics.growth = row.growth;
    ops.push_back(std::move(op));
  }
  return ops;
}

}  // namespace sinter::ir::ops
