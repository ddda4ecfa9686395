// SPDX-License-Identifier: Apache-2.0
// Graphs of products with quantized weights, for tests of their kernels, and schedules of small-M.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "gemm_check.h"

namespace sinter::test {

struct Weights {
  int bits = 8;
  int group = 0;
  const char* scales = "f16";
  const char* zeros = "";  // their type
  bool floats = false;

  /// Scales of e4m3 have them.
  bool has_factors() const { return std::string_view(scales) == "f8e4m3fn"; }
};

/// How scales lie in a format's text.
inline std::string spread(int group) { return group == 0 ? "row" : fmt::format("group {}", group); }

inline std::string format_text(const Weights& w) {
  const std::string codes = !w.floats     ? fmt::format("i{}", w.bits)
                            : w.bits == 8 ? "f8e4m3fn"
                                          : "f4e2m1";
  return fmt::format("{} * {} {}{}",
                     w.zeros[0] != '\0' ? fmt::format("({} - {})", codes, w.zeros) : codes,
                     w.scales, spread(w.group), w.has_factors() ? " * f32 row" : "");
}

/// y = silu(x w + bias) + r with quantized weights.
inline std::string quantized_graph(const std::string& type, const std::string& m, int n, int k,
                                   const Weights& w) {
  const int groups = w.group == 0 ? 1 : (k + w.group - 1) / w.group;
  const std::string weight = w.bits == 8
                                 ? fmt::format("{}[{}, {}]", w.floats ? "f8e4m3fn" : "i8", n, k)
                                 : fmt::format("u8[{}, {}]", n, (k + 1) / 2);
  const bool zeros = w.zeros[0] != '\0';
  return fmt::format(
      "graph @g(%x: {0}[{1}, {3}], %w: {4}, %s: {5}[{2}, {6}]{7}, %b: {0}[{2}], %r: {0}[{1}, "
      "{2}]) {{\n"
      "  %0 = MatMul(%x, %w, %s{8}) {{w = \"{9}\"}} : {0}[{1}, {2}]\n"
      "  %1 = Add(%0, %b) : {0}[{1}, {2}]\n"
      "  %2 = Silu(%1) : {0}[{1}, {2}]\n"
      "  %3 = Add(%2, %r) : {0}[{1}, {2}]\n"
      "  return y = %3\n}}\n",
      type, m, n, k, weight, w.scales, groups,
      w.has_factors() ? fmt::format(", %f: f32[{}, 1]", n)
      : zeros         ? fmt::format(", %z: {}[{}, {}]", w.zeros, n, groups)
                      : "",
      w.has_factors() ? ", %f"
      : zeros         ? ", %z"
                      : "",
      format_text(w));
}

/// y = silu(x w * rows + bias) of f16, with weights of 4 bits and x of f8e4m3fn; a scale for each
/// row of x. `gated`: silu(left half) * right half instead, of n columns each.
inline std::string four_by_eight_graph(const std::string& m, int n, int k, const Weights& w,
                                       bool gated = false) {
  const int columns = gated ? 2 * n : n, groups = w.group == 0 ? 1 : (k + w.group - 1) / w.group;
  const bool zeros = w.zeros[0] != '\0';
  const std::string half = fmt::format("steps = [1, 1], shape = [{}, {}]}}\n", m, n);
  return fmt::format(
      "graph @g(%x: f8e4m3fn[{0}, {2}], %w: u8[{1}, {3}], %s: {4}[{1}, {5}]{6}, "
      "%rows: f32[{0}, 1], %b: f16[{1}]) {{\n"
      "  %0 = MatMul(%x, %w, %s{7}) {{w = \"{8}\"}}\n"
      "  %1 = Mul(%0, %rows)\n"
      "  %2 = Cast(%1) {{to = f16}}\n"
      "  %3 = Add(%2, %b)\n{9}"
      "  return y = %y\n}}\n",
      m, columns, k, (k + 1) / 2, w.scales, groups,
      zeros ? fmt::format(", %z: {}[{}, {}]", w.zeros, columns, groups) : "", zeros ? ", %z" : "",
      format_text(w),
      gated ? fmt::format("  %4 = Slice(%3) {{starts = [0, 0], {0}"
                          "  %5 = Slice(%3) {{starts = [0, {1}], {0}"
                          "  %6 = Silu(%4)\n  %y = Mul(%6, %5)\n",
                          half, n)
            : "  %y = Silu(%3)\n");
}

/// y = silu(left half of x w) * right half, of `halves` columns each; bits 16: float weights.
inline std::string gate_graph(const std::string& m, int halves, int k, int bits, int group = 0,
                              bool floats = false) {
  const int n = 2 * halves, groups = group == 0 ? 1 : (k + group - 1) / group;
  const Weights narrow{4, group, "f8e4m3fn", "", true};
  const std::string product =
      floats       ? fmt::format("MatMul(%x, %w, %s, %f) {{w = \"{}\"}}", format_text(narrow))
      : bits == 16 ? fmt::format("MatMul(%x, %w) : f16[{}, {}]", m, n)
                   : fmt::format("MatMul(%x, %w, %s) {{w = \"i{} * f16 {}\"}} : f16[{}, {}]", bits,
                                 spread(group), m, n);
  const std::string weights =
      floats       ? fmt::format("%w: u8[{0}, {1}], %s: f8e4m3fn[{0}, {2}], %f: f32[{0}, 1]", n,
                                 (k + 1) / 2, groups)
      : bits == 16 ? fmt::format("%w: f16[{}, {}]", k, n)
      : bits == 8  ? fmt::format("%w: i8[{}, {}], %s: f16[{}, {}]", n, k, n, groups)
                   : fmt::format("%w: u8[{}, {}], %s: f16[{}, {}]", n, (k + 1) / 2, n, groups);
  return fmt::format(
      "graph @g(%x: f16[{0}, {1}], {2}) {{\n"
      "  %0 = {3}\n"
      "  %1 = Slice(%0) {{starts = [0, 0], steps = [1, 1], shape = [{0}, {4}]}} : f16[{0}, {4}]\n"
      "  %2 = Slice(%0) {{starts = [0, {4}], steps = [1, 1], shape = [{0}, {4}]}} : f16[{0}, {4}]\n"
      "  %3 = Silu(%1) : f16[{0}, {4}]\n"
      "  %4 = Mul(%3, %2) : f16[{0}, {4}]\n"
      "  return y = %4\n}}\n",
      m, k, weights, product, halves);
}

inline std::string small_m_scheduled(const char* tile, int splits = 1) {
  const bool slices = std::string_view(tile).find("slices=") != std::string_view::npos;
  return fmt::format("{} {} split_k={} cluster_n=1", slices ? "int8_gemv" : "small_m", tile,
                     splits);
}

/// Three rows times weights of both widths in such groups, types and splits in turns.
inline void add_groups(GemmCheck& check, std::initializer_list<int> groups, const char* tile) {
  int number = 0;
  for (const int group : groups)
    for (const int bits : {8, 4}) {
      const Weights weights = {bits, group, number % 3 == 0 ? "f32" : "f16"};
      check.add(fmt::format("g{}", number),
                quantized_graph(number % 2 == 0 ? "f16" : "bf16", "3", 40, 520, weights),
                small_m_scheduled(tile, 1 + number % 2));
      ++number;
    }
}

}  // namespace sinter::test
