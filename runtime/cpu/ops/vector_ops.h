// Kernels on float32 for the CPU's own vector instructions, chosen at run time.
#pragma once

#include "runtime/cpu/ops/kernel_types.h"

namespace sinter::runtime::cpu {

/// Kernels with float32 operands or results; null for what typed_ops.h has instead.
OpKernel find_vector_kernel(ScalarOp op, DType operand, DType result);
ReduceKernels find_vector_reduce(Combine combine);

}  // namespace sinter::runtime::cpu
