// SPDX-License-Identifier: Apache-2.0
// Checks an operator's inputs against its specification.
#pragma once

#include <initializer_list>
#include <string_view>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Throws Error(kInvalidModel) unless `value`, called `what` in errors, has one of `dtypes`.
void check_dtype(const NodeContext& node, ValueId value, std::string_view what,
                 std::initializer_list<DType> dtypes);
/// Throws Error(kInvalidModel) unless `value` has the shape `wanted`. Throws DimMismatch for
/// symbolic dimensions that may be equal; the importer may then assume that they are.
void check_shape(const NodeContext& node, ValueId value, std::string_view what,
                 const Shape& wanted);
/// The same, but dimensions whose `may_be_one` is true may be 1.
void check_broadcasts(const NodeContext& node, ValueId value, std::string_view what,
                      const Shape& wanted, const std::vector<bool>& may_be_one);
/// Whether inputs `a` and `b` are present; throws Error(kInvalidModel) if only one is.
bool has_both(const NodeContext& node, std::size_t a, std::string_view a_name, std::size_t b,
              std::string_view b_name);

}  // namespace sinter::frontend
