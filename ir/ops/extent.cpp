// Sizes that only the run knows.
//
// Extent(count) {symbol} -> count
//
// The number that `count` holds is what `symbol` stands for in the types and attributes of other
// nodes; GraphBuilder orders them behind this one (Node::extents). The symbol's range, which the
// graph has, bounds it; its maximum may be symbolic.
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

std::vector<TensorType> infer_extent(const Attrs& attrs, Types inputs) {
  if (inputs[0] != TensorType{DType::kInt64, {}})
    invalid("a size must be i64[], found " + to_string(inputs[0]));
  if (attrs.get_string("symbol").empty()) invalid("the size has no name");
  return {inputs[0]};
}

}  // namespace

std::vector<OpDef> extent_ops() {
  OpDef extent;
  extent.name = "Extent";
  extent.kind = OpKind::kExtent;
  extent.attrs = {{"symbol", AttrKind::kString, std::nullopt}};
  extent.infer = infer_extent;
  extent.evaluate = [](const Attrs&, Tensors inputs, Types) {
    return std::vector<Tensor>{inputs[0]};
  };
  return {extent};
}

}  // namespace sinter::ir::ops
