// SPDX-License-Identifier: Apache-2.0
// Graphs of products whose operands have 8 bits, for tests of their kernels: x [m, k] times w,
// which is stored as [n, k] unless a graph says otherwise.
#pragma once

#include <string>

#include <fmt/format.h>

namespace sinter::test {

/// What `result` is made of: %p, the sums of x and w, is followed by `more`.
inline std::string eight_bit_graph(const std::string& x, const std::string& w, const std::string& m,
                                   int n, int k, bool nk, const std::string& parameters,
                                   const std::string& more, const std::string& result) {
  return fmt::format(
      "graph @g(%x: {0}[{2}, {4}], %w: {1}[{5}]{6}) {{\n{7}  %p = MatMul(%x, {8})\n{9}"
      "  return y = %{10}\n}}\n",
      x, w, m, n, k, nk ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n), parameters,
      nk ? "  %t = Transpose(%w) {perm = [1, 0]}\n" : "", nk ? "%t" : "%w", more, result);
}

/// The sums themselves; `nk` false: weights are stored as [k, n].
inline std::string sums_graph(const std::string& x, const std::string& w, const std::string& m,
                              int n, int k, bool nk = true) {
  return eight_bit_graph(x, w, m, n, k, nk, "", "", "p");
}

/// Sums times scales of rows and of columns, in `type`.
inline std::string scaled_graph(const std::string& x, const std::string& w, const std::string& m,
                                int n, int k, const std::string& type) {
  return eight_bit_graph(x, w, m, n, k, true,
                         fmt::format(", %rows: f32[{}, 1], %columns: f32[{}]", m, n),
                         fmt::format("  %f = Cast(%p) {{to = f32}}\n"
                                     "  %s = Mul(%f, %rows)\n"
                                     "  %c = Mul(%s, %columns)\n"
                                     "  %r = Cast(%c) {{to = {}}}\n",
                                     type),
                         "r");
}

/// A product with scales of blocks of 128 of k, of each row and of each 128 columns, in `type`.
inline std::string block_graph(const std::string& x, const std::string& w, const std::string& m,
                               int n, int k, const std::string& type) {
  return fmt::format(
      "graph @g(%x: {0}[{2}, {4}], %w: {1}[{3}, {4}], %rows: f32[{2}, {5}], %columns: f32[{6}, "
      "{5}]) {{\n"
      "  %p = MatMul(%x, %w, %rows, %columns) {{x = \"{0} * f32 group 128\", "
      "w = \"{1} * f32 block 128x128\"}}\n"
      "  %y = Cast(%p) {{to = {7}}}\n"
      "  return y = %y\n}}\n",
      x, w, m, n, k, k / 128, (n + 127) / 128, type);
}

/// relu(sums / 2^9 + bias), quantized: all of it is exact, so that nothing depends on an order.
inline std::string quantized_output_graph(const std::string& x, const std::string& w,
                                          const std::string& m, int n, int k) {
  return eight_bit_graph(x, w, m, n, k, true, fmt::format(", %bias: i32[{}]", n),
                         "  %a = Add(%p, %bias)\n"
                         "  %f = Cast(%a) {to = f32}\n"
                         "  %scale = const f32[] {0.001953125}\n"
                         "  %s = Mul(%f, %scale)\n"
                         "  %h = Relu(%s)\n"
                         "  %o = Round(%h)\n"
                         "  %most = const f32[] {127}\n"
                         "  %c = Min(%o, %most)\n"
                         "  %q = Cast(%c) {to = i8}\n",
                         "q");
}

/// One half of the columns times the other's sigmoid, n each.
inline std::string gated_sums_graph(const std::string& x, const std::string& m, int n, int k) {
  return eight_bit_graph(
      x, "i8", m, 2 * n, k, true, "",
      fmt::format("  %f = Cast(%p) {{to = f32}}\n"
                  "  %scale = const f32[] {{0.0009765625}}\n"
                  "  %s = Mul(%f, %scale)\n"
                  "  %l = Slice(%s) {{starts = [0, 0], steps = [1, 1], shape = [{0}, {1}]}}\n"
                  "  %h = Slice(%s) {{starts = [0, {1}], steps = [1, 1], shape = [{0}, {1}]}}\n"
                  "  %o = Sigmoid(%h)\n"
                  "  %g = Mul(%l, %o)\n"
                  "  %r = Cast(%g) {{to = f16}}\n",
                  m, n),
      "r");
}

/// The same with scales of rows and columns, as SwiGLU has them where each token has its scale.
inline std::string scaled_gate_graph(const std::string& type, const std::string& m, int n, int k) {
  return eight_bit_graph(
      type, type, m, 2 * n, k, true,
      fmt::format(", %rows: f32[{}, 1], %columns: f32[{}]", m, 2 * n),
      fmt::format("  %f = Cast(%p) {{to = f32}}\n"
                  "  %s = Mul(%f, %rows)\n"
                  "  %c = Mul(%s, %columns)\n"
                  "  %w16 = Cast(%c) {{to = f16}}\n"
                  "  %l = Slice(%w16) {{starts = [0, 0], steps = [1, 1], shape = [{0}, {1}]}}\n"
                  "  %h = Slice(%w16) {{starts = [0, {1}], steps = [1, 1], shape = [{0}, {1}]}}\n"
                  "  %o = Silu(%l)\n"
                  "  %r = Mul(%o, %h)\n",
                  m, n),
      "r");
}

/// A region of kind "gemm": a convolution with channels last, its bias, scaled and quantized again.
inline std::string eight_bit_conv(const std::string& x, const std::string& w, int images, int side,
                                  int channels, int outputs, int kernel, int stride, int pad) {
  const bool is_float = x.starts_with("f8");
  const int out = (side + 2 * pad - kernel) / stride + 1;
  return fmt::format(
      "graph @region(%x: {0}[{2}, {3}, {3}, {4}], %w: {1}[{5}, {6}, {6}, {4}], %b: {7}[{5}]) {{\n"
      "  %f = Fused(%x, %w, %b) {{kind = \"conv\"}} body (%x, %w, %b) {{\n"
      "    %c = Conv(%x, %w, %b) {{strides = [{8}, {8}], dilations = [1, 1], pads_begin = [{9}, "
      "{9}], pads_end = [{9}, {9}], group = 1, channels_last = 1}}\n    return y = %c\n  }}\n"
      "  %q = Fused(%f) {{kind = \"pointwise\"}} body (%f) {{\n"
      "    %v = Cast(%f) {{to = f32}}\n    %k = const f32[] {{0.0009765625}}\n"
      "    %s = Mul(%v, %k)\n    %r = Relu(%s)\n    %h = Cast(%r) {{to = f16}}\n"
      "    return y = %h\n  }}\n  return y = %q\n}}\n",
      x, w, images, side, channels, outputs, kernel, is_float ? "f32" : "i32", stride, pad, out);
}

}  // namespace sinter::test
