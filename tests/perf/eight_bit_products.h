// SPDX-License-Identifier: Apache-2.0
// Products of 8 bits that bench_gemm times.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "tests/perf/side_by_side.h"

namespace sinter::bench {

struct EightBitShape {
  const char* name;
  int m, n, k;
};
constexpr EightBitShape kEightBitShapes[] = {
    {"4096_4096_4096", 4096, 4096, 4096},   {"8192_8192_8192", 8192, 8192, 8192},
    {"4096_3072_768", 4096, 3072, 768},     {"4096_768_3072", 4096, 768, 3072},
    {"2048_14336_4096", 2048, 14336, 4096}, {"64_14336_4096", 64, 14336, 4096},
    {"2056_1024_4096", 2056, 1024, 4096},   {"2056_1024_1024", 2056, 1024, 1024},
    {"2056_3072_1024", 2056, 3072, 1024},   {"2056_4096_1024", 2056, 4096, 1024},
    {"2048_640_640", 2048, 640, 640},       {"2048_640_2560", 2048, 640, 2560},
    {"8192_320_320", 8192, 320, 320},       {"8192_320_1280", 8192, 320, 1280},
    {"512_1280_1280", 512, 1280, 1280},     {"512_1280_5120", 512, 1280, 5120},
    {"2048_4096_14336", 2048, 4096, 14336}, {"2048_4096_4096", 2048, 4096, 4096},
    {"256_28672_4096", 256, 28672, 4096},   {"256_4096_14336", 256, 4096, 14336},
    {"512_14336_4096", 512, 14336, 4096},   {"256_14336_4096", 256, 14336, 4096},
    {"256_6144_4096", 256, 6144, 4096},     {"256_4096_4096", 256, 4096, 4096},
};
/// Convolutions of 3x3 with pads of 1 and channels last.
struct EightBitConv {
  int images, side, channels, outputs;
};
constexpr EightBitConv kEightBitConvs[] = {
    {2, 64, 320, 320},  {2, 64, 640, 320},  {2, 64, 960, 320},   {2, 32, 640, 640},
    {2, 32, 1280, 640}, {2, 32, 1920, 640}, {2, 16, 1280, 1280}, {2, 16, 2560, 1280},
    {2, 8, 1280, 1280}, {2, 8, 2560, 1280},
};
/// Of operands: of both, with the sums' type.
struct EightBitTypes {
  const char *name, *operand;
};
constexpr EightBitTypes kEightBitTypes[] = {{"i8", "i8"}, {"e4m3", "f8e4m3fn"}};
/// What follows the product: one scale and a result in f16; a bias, GELU and a quantized result;
/// SwiGLU of both halves of the columns in f16; a quantized result.
constexpr const char* kEightBitEpilogues[] = {"bare", "gelu", "swiglu", "quantized"};

/// `copies` products side by side, each with weights of its own, stored as [n, k].
inline std::string graph_text(const EightBitShape& shape, const EightBitTypes& types,
                              const std::string& after, int copies) {
  const bool is_integer = std::string(types.operand) == "i8",
             is_quantized = after == "gelu" || after == "quantized";
  // Operands deviate by 32 and by 1 from zero: what makes the sums deviate by one.
  const double deviation = (is_integer ? 32.0 * 32.0 : 1.0) * std::sqrt(shape.k);
  return side_by_side(copies, [&](int c) {
    GraphPart part{fmt::format("%x{}: {}[{}, {}]", c, types.operand, shape.m, shape.k), "",
                   after == "bare" ? "d" : "y"};
    std::string& body = part.nodes;
    body += fmt::format(
        "  %w{0} = const {1}[{2}, {3}] random({4})\n"
        "  %t{0} = Transpose(%w{0}) {{perm = [1, 0]}}\n  %p{0} = MatMul(%x{0}, %t{0})\n",
        c, types.operand, shape.n, shape.k, 100 + c);
    std::string sums = fmt::format("p{}", c);
    if (is_integer) {
      body += fmt::format("  %f{0} = Cast(%p{0}) {{to = f32}}\n", c);
      sums = fmt::format("f{}", c);
    }
    // All between the sums and the result is float16 in the graph, as in models of that.
    body += fmt::format(
        "  %a{0} = const f32[] {{{1}}}\n  %s{0} = Mul(%{2}, %a{0})\n"
        "  %d{0} = Cast(%s{0}) {{to = f16}}\n",
        c, 1 / deviation, sums);
    if (after == "swiglu") body += swiglu_text(c, "d", shape.m, shape.n);
    if (after == "gelu")
      body += fmt::format(
          "  %b{0} = const f16[{1}] random({0})\n  %h{0} = Add(%d{0}, %b{0})\n"
          "  %g{0} = Gelu(%h{0})\n",
          c, shape.n);
    if (is_quantized)
      body += fmt::format("  %z{0} = const f16[] {{{1}}}\n  %q{0} = Mul(%{2}{0}, %z{0})\n", c,
                          is_integer ? 30.0 : 60.0, after == "gelu" ? "g" : "d");
    if (is_quantized && is_integer)
      body += fmt::format(
          "  %r{0} = Round(%q{0})\n  %l{0} = const f16[] {{-128}}\n"
          "  %u{0} = const f16[] {{127}}\n  %m{0} = Max(%r{0}, %l{0})\n"
          "  %n{0} = Min(%m{0}, %u{0})\n  %y{0} = Cast(%n{0}) {{to = i8}}\n",
          c);
    else if (is_quantized)
      body += fmt::format("  %y{0} = Cast(%q{0}) {{to = f8e4m3fn}}\n", c);
    return part;
  });
}

/// The same of convolutions, as the passes leave them: one scale and a result in f16.
inline std::string graph_text(const EightBitConv& conv, const EightBitTypes& types, int copies) {
  const double scale =
      1 / std::sqrt(9.0 * conv.channels) / (std::string(types.operand) == "i8" ? 1024 : 1);
  return side_by_side(copies, [&](int c) {
    GraphPart part{fmt::format("%x{0}: {1}[{2}, {3}, {3}, {4}]", c, types.operand, conv.images,
                               conv.side, conv.channels),
                   "", "y"};
    part.nodes = fmt::format("  %w{0} = const {1}[{2}, 3, 3, {3}] random({4})\n", c, types.operand,
                             conv.outputs, conv.channels, 100 + c);
    part.nodes += conv_text(
        c,
        {.operands = fmt::format("%x{0}, %w{0}", c),
         .parameters = "%x, %w",
         .inputs = "%x, %w",
         .rest = "      return y = %c\n",
         .behind = fmt::format("    %q = Fused(%f) {{kind = \"pointwise\"}} body (%f) {{\n"
                               "      %g = Cast(%f) {{to = f32}}\n      %a = const f32[] {{{}}}\n"
                               "      %s = Mul(%g, %a)\n      %d = Cast(%s) {{to = f16}}\n      "
                               "return y = %d\n    }}\n"
                               "    return y = %q\n",
                               scale)});
    return part;
  });
}

/// The same of floats with scales of blocks, 1x128 of rows and 128x128 of weights, and results in
/// f16.
constexpr EightBitShape kBlockShapes[] = {
    {"4096_4096_4096", 4096, 4096, 4096},   {"4096_4096_7168", 4096, 4096, 7168},
    {"2048_14336_4096", 2048, 14336, 4096}, {"4096_7168_2048", 4096, 7168, 2048},
    {"64_7168_2048", 64, 7168, 2048},
};
inline std::string block_graph_text(const EightBitShape& shape, int copies) {
  return side_by_side(copies, [&](int c) {
    GraphPart part{fmt::format("%x{0}: f8e4m3fn[{1}, {2}], %s{0}: f32[{1}, {3}]", c, shape.m,
                               shape.k, shape.k / 128),
                   "", "d"};
    part.nodes = fmt::format(
        "  %w{0} = const f8e4m3fn[{1}, {2}] random({3})\n"
        "  %v{0} = const f32[{4}, {5}] splat({6})\n"
        "  %p{0} = MatMul(%x{0}, %w{0}, %s{0}, %v{0}) {{x = \"f8e4m3fn * f32 group 128\", "
        "w = \"f8e4m3fn * f32 block 128x128\"}}\n"
        "  %d{0} = Cast(%p{0}) {{to = f16}}\n",
        c, shape.n, shape.k, 100 + c, (shape.n + 127) / 128, shape.k / 128, 1 / std::sqrt(shape.k));
    return part;
  });
}

/// Weights of 4 bits with scales of groups, beside rows of 8-bit floats or of 16-bit ones, whose
/// weights become such floats; results in f16.
struct FourBitTypes {
  const char *name, *rows, *sums;
};
constexpr FourBitTypes kFourBitTypes[] = {{"w4a8", "f8e4m3fn", "f32"}, {"w4a16", "f16", "f16"}};
constexpr EightBitShape kFourBitShapes[] = {
    {"2048_14336_4096", 2048, 14336, 4096}, {"4096_4096_4096", 4096, 4096, 4096},
    {"512_14336_4096", 512, 14336, 4096},   {"256_14336_4096", 256, 14336, 4096},
    {"256_6144_4096", 256, 6144, 4096},     {"256_4096_4096", 256, 4096, 4096},
    {"64_14336_4096", 64, 14336, 4096},     {"8_14336_4096", 8, 14336, 4096},
};
constexpr int kFourBitGroups[] = {128, 32};
inline std::string graph_text(const EightBitShape& shape, const FourBitTypes& types, int group,
                              int copies) {
  return side_by_side(copies, [&](int c) {
    GraphPart part{fmt::format("%x{}: {}[{}, {}]", c, types.rows, shape.m, shape.k), "", "d"};
    part.nodes = fmt::format(
        "  %w{0} = const u8[{1}, {2}] random({3})\n"
        "  %v{0} = const f16[{1}, {4}] splat({5})\n"
        "  %p{0} = MatMul(%x{0}, %w{0}, %v{0}) {{w = \"i4 * f16 group {6}\"}}\n"
        "  %a{0} = const {7}[] {{0.5}}\n  %s{0} = Mul(%p{0}, %a{0})\n"
        "  %d{0} = Cast(%s{0}) {{to = f16}}\n",
        c, shape.n, shape.k / 2, 100 + c, shape.k / group, 0.25 / std::sqrt(shape.k), group,
        types.sums);
    return part;
  });
}

}  // namespace sinter::bench
