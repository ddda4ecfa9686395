// SPDX-License-Identifier: Apache-2.0
// What convolutions and pooling share: windows over the spatial dimensions of [N, C, spatial..].
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

struct Windows {
  Ints kernel, strides, dilations;
  std::vector<Dim> pads_begin, pads_end;

  /// Elements from the first to the last that a window covers along dimension `d`.
  std::int64_t reach(std::size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

/// The integers in attribute `name`, `count` of them and none below `least`; `fallback` for each
/// without the attribute. Throws Error(kInvalidModel).
Ints read_window_ints(NodeContext& node, const char* name, std::size_t count, std::int64_t fallback,
                      std::int64_t least);
/// Throws Error(kInvalidModel) unless `x` is [N, C, spatial dimensions..].
void require_spatial(NodeContext& node, ValueId x);
/// Sizes of the kernel: from the weights' shape, from its third dimension on. Throws if they are
/// symbolic or contradict attribute "kernel_shape".
Ints kernel_of_weights(NodeContext& node, ValueId weights);
/// Reads strides, dilations, pads and auto_pad of a node whose windows slide over `x`.
Windows read_windows(NodeContext& node, ValueId x, Ints kernel);
/// `x` padded with `fill` (a negative pad cuts off), or itself.
ValueId pad_spatial(NodeContext& node, ValueId x, const std::vector<Dim>& begins,
                    const std::vector<Dim>& ends, double fill);
/// Pads with `fill` and lays the windows out: [N, C, kernel.., windows..].
ValueId unfold(NodeContext& node, ValueId x, const Windows& windows, double fill);
/// Reduces the kernel's dimensions of what unfold gives: [N, C, windows..].
ValueId reduce_windows(NodeContext& node, const char* op, ValueId windows, std::size_t spatial);

/// What an AveragePool node makes of `x`, by its attributes.
ValueId average_of_windows(NodeContext& node, ValueId x);
/// Likewise MaxPool, its first output.
ValueId maximum_of_windows(NodeContext& node, ValueId x);

/// The convolution of `x` with `weights` and an optional bias.
ValueId add_conv(NodeContext& node, ValueId x, ValueId weights, ValueId bias,
                 const Windows& windows, std::int64_t group);
/// Reads a Conv node (inputs X, W, B) and adds its convolution.
ValueId import_conv(NodeContext& node);
/// Likewise of other inputs X and W.
ValueId import_conv(NodeContext& node, ValueId x, ValueId weights);

/// [N, spatial.., C] as [N, C, spatial..], and back.
ValueId channels_first(NodeContext& node, ValueId x);
ValueId channels_last(NodeContext& node, ValueId x);

}  // namespace sinter::frontend
