// Views that a new graph gets as it is built.
#pragma once

#include <string_view>

#include "fusion/layouts/layout.h"

namespace sinter::fusion {

/// A view of `value`; of a constant another constant.
ValueId add_view(GraphBuilder& builder, std::string_view op, ValueId value, const Attrs& attrs);
/// `value` transposed, through the transposes and reshapes in front of it where that leaves fewer.
ValueId add_transpose(GraphBuilder& builder, ValueId value, const Perm& perm);

}  // namespace sinter::fusion
