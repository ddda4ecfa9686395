// SPDX-License-Identifier: Apache-2.0
// What the files of operators share. registry.cpp lists their tables.
#pragma once

#include <string>
#include <vector>

#include "ir/op_def.h"

namespace sinter::ir::ops {

/// "f32[2, 3], i64[]".
std::string list_types(Types types);

/// Throws Error(kInvalidModel).
[[noreturn]] void invalid(const std::string& message);

/// Throws unless all inputs have one element type.
void require_same_dtype(Types inputs);
/// The element type of the product of the first two inputs (ir/ops/product_types.h).
DType require_product_type(Types inputs);
/// Throws unless the first input has a type for arithmetic: neither bool nor an 8-bit float.
void require_numbers(Types inputs);
/// Throws unless it is also a float.
void require_float(Types inputs);
/// The attribute `name` as an axis of `shape`: 0 <= axis < rank, or throws.
int axis_attr(const Attrs& attrs, std::string_view name, const Shape& shape);

/// The attribute "combine" by name; nothing for "none", which only `none_allowed` allows. Throws
/// for other names.
std::optional<Combine> combine_attr(const Attrs& attrs, bool none_allowed);

/// The result type of a reduction with attributes "axes" and "keepdims".
std::vector<TensorType> infer_reduce(const Attrs& attrs, Types inputs);

/// The attribute "channels_last"; throws unless it is 0 or 1.
bool channels_last_attr(const Attrs& attrs);

}  // namespace sinter::ir::ops
