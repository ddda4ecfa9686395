// Matrix products.
#include <sinter/error.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

/// [batch..., m, k] x [batch..., k, n] -> [batch..., m, n]; the batch dimensions broadcast.
std::vector<TensorType> infer_matmul(const Attrs&, std::span<const TensorType> inputs) {
  require_same_dtype(inputs);
  if (inputs[0].dtype == DType::kBool) invalid("needs numbers, found " + list_types(inputs));
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  if (a.size() < 2 || b.size() < 2)
    invalid("needs two matrices (rank 2 or more), found " + list_types(inputs));
  require_equal(a.back(), b[b.size() - 2], [&] {
    return "the last dimension of the first input and the last but one of the second differ: " +
           list_types(inputs);
  });
  Shape shape = with_context(list_types(inputs), [&] {
    return broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  });
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  return {{inputs[0].dtype, shape}};
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  OpDef matmul;
  matmul.name = "MatMul";
  matmul.kind = OpKind::kLibrary;
  matmul.min_inputs = matmul.max_inputs = 2;
  matmul.infer = infer_matmul;
  matmul.evaluate = reference::evaluate_matmul;
  return {matmul};
}

}  // namespace sinter::ir::ops
