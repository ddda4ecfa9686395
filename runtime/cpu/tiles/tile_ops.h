// The kernels that tile programs are made of: one scalar primitive over a tile.
#pragma once

#include <cstdint>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

namespace sinter::runtime::cpu {

/// Values of one operand over a tile of rows x cols: value (r, c) is at data[r * row_stride + c],
/// or at data[r * row_stride] if it is one per row.
struct View {
  const void* data = nullptr;
  std::int64_t row_stride = 0;  // elements
  bool per_column = false;
};

/// Result (r, c) goes to result[r * result_stride + c]. It may be an operand's own place, if that
/// has the same strides and element size.
struct OpArgs {
  std::int64_t rows = 0, cols = 0;
  void* result = nullptr;
  std::int64_t result_stride = 0;
  View args[3];
};
using OpKernel = void (*)(const OpArgs&);

/// The kernel of `op` on operands of type `operand` (of a select: of its branches), with results of
/// type `result`; both compute types. Null if `op` is not defined on them.
OpKernel find_op_kernel(ScalarOp op, DType operand, DType result);

/// Casts of `operand` to float32, rounded to odd: see round_to_odd.
OpKernel find_odd_cast(DType operand);

/// A cheaper kernel of `op` for operands in [-1, 1]; null if there is none.
OpKernel find_small_kernel(ScalarOp op, DType operand);

/// A reduction of rows x cols values into accumulators of kAccumulatorBytes each: one per row, or
/// one per column. Partial sums within a tile are in the type itself over a fixed number of lanes,
/// across tiles float32 accumulates in float64; the order depends on the sizes alone.
inline constexpr std::size_t kAccumulatorBytes = 8;
struct ReduceArgs {
  std::int64_t rows = 0, cols = 0;
  View value;
  void* accumulators = nullptr;
};
struct ReduceKernels {
  void (*init)(void* accumulators, std::int64_t count) = nullptr;
  void (*along_rows)(const ReduceArgs&) = nullptr;     // one accumulator per row
  void (*along_columns)(const ReduceArgs&) = nullptr;  // one accumulator per column
  void (*finish)(const void* accumulators, void* result, std::int64_t count) = nullptr;
};
/// `type` is a compute type other than bool.
ReduceKernels find_reduce_kernels(Combine combine, DType type);

/// float16 or bfloat16 to float32 and back, to nearest even.
void widen(DType from, const void* source, float* target, std::int64_t count);
void narrow(DType to, const float* source, void* target, std::int64_t count);

}  // namespace sinter::runtime::cpu
