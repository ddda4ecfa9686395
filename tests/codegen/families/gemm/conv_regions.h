// SPDX-License-Identifier: Apache-2.0
// Regions of kind "gemm" around a convolution, for tests of what is generated for them.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::test {

/// A convolution and what follows it. Empty lists: 1 for each dimension, or 0 for pads.
struct ConvCase {
  std::string name;
  ir::Dim images = 1;
  ir::Shape in;  // positions
  std::int64_t channels = 8, outputs = 16;
  std::vector<std::int64_t> kernel;
  std::vector<std::int64_t> strides = {}, dilations = {}, pads_begin = {}, pads_end = {};
  std::int64_t group = 1;
  DType type = DType::kFloat16;
  bool bias = true, residual = false;
  std::string activation = {};  // an operator, within the convolution's own region
  std::string rest = {};        // what follows it: "", "silu" or "norm" (over the channels)
  bool channels_last = true;
};

/// Inputs: x, w, then bias, residual, and scale of the norm, as far as there are any.
ir::Graph conv_region(const ConvCase& conv, const ir::Ranges& ranges = {});
/// The same convolution, with its activation, as a graph of operators for the passes.
ir::Graph conv_graph(const ConvCase& conv, const ir::Ranges& ranges = {});

}  // namespace sinter::test
