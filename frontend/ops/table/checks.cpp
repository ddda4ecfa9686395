// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/table/checks.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {

void check_dtype(const NodeContext& node, ValueId value, std::string_view what,
                 std::initializer_list<DType> dtypes) {
  const DType found = node.dtype(value);
  if (std::ranges::find(dtypes, found) != dtypes.end()) return;
  std::string names;
  for (const DType dtype : dtypes)
    names += (names.empty() ? "" : " or ") + std::string(to_string(dtype));
  node.invalid("{} is {}; its elements must be {}", what, node.type(value), names);
}

void check_broadcasts(const NodeContext& node, ValueId value, std::string_view what,
                      const Shape& wanted, const std::vector<bool>& may_be_one) {
  const Shape shape = node.shape(value);
  const auto text = [&] {
    return fmt::format("{} is {}; it must be {}", what, node.type(value), wanted);
  };
  if (shape.size() != wanted.size()) node.invalid(text());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == wanted[d] || (may_be_one[d] && shape[d] == Dim(1))) continue;
    const Dim difference = shape[d] - wanted[d];
    if (difference == Dim(0)) continue;
    if (difference.is_constant()) node.invalid(text());
    throw ir::DimMismatch(shape[d], wanted[d],
                          text() + ": give these dimensions numbers, or one name (--dim)");
  }
}

void check_shape(const NodeContext& node, ValueId value, std::string_view what,
                 const Shape& wanted) {
  check_broadcasts(node, value, what, wanted, std::vector<bool>(wanted.size(), false));
}

bool has_both(const NodeContext& node, std::size_t a, std::string_view a_name, std::size_t b,
              std::string_view b_name) {
  if (node.has_input(a) != node.has_input(b))
    node.invalid("{} and {} must be given together, but {} is left out", a_name, b_name,
                 node.has_input(a) ? b_name : a_name);
  return node.has_input(a);
}

}  // namespace sinter::frontend
