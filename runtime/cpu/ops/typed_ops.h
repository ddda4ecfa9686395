// Kernels for every type, in plain loops.
#pragma once

#include "runtime/cpu/ops/kernel_types.h"

namespace sinter::runtime::cpu {

OpKernel find_typed_kernel(ScalarOp op, DType operand, DType result);
ReduceKernels find_typed_reduce(Combine combine, DType type);

}  // namespace sinter::runtime::cpu
