// SPDX-License-Identifier: Apache-2.0
// Shared by convolutions and pooling: windows over the spatial dimensions of [N, C, spatial..].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

struct Windows {
  Ints kernel, strides, dilations;
  std::vector<Dim> pads_begin, pads_end;

  /// Extent of a window along dimension `d`, dilation included.
  std::int64_t reach(std::size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

/// The attribute `name`: `count` integers, each at least `least`; without the attribute, `fallback`
/// for each. Throws Error(kInvalidModel).
Ints read_window_ints(NodeContext& node, const char* name, std::size_t count, std::int64_t fallback,
                      std::int64_t least);
/// The attribute "auto_pad", NOTSET by default.
std::string read_auto_pad(NodeContext& node);
/// Throws Error(kInvalidModel) unless `x` is [N, C, spatial dimensions..].
void require_spatial(NodeContext& node, ValueId x);
/// Sizes of the kernel from the weights' shape, from its third dimension on. Throws if they are
/// symbolic or contradict attribute "kernel_shape".
Ints kernel_of_weights(NodeContext& node, ValueId weights);
/// Reads strides, dilations, pads and auto_pad of a node with windows over `x`.
Windows read_windows(NodeContext& node, ValueId x, Ints kernel);
/// `x` padded with `fill` (negative pads crop); `x` itself without padding.
ValueId pad_spatial(NodeContext& node, ValueId x, const std::vector<Dim>& begins,
                    const std::vector<Dim>& ends, double fill);
/// Pads with `fill` and unfolds the windows: [N, C, kernel.., windows..].
ValueId unfold(NodeContext& node, ValueId x, const Windows& windows, double fill);
/// Reduces the kernel's dimensions of unfold's result: [N, C, windows..].
ValueId reduce_windows(NodeContext& node, const char* op, ValueId windows, std::size_t spatial);

/// The result of an AveragePool node on `x`.
ValueId average_of_windows(NodeContext& node, ValueId x);
/// The first output of a MaxPool node on `x`.
ValueId maximum_of_windows(NodeContext& node, ValueId x);

/// Adds a convolution of `x` with `weights` and an optional bias.
ValueId add_conv(NodeContext& node, ValueId x, ValueId weights, ValueId bias,
                 const Windows& windows, std::int64_t group);
/// Reads a Conv node (inputs X, W, B) and adds its convolution.
ValueId import_conv(NodeContext& node);
/// The same with other inputs for X and W.
ValueId import_conv(NodeContext& node, ValueId x, ValueId weights);

/// [N, spatial.., C] to [N, C, spatial..], and back.
ValueId channels_first(NodeContext& node, ValueId x);
ValueId channels_last(NodeContext& node, ValueId x);

}  // namespace sinter::frontend
