// SPDX-License-Identifier: Apache-2.0
// The kernels that tile programs are made of: one scalar primitive over a tile.
#pragma once

#include <cstdint>

#include "runtime/cpu/ops/kernel_types.h"

namespace sinter::runtime::cpu {

/// The kernel of `op` on operands of type `operand` (of a select: of its branches), with results of
/// type `result`; both compute types. Null if `op` is not defined on them.
OpKernel find_op_kernel(ScalarOp op, DType operand, DType result);
/// The same on float32 alone, by the CPU's own vector instructions, chosen at run time; null for
/// what has plain loops instead.
OpKernel find_vector_kernel(ScalarOp op, DType operand, DType result);

/// The same on integers of 8 and 32 bits, and for casts between these and float32.
OpKernel find_vector_integer_kernel(ScalarOp op, DType operand, DType result);

/// Casts of `operand` to float32, rounded to odd: see round_to_odd.
OpKernel find_odd_cast(DType operand);

/// A cheaper kernel of `op` for operands in [-1, 1]; null if there is none.
OpKernel find_small_kernel(ScalarOp op, DType operand);

/// `type` is a compute type other than bool.
ReduceKernels find_reduce_kernels(Combine combine, DType type);
ReduceKernels find_vector_reduce(Combine combine);  // of float32

/// float16 or bfloat16 to float32 and back, to nearest even.
void widen(DType from, const void* source, float* target, std::int64_t count);
void narrow(DType to, const float* source, void* target, std::int64_t count);

}  // namespace sinter::runtime::cpu
