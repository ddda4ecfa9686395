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

/// The same for comparisons of 32- and 64-bit types, and for functions computed in float64.
OpKernel find_flag_kernel(ScalarOp op, DType operand, DType result);
OpKernel find_wide_kernel(ScalarOp op, DType operand, DType result);

/// The same for 8- and 32-bit integers, and for casts between these and float32.
OpKernel find_vector_integer_kernel(ScalarOp op, DType operand, DType result);

/// Casts from `operand` to float32 with rounding to odd: see round_to_odd.
OpKernel find_odd_cast(DType operand);

/// A cheaper kernel of `op` for operands in [-1, 1]; null if there is none.
OpKernel find_small_kernel(ScalarOp op, DType operand);

/// `type`: a compute type other than bool.
ReduceKernels find_reduce_kernels(Combine combine, DType type);
ReduceKernels find_vector_reduce(Combine combine);  // for float32

/// ReduceKernels::along_columns of sums in int32 whose values are of an 8-bit type.
ReduceColumns find_byte_sums(DType type);

/// to[r * to_step + c] combines from[r * from_step + c * stride + tap] over the taps, in their
/// order.
struct WindowRows {
  const float* from = nullptr;
  std::int64_t from_step = 0, rows = 1, columns = 0;
  const std::int64_t* taps = nullptr;
  std::int64_t count = 1;
  std::int64_t stride = 1;  // at most kMostWindowStride
  float* to = nullptr;
  std::int64_t to_step = 0;
};
inline constexpr std::int64_t kMostWindowStride = 4;
/// Elements that `along` may read, but does not use, behind those of a row.
inline constexpr std::int64_t kReadBehind = 64 * kMostWindowStride;
struct WindowKernels {
  void (*rows)(const WindowRows&) = nullptr;   // stride 1; for taps that are rows apart
  void (*along)(const WindowRows&) = nullptr;  // for taps in one row
};
WindowKernels find_window_kernels(Combine combine);  // for float32; null for products

/// Converts float16 or bfloat16 to float32; narrow() converts back, to nearest even.
void widen(DType from, const void* source, float* target, std::int64_t count);
void narrow(DType to, const float* source, void* target, std::int64_t count);

}  // namespace sinter::runtime::cpu
