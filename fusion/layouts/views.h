// SPDX-License-Identifier: Apache-2.0
// Views added while a new graph is built.
#pragma once

#include <string_view>

#include "fusion/layouts/layout.h"

namespace sinter::fusion {

/// A view of `value`; for a constant, another constant.
ValueId add_view(GraphBuilder& builder, std::string_view op, ValueId value, const Attrs& attrs);
/// `value` transposed, merged with preceding transposes and reshapes if that leaves fewer.
ValueId add_transpose(GraphBuilder& builder, ValueId value, const Perm& perm);

}  // namespace sinter::fusion
