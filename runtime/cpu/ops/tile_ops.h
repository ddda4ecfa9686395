// SPDX-License-Identifier: Apache-2.0
// The kernels of tile programs: one scalar operator over a tile.
#pragma once

#include <cstdint>

#include "runtime/cpu/ops/kernel_types.h"

namespace sinter::runtime::cpu {

/// The kernel of `op` for operands of type `operand` (for a select: the type of its branches) and
/// results of type `result`. Both are compute types. Null if `op` is not defined for them.
OpKernel find_op_kernel(ScalarOp op, DType operand, DType result);
/// The same for float32 with vector instructions chosen at run time; null for operators that only
/// have plain loops.
OpKernel find_vector_kernel(ScalarOp op, DType operand, DType result);

/// The same for 8- and 32-bit integers, and for casts between these and float32.
OpKernel find_vector_integer_kernel(ScalarOp op, DType operand, DType result);

/// Casts from `operand` to float32 with rounding to odd: see round_to_odd.
OpKernel find_odd_cast(DType operand);

/// A cheaper kernel of `op` for operands in [-1, 1]; null if there is none.
OpKernel find_small_kernel(ScalarOp op, DType operand);

/// `type`: a compute type other than bool.
ReduceKernels find_reduce_kernels(Combine combine, DType type);
ReduceKernels find_vector_reduce(Combine combine);  // for float32

/// Converts float16 or bfloat16 to float32; narrow() converts back, to nearest even.
void widen(DType from, const void* source, float* target, std::int64_t count);
void narrow(DType to, const float* source, void* target, std::int64_t count);

}  // namespace sinter::runtime::cpu
