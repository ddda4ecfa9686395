// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/ops/ops.h"
#include "ir/ops/product_types.h"

namespace sinter::ir::ops {

std::string list_types(Types types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

void invalid(const std::string& message) { throw Error(ErrorCode::kInvalidModel, message); }

void require_same_dtype(Types inputs) {
  for (const TensorType& input : inputs)
    if (input.dtype != inputs[0].dtype)
      invalid("inputs must share one element type, found " + list_types(inputs));
}

DType require_product_type(Types inputs) {
  const auto type = product_type(inputs[0].dtype, inputs[1].dtype);
  if (type) return *type;
  if (inputs[0].dtype == inputs[1].dtype) invalid("needs numbers, found " + list_types(inputs));
  invalid("inputs must share one element type, found " + list_types(inputs));
}

void require_numbers(Types inputs) {
  if (inputs[0].dtype == DType::kBool) invalid("needs numbers, found " + list_types(inputs));
  if (is_float8(inputs[0].dtype))
    invalid("floats of 8 bits are not computed in, cast them first; found " + list_types(inputs));
}

void require_float(Types inputs) {
  if (!is_float(inputs[0].dtype)) invalid("needs float elements, found " + list_types(inputs));
  require_numbers(inputs);
}

int axis_attr(const Attrs& attrs, std::string_view name, const Shape& shape) {
  const std::int64_t axis = attrs.get_int(name);
  if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size()))
    invalid(fmt::format("{} {} is not a dimension of {}: expected 0 to {}", name, axis,
                        to_string(shape), static_cast<std::int64_t>(shape.size()) - 1));
  return static_cast<int>(axis);
}

std::optional<Combine> combine_attr(const Attrs& attrs, bool none_allowed) {
  const std::string& name = attrs.get_string("combine");
  for (int c = 0; c < kCombineCount; ++c)
    if (name == to_string(static_cast<Combine>(c))) return static_cast<Combine>(c);
  if (none_allowed && name == "none") return std::nullopt;
  invalid(fmt::format("combine must be {}sum, prod, max or min, but is {}",
                      none_allowed ? "none, " : "", name));
}

bool channels_last_attr(const Attrs& attrs) {
  const std::int64_t layout = attrs.get_int("channels_last");
  if (layout != 0 && layout != 1) invalid(fmt::format("channels_last is {}, not 0 or 1", layout));
  return layout == 1;
}

}  // namespace sinter::ir::ops
