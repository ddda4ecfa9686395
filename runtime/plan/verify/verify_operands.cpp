// SPDX-License-Identifier: Apache-2.0
// Verifies operands that several kinds of work share.
#include "runtime/plan/verify/verify_kinds.h"

namespace sinter::plan {

void verify_strided(const Checker& check, const fb::MatrixT& matrix, std::size_t batch,
                    const char* what) {
  const fb::BufferT& buffer = check.buffer(matrix.buffer, what);
  const DType dtype = check.dtype(matrix.dtype, what);
  if (buffer.dtype != matrix.dtype)
    check.fail("{} is of type {} in a buffer of type {}", what, to_string(dtype),
               to_string(static_cast<DType>(buffer.dtype)));
  check.expression(matrix.offset, what);
  check.expression(matrix.row_stride, what);
  check.expression(matrix.col_stride, what);
  if (matrix.batch_strides.size() != batch)
    check.fail("{} has {} batch strides for {} batch dimensions", what, matrix.batch_strides.size(),
               batch);
  check.expressions(matrix.batch_strides, what);
}

bool is_one(const Checker& check, std::uint32_t expression) {
  const fb::ExprNode& node = check.plan.expressions[expression];
  return node.op() == fb::ExprOp::Constant && node.value() == 1;
}

bool is_narrow(DType type) { return is_arithmetic_float(type) && type != DType::kFloat64; }

bool are_narrow(std::uint8_t a, std::uint8_t b, std::uint8_t result) {
  const auto is_narrow = [](std::uint8_t type) {
    return static_cast<DType>(type) == DType::kInt8 || static_cast<DType>(type) == DType::kUInt8;
  };
  return is_narrow(a) && is_narrow(b) && static_cast<DType>(result) == DType::kInt32;
}

}  // namespace sinter::plan
