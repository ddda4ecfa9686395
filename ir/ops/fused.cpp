// The fused region: a node whose meaning is its body.
#include <sinter/error.h>

#include "ir/ops/ops.h"

namespace sinter::ir::ops {

std::vector<OpDef> fused_ops() {
  OpDef op;
  op.name = "Fused";
  op.kind = OpKind::kFused;
  op.min_inputs = 0;
  op.max_inputs = -1;
  op.attrs = {{"kind", AttrKind::kString, std::nullopt}};
  // GraphBuilder takes a fused node's types from its body, the evaluator its values.
  op.infer = [](const Attrs&, std::span<const TensorType>) -> std::vector<TensorType> {
    throw Error(ErrorCode::kInternal, "result types come from the body");
  };
  return {op};
}

}  // namespace sinter::ir::ops
