// SPDX-License-Identifier: Apache-2.0
// Graphs with a product and what follows it, for tests of its kernels: x [m, k] times w [k, n].
#pragma once

#include <string>

#include <fmt/format.h>

namespace sinter::test {

/// y = gelu(x w + bias) + r, in which all is of one type.
inline std::string pointwise_graph(const std::string& type, const std::string& m, int n, int k) {
  return fmt::format(
      "graph @g(%x: {0}[{1}, {3}], %w: {0}[{3}, {2}], %b: {0}[{2}], %r: {0}[{1}, {2}]) {{\n"
      "  %0 = MatMul(%x, %w) : {0}[{1}, {2}]\n"
      "  %1 = Add(%0, %b) : {0}[{1}, {2}]\n"
      "  %2 = Gelu(%1) : {0}[{1}, {2}]\n"
      "  %3 = Add(%2, %r) : {0}[{1}, {2}]\n"
      "  return y = %3\n}}\n",
      type, m, n, k);
}

/// The same with weights stored as [n, k].
inline std::string transposed_graph(const std::string& type, const std::string& m, int n, int k) {
  return fmt::format(
      "graph @g(%x: {0}[{1}, {3}], %w: {0}[{2}, {3}], %r: {0}[{1}, {2}]) {{\n"
      "  %0 = Transpose(%w) {{perm = [1, 0]}} : {0}[{3}, {2}]\n"
      "  %1 = MatMul(%x, %0) : {0}[{1}, {2}]\n"
      "  %2 = Tanh(%1) : {0}[{1}, {2}]\n"
      "  %3 = Mul(%2, %r) : {0}[{1}, {2}]\n"
      "  return y = %3\n}}\n",
      type, m, n, k);
}

/// One half of the columns times silu of the other, n each; weights stored as [k, 2 n], or with
/// `nk` as [2 n, k].
inline std::string gated_graph(const std::string& type, const std::string& m, int n, int k,
                               bool nk = false) {
  const std::string stored = nk ? fmt::format("{}, {}", 2 * n, k) : fmt::format("{}, {}", k, 2 * n);
  const std::string weights =
      nk ? fmt::format("  %0 = Transpose(%w) {{perm = [1, 0]}} : {}[{}, {}]\n", type, k, 2 * n)
         : "";
  return fmt::format(
      "graph @g(%x: {0}[{1}, {3}], %w: {0}[{5}], %b: {0}[{4}]) {{\n{6}"
      "  %1 = MatMul(%x, {7}) : {0}[{1}, {4}]\n"
      "  %2 = Add(%1, %b) : {0}[{1}, {4}]\n"
      "  %3 = Slice(%2) {{starts = [0, 0], steps = [1, 1], shape = [{1}, {2}]}} : {0}[{1}, {2}]\n"
      "  %4 = Slice(%2) {{starts = [0, {2}], steps = [1, 1], shape = [{1}, {2}]}} : {0}[{1}, {2}]\n"
      "  %5 = Silu(%4) : {0}[{1}, {2}]\n"
      "  %6 = Mul(%3, %5) : {0}[{1}, {2}]\n"
      "  return y = %6\n}}\n",
      type, m, n, k, 2 * n, stored, weights, nk ? "%0" : "%w");
}

/// Residual and LayerNorm behind a product, with and without the sum as a second output.
inline std::string norm_graph(const std::string& m, int n, int k, bool keeps_sum) {
  return fmt::format(
      "graph @g(%x: f16[{0}, {2}], %w: f16[{2}, {1}], %b: f16[{1}], %r: f16[{0}, {1}], %s: "
      "f16[{1}], %t: f16[{1}]) {{\n"
      "  %0 = MatMul(%x, %w) : f16[{0}, {1}]\n"
      "  %1 = Add(%0, %b) : f16[{0}, {1}]\n"
      "  %2 = Add(%1, %r) : f16[{0}, {1}]\n"
      "  %3 = LayerNorm(%2, %s, %t) {{axis = 1, epsilon = 1e-05}} : f16[{0}, {1}]\n"
      "  return y = %3{3}\n}}\n",
      m, n, k, keeps_sum ? ", z = %2" : "");
}

}  // namespace sinter::test
