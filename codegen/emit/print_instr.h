// SPDX-License-Identifier: Apache-2.0
// Scalar instructions as device code: calls of codegen/device/elementary.cuh.
#pragma once

#include <span>
#include <string>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// A constant of compute type `type`, as an expression of exactly that type.
std::string print_constant(DType type, double float_value, std::int64_t int_value);
inline std::string print_constant(const plan::fb::InstrT& instr) {
  return print_constant(static_cast<DType>(instr.dtype), instr.constant_float, instr.constant_int);
}

/// Whether x / b can be computed from 1 / b, rounded to nearest, for every b >= `low`.
bool divides_by_inverse(double low);

/// What is known of an operand besides its text.
struct Operand {
  std::string text;
  const plan::fb::InstrT* constant = nullptr;  // the instruction, if it is a constant
  std::string inverse;                         // text of its reciprocal, if available
};

/// The expression that computes `op`; `from` is the operands' type (of kSelect: the values'),
/// `type` the result's. Both are compute types.
std::string print_op(ScalarOp op, DType type, DType from, std::span<const Operand> args);

/// "Sum", "Prod", "Max" or "Min": the structs in reduce.cuh.
std::string combine_name(Combine combine);

}  // namespace sinter::codegen
