// SPDX-License-Identifier: Apache-2.0
// The text of graphs of several products or convolutions side by side, each with weights of its
// own.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace sinter::bench {

/// One of them, number c.
struct GraphPart {
  std::string inputs;  // "%x0: f16[2, 3], %r0: f16[2, 4]"
  std::string nodes;   // whole lines
  std::string result;  // the name without its number
};

/// `part(c)` for each of `copies`, whose results are the outputs y0, y1 ..
template <typename Part>
std::string side_by_side(int copies, const Part& part) {
  std::string inputs, nodes, outputs;
  for (int c = 0; c < copies; ++c) {
    const std::string_view comma = c == 0 ? "" : ", ";
    const GraphPart one = part(c);
    inputs += fmt::format("{}{}", comma, one.inputs);
    nodes += one.nodes;
    outputs += fmt::format("{}y{} = %{}{}", comma, c, one.result, c);
  }
  return fmt::format("graph @main({}) {{\n{}  return {}\n}}", inputs, nodes, outputs);
}

/// `%y<c>`, SwiGLU of both halves of the columns of `%<x><c>`, f16[rows, columns].
inline std::string swiglu_text(int c, std::string_view x, int rows, int columns) {
  const auto slice = [&](std::string_view name, int first) {
    return fmt::format(
        "  %{0}{1} = Slice(%{2}{1}) {{starts = [0, {3}], steps = [1, 1], shape = [{4}, {5}]}}\n",
        name, c, x, first, rows, columns / 2);
  };
  return slice("gate", 0) + slice("up", columns / 2) +
         fmt::format("  %open{0} = Silu(%gate{0})\n  %y{0} = Mul(%open{0}, %up{0})\n", c);
}

/// `%y<c>`, a convolution as the passes leave it: a region of kind "gemm" of one of kind "conv",
/// over operands that are `parameters` in them. `rest` is what follows the convolution, %c, in the
/// latter, and `behind` what follows that, %f, in the former.
struct ConvText {
  std::string operands, parameters, inputs;
  int stride = 1, pad = 1;
  std::string rest, behind;
};
inline std::string conv_text(int c, const ConvText& conv) {
  return fmt::format(
      "  %y{0} = Fused({1}) {{kind = \"gemm\"}} body ({2}) {{\n"
      "    %f = Fused({2}) {{kind = \"conv\"}} body ({2}) {{\n"
      "      %c = Conv({3}) {{strides = [{4}, {4}], dilations = [1, 1], "
      "pads_begin = [{5}, {5}], pads_end = [{5}, {5}], group = 1, channels_last = 1}}\n"
      "{6}    }}\n{7}  }}\n",
      c, conv.operands, conv.parameters, conv.inputs, conv.stride, conv.pad, conv.rest,
      conv.behind);
}

}  // namespace sinter::bench
