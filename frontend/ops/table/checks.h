// SPDX-License-Identifier: Apache-2.0
// Checks of an operator's inputs by what its specification says of them.
#pragma once

#include <initializer_list>
#include <string_view>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Throws Error(kInvalidModel) unless `value`, which `what` names, has one of `dtypes`.
void check_dtype(const NodeContext& node, ValueId value, std::string_view what,
                 std::initializer_list<DType> dtypes);
/// Throws Error(kInvalidModel) unless `value` has the shape `wanted`. Dimensions that are symbolic
/// and not known to be equal are a DimMismatch, which import may take as equal.
void check_shape(const NodeContext& node, ValueId value, std::string_view what,
                 const Shape& wanted);
/// Likewise where a dimension of one element broadcasts, for those of `wanted` that `may_be_one`
/// has as true.
void check_broadcasts(const NodeContext& node, ValueId value, std::string_view what,
                      const Shape& wanted, const std::vector<bool>& may_be_one);
/// Throws Error(kInvalidModel) unless both or none of inputs `a` and `b` are there.
bool has_both(const NodeContext& node, std::size_t a, std::string_view a_name, std::size_t b,
              std::string_view b_name);

}  // namespace sinter::frontend
