// SPDX-License-Identifier: Apache-2.0
// The replacement of a convolution with channels last.
#pragma once

#include <span>

#include "fusion/context.h"

namespace sinter::fusion {

/// The convolution `node` of x [n, d.., c], w [m, k.., c / group] and maybe a bias, as a Conv. With
/// `as_kernels`, the best of: a MatMul if windows are single elements, or adjacent in an x that is
/// stored again anyway; windows times weights and a sum if depthwise; zero-padded channels for an x
/// of 16 or 8 bits that is stored again anyway.
ValueId add_channels_last_conv(GraphBuilder& builder, const Node& node,
                               std::span<const ValueId> inputs, bool as_kernels);

}  // namespace sinter::fusion
