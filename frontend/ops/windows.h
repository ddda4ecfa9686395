// What convolutions and pooling share: windows over the spatial dimensions of [N, C, spatial..].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

struct Windows {
  std::vector<std::int64_t> kernel, strides, dilations;
  std::vector<ir::Dim> pads_begin, pads_end;

  /// Elements from the first to the last that a window covers along dimension `d`.
  std::int64_t reach(std::size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

/// The integers in attribute `name`, `count` of them and none below `least`; `fallback` for each
/// without the attribute. Throws Error(kInvalidModel).
std::vector<std::int64_t> read_window_ints(NodeContext& node, const char* name, std::size_t count,
                                           std::int64_t fallback, std::int64_t least);
/// Throws Error(kInvalidModel) unless `x` is [N, C, spatial dimensions..].
void require_spatial(NodeContext& node, ir::ValueId x);
/// Sizes of the kernel: from the weights' shape, from its third dimension on. Throws if they are
/// symbolic or contradict attribute "kernel_shape".
std::vector<std::int64_t> kernel_of_weights(NodeContext& node, ir::ValueId weights);
/// Reads strides, dilations, pads and auto_pad of a node whose windows slide over `x`.
Windows read_windows(NodeContext& node, ir::ValueId x, std::vector<std::int64_t> kernel);
/// `x` padded with `fill` (a negative pad cuts off), or itself.
ir::ValueId pad_spatial(NodeContext& node, ir::ValueId x, const std::vector<ir::Dim>& begins,
                        const std::vector<ir::Dim>& ends, double fill);
/// Pads with `fill` and lays the windows out: [N, C, kernel.., windows..].
ir::ValueId unfold(NodeContext& node, ir::ValueId x, const Windows& windows, double fill);
/// Reduces the kernel's dimensions of what unfold gives: [N, C, windows..].
ir::ValueId reduce_windows(NodeContext& node, const char* op, ir::ValueId windows,
                           std::size_t spatial);

/// What an AveragePool node makes of `x`, by its attributes.
ir::ValueId average_of_windows(NodeContext& node, ir::ValueId x);
/// Likewise MaxPool, its first output.
ir::ValueId maximum_of_windows(NodeContext& node, ir::ValueId x);

/// The convolution of `x` with `weights` and an optional bias.
ir::ValueId add_conv(NodeContext& node, ir::ValueId x, ir::ValueId weights, ir::ValueId bias,
                     const Windows& windows, std::int64_t group);
/// Reads a Conv node (inputs X, W, B) and adds its convolution.
ir::ValueId import_conv(NodeContext& node);
/// Likewise of other inputs X and W.
ir::ValueId import_conv(NodeContext& node, ir::ValueId x, ir::ValueId weights);

/// [N, spatial.., C] as [N, C, spatial..], and back.
ir::ValueId channels_first(NodeContext& node, ir::ValueId x);
ir::ValueId channels_last(NodeContext& node, ir::ValueId x);

}  // namespace sinter::frontend
