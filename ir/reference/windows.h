// SPDX-License-Identifier: Apache-2.0
// Windows over spatial dimensions, from attributes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ir/attributes.h"
#include "ir/dim/dim.h"

namespace sinter::ir {

/// The attribute `name`, a list of `size` integers, all at least `least`. Throws
/// Error(kInvalidModel) otherwise.
const Ints& ints_attr(const Attrs& attrs, std::string_view name, std::size_t size,
                      std::int64_t least);

/// The windows of a convolution or of Unfold over spatial dimensions.
struct Windows {
  Ints kernel, strides, dilations, pads_begin, pads_end;
};
/// Reads attributes "strides", "dilations", "pads_begin" and "pads_end"; throws
/// Error(kInvalidModel) if one is invalid.
Windows windows_attr(const Attrs& attrs, Ints kernel);
/// Number of windows along each spatial dimension: floor((D + begin + end - dilation * (kernel - 1)
/// - 1) / stride) + 1. Throws if a window of known size exceeds the padded dimension.
std::vector<Dim> window_counts(const Windows& windows, std::span<const Dim> spatial);

}  // namespace sinter::ir
