// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of 16 bits that bench_gemm times: of small transformers, and of vision
// models.
#pragma once

#include <string>

#include <fmt/format.h>

#include "tests/perf/side_by_side.h"

namespace sinter::bench {

struct Shape {
  const char* name;
  int m, n, k;
  const char* after;  // "bias", "gelu", "residual", "norm"
};
constexpr Shape kShapes[] = {
    {"minilm_64_qkv", 64, 1152, 384, "bias"},
    {"minilm_64_out", 64, 384, 384, "norm"},
    {"minilm_64_out_plain", 64, 384, 384, "residual"},
    {"minilm_64_fc1", 64, 1536, 384, "gelu"},
    {"minilm_64_fc2", 64, 384, 1536, "norm"},
    {"minilm_64_fc2_plain", 64, 384, 1536, "residual"},
    {"bert_128_qkv", 128, 2304, 768, "bias"},
    {"bert_128_out", 128, 768, 768, "norm"},
    {"bert_128_out_plain", 128, 768, 768, "residual"},
    {"bert_128_fc1", 128, 3072, 768, "gelu"},
    {"bert_128_fc2", 128, 768, 3072, "norm"},
    {"bert_128_fc2_plain", 128, 768, 3072, "residual"},
    {"vit_197_qkv", 197, 2304, 768, "bias"},
    {"vit_197_out_plain", 197, 768, 768, "residual"},
    {"vit_197_fc1", 197, 3072, 768, "gelu"},
    {"vit_197_fc2_plain", 197, 768, 3072, "residual"},
    {"resnet_1x1_56_in", 3136, 64, 256, "bias"},
    {"resnet_1x1_56_out", 3136, 256, 64, "residual"},
    {"resnet_1x1_28_in", 784, 128, 512, "bias"},
    {"resnet_1x1_28_out", 784, 512, 128, "residual"},
    {"resnet_1x1_14_in", 196, 256, 1024, "bias"},
    {"resnet_1x1_14_out", 196, 1024, 256, "residual"},
    {"resnet_1x1_7_in", 49, 512, 2048, "bias"},
    {"resnet_1x1_7_out", 49, 2048, 512, "residual"},
    {"decode_1_fc1", 1, 3072, 768, "gelu"},
    {"decode_8_fc1", 8, 3072, 768, "gelu"},
    {"vit_1576_qkv", 1576, 2304, 768, "bias"},
    {"vit_1576_fc1", 1576, 3072, 768, "gelu"},
    {"bert_3072_fc1", 3072, 3072, 768, "gelu"},
    {"bert_3072_out", 3072, 768, 768, "residual"},
    {"bert_4096_qkv", 4096, 2304, 768, "bias"},
    {"bert_4096_fc1", 4096, 3072, 768, "gelu"},
    {"bert_4096_out", 4096, 768, 768, "residual"},
    {"bert_4096_fc2", 4096, 768, 3072, "residual"},
    {"bert_384_qkv", 384, 2304, 768, "bias"},
    {"bert_384_fc1", 384, 3072, 768, "gelu"},
    {"bert_768_qkv", 768, 2304, 768, "bias"},
    {"bert_768_fc1", 768, 3072, 768, "gelu"},
    {"bert_768_out", 768, 768, 768, "residual"},
};

/// A convolution with channels last: `in` x `in` positions, square kernel, the same pads around.
struct Conv {
  const char* name;
  int images, in, channels, outputs, kernel, stride, pad;
  const char* after;  // "relu", "residual" (and relu), "none"; all behind a bias

  constexpr int out() const { return (in + 2 * pad - kernel) / stride + 1; }
};
constexpr Conv kConvs[] = {
    {"resnet_stem", 1, 224, 3, 64, 7, 2, 3, "relu"},
    {"resnet_stem4", 1, 224, 4, 64, 7, 2, 3, "relu"},
    {"resnet_stem8", 1, 224, 8, 64, 7, 2, 3, "relu"},
    {"resnet_56", 1, 56, 64, 64, 3, 1, 1, "relu"},
    {"resnet_56_28", 1, 56, 128, 128, 3, 2, 1, "relu"},
    {"resnet_28", 1, 28, 128, 128, 3, 1, 1, "relu"},
    {"resnet_28_14", 1, 28, 256, 256, 3, 2, 1, "relu"},
    {"resnet_14", 1, 14, 256, 256, 3, 1, 1, "relu"},
    {"resnet_14_residual", 1, 14, 256, 256, 3, 1, 1, "residual"},
    {"resnet_14_7", 1, 14, 512, 512, 3, 2, 1, "relu"},
    {"resnet_7", 1, 7, 512, 512, 3, 1, 1, "relu"},
    {"resnet_down_28", 1, 56, 256, 512, 1, 2, 0, "none"},
    {"resnet_down_14", 1, 28, 512, 1024, 1, 2, 0, "none"},
    {"resnet_down_7", 1, 14, 1024, 2048, 1, 2, 0, "none"},
    {"resnet8_stem", 8, 224, 3, 64, 7, 2, 3, "relu"},
    {"resnet8_stem4", 8, 224, 4, 64, 7, 2, 3, "relu"},
    {"resnet8_56", 8, 56, 64, 64, 3, 1, 1, "relu"},
    {"resnet8_56_28", 8, 56, 128, 128, 3, 2, 1, "relu"},
    {"resnet8_28", 8, 28, 128, 128, 3, 1, 1, "relu"},
    {"resnet8_28_14", 8, 28, 256, 256, 3, 2, 1, "relu"},
    {"resnet8_14", 8, 14, 256, 256, 3, 1, 1, "relu"},
    {"resnet8_14_7", 8, 14, 512, 512, 3, 2, 1, "relu"},
    {"resnet8_7", 8, 7, 512, 512, 3, 1, 1, "relu"},
    {"resnet8_down_14", 8, 28, 512, 1024, 1, 2, 0, "none"},
    {"ocr_160", 1, 160, 64, 64, 3, 1, 1, "relu"},
    {"ocr_160_fpn", 1, 160, 96, 24, 3, 1, 1, "none"},
    {"ocr_80", 1, 80, 96, 96, 3, 1, 1, "relu"},
    {"ocr_40", 1, 40, 192, 192, 3, 1, 1, "relu"},
    {"convnext_stem", 1, 224, 3, 96, 4, 4, 0, "none"},
    {"convnext_56_28", 1, 56, 96, 192, 2, 2, 0, "none"},
    {"convnext_14_7", 1, 14, 384, 768, 2, 2, 0, "none"},
    {"convnext8_56_28", 8, 56, 96, 192, 2, 2, 0, "none"},
};

/// Products side by side, each with weights of its own.
inline std::string graph_text(const Shape& shape, int copies) {
  const std::string after = shape.after;
  const bool has_residual = after == "residual" || after == "norm";
  const auto type = [](int a, int b) { return fmt::format("f16[{}, {}]", a, b); };
  return side_by_side(copies, [&](int c) {
    GraphPart part{fmt::format("%x{}: {}", c, type(shape.m, shape.k)), "", "b"};
    part.nodes += fmt::format("  %w{} = const {} random({})\n", c, type(shape.k, shape.n), 100 + c);
    if (has_residual) part.inputs += fmt::format(", %r{}: {}", c, type(shape.m, shape.n));
    part.nodes += fmt::format(
        "  %bias{0} = const f16[{1}] random({0})\n  %p{0} = MatMul(%x{0}, %w{0})\n", c, shape.n);
    part.nodes += fmt::format("  %b{0} = Add(%p{0}, %bias{0})\n", c);
    if (after == "gelu") {
      part.nodes += fmt::format("  %g{0} = Gelu(%b{0})\n", c);
      part.result = "g";
    }
    if (has_residual) {
      part.nodes += fmt::format("  %s{0} = Add(%b{0}, %r{0})\n", c);
      part.result = "s";
    }
    if (after == "norm") {
      part.nodes += fmt::format(
          "  %scale{0} = const f16[{1}] random({2})\n"
          "  %shift{0} = const f16[{1}] random({3})\n"
          "  %n{0} = LayerNorm(%s{0}, %scale{0}, %shift{0}) {{axis = 1, epsilon = 1e-05}}\n",
          c, shape.n, 1000 + c, 2000 + c);
      part.result = "n";
    }
    return part;
  });
}

/// Products of a decoder's layers of many rows, with weights by rows of columns, [k, n] ("kn"), or
/// of k, [n, k] ("nk").
struct DecoderShape {
  const char* name;
  int n, k;
  const char* after;  // "none", "residual", "swiglu": of both halves of the columns
};
constexpr DecoderShape kDecoderShapes[] = {
    {"llama8b_up", 28672, 4096, "swiglu"}, {"llama8b_down", 4096, 14336, "residual"},
    {"llama8b_qkv", 6144, 4096, "none"},   {"llama8b_out", 4096, 4096, "residual"},
    {"qwen7b_up", 37888, 3584, "swiglu"},  {"qwen7b_down", 3584, 18944, "residual"},
    {"llama1b_up", 16384, 2048, "swiglu"},
};
constexpr int kDecoderRows[] = {1, 4, 8, 16, 64, 128, 256, 512, 2048};
constexpr const char* kWeightOrders[] = {"kn", "nk"};

inline std::string graph_text(const DecoderShape& shape, int rows, const std::string& order,
                              int copies) {
  const std::string after = shape.after;
  const auto type = [](int a, int b) { return fmt::format("f16[{}, {}]", a, b); };
  return side_by_side(copies, [&](int c) {
    GraphPart part{fmt::format("%x{}: {}", c, type(rows, shape.k)), "", "p"};
    if (order == "kn")
      part.nodes =
          fmt::format("  %w{} = const {} random({})\n", c, type(shape.k, shape.n), 100 + c);
    else
      part.nodes = fmt::format(
          "  %t{0} = const {1} random({2})\n  %w{0} = Transpose(%t{0}) {{perm = [1, 0]}}\n", c,
          type(shape.n, shape.k), 100 + c);
    part.nodes += fmt::format("  %p{0} = MatMul(%x{0}, %w{0})\n", c);
    if (after == "residual") {
      part.inputs += fmt::format(", %r{}: {}", c, type(rows, shape.n));
      part.nodes += fmt::format("  %s{0} = Add(%p{0}, %r{0})\n", c);
      part.result = "s";
    }
    if (after == "swiglu") {
      part.nodes += swiglu_text(c, "p", rows, shape.n);
      part.result = "y";
    }
    return part;
  });
}

/// The same of convolutions, as the passes leave them.
inline std::string graph_text(const Conv& conv, int copies) {
  const std::string after = conv.after;
  const auto type = [&](int images, int side, int channels) {
    return fmt::format("f16[{}, {}, {}, {}]", images, side, side, channels);
  };
  std::string ends = "c", nodes;
  if (after == "residual") nodes += "      %s = Add(%c, %r)\n", ends = "s";
  if (after != "none") nodes += fmt::format("      %a = Relu(%{})\n", ends), ends = "a";
  const std::string parameters = after == "residual" ? "%x, %w, %b, %r" : "%x, %w, %b";
  return side_by_side(copies, [&](int c) {
    GraphPart part{fmt::format("%x{}: {}", c, type(conv.images, conv.in, conv.channels)), "", "y"};
    std::string operands = fmt::format("%x{0}, %w{0}, %b{0}", c);
    if (after == "residual") {
      part.inputs += fmt::format(", %r{}: {}", c, type(conv.images, conv.out(), conv.outputs));
      operands += fmt::format(", %r{}", c);
    }
    part.nodes =
        fmt::format("  %w{0} = const {1} random({2})\n  %b{0} = const f16[{3}] random({0})\n", c,
                    type(conv.outputs, conv.kernel, conv.channels), 100 + c, conv.outputs);
    part.nodes += conv_text(c, {.operands = operands,
                                .parameters = parameters,
                                .inputs = "%x, %w, %b",
                                .stride = conv.stride,
                                .pad = conv.pad,
                                .rest = fmt::format("{}      return y = %{}\n", nodes, ends),
                                .behind = "    return y = %f\n"});
    return part;
  });
}

}  // namespace sinter::bench
