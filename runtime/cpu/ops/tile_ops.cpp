#include "runtime/cpu/ops/tile_ops.h"

#include "runtime/cpu/ops/typed_ops.h"
#include "runtime/cpu/ops/vector_ops.h"

namespace sinter::runtime::cpu {

OpKernel find_op_kernel(ScalarOp op, DType operand, DType result) {
  if (const OpKernel kernel = find_vector_kernel(op, operand, result)) return kernel;
  return find_typed_kernel(op, operand, result);
}

ReduceKernels find_reduce_kernels(Combine combine, DType type) {
  if (type == DType::kFloat32) return find_vector_reduce(combine);
  return find_typed_reduce(combine, type);
}

}  // namespace sinter::runtime::cpu
