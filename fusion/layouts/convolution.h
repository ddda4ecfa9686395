// What a convolution with channels last becomes.
#pragma once

#include <span>

#include "fusion/context.h"

namespace sinter::fusion {

/// The convolution `node` of operands x [n, d.., c], w [m, k.., c / group] and bias if it has one:
/// a Conv, or, `as_kernels`, what is better: a MatMul where windows are single elements, or lie
/// side by side in an x that is stored for it anyway; windows times weights and a sum where each
/// channel is by itself; zeros behind the channels of an x of 16 bits or 8 that is stored for it
/// anyway.
ValueId add_channels_last_conv(GraphBuilder& builder, const Node& node,
                               std::span<const ValueId> inputs, bool as_kernels);

}  // namespace sinter::fusion
