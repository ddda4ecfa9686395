// SPDX-License-Identifier: Apache-2.0
// Attention of queries, keys and values of 8 bits: its kernels on the emulator.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/attention/attention_lowering.h"
#include "codegen/families/attention/emit_attention.h"
#include "codegen/families/attention/schedule/attention_fit.h"
#include "codegen/families/attention/schedule/attention_rules.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#include "tests/support/random_inputs.h"

namespace sinter::test::eight_bit {
namespace {

using testing::HasSubstr;

struct EightBitCase {
  const char* name;
  const char* text;
  std::vector<ir::Bindings> sizes;
  bool promoted = false;
  const char* schedule = "";
};

// Heads side by side, as a projection has them; the tile's end, and several tiles.
constexpr const char* kHeadsOf64 =
    R"(graph @g(%q: f8e4m3fn[b, seq, 3, 64], %k: f8e4m3fn[b, seq, 3, 64],
                %v: f8e4m3fn[b, 3, 64, 16*floordiv(seq + 15, 16)])
         ranges {b: 1..64, seq: 1..4096} {
      %q1 = Transpose(%q) {perm = [0, 2, 1, 3]}
      %k1 = Transpose(%k) {perm = [0, 2, 1, 3]}
      %y = Attention(%q1, %k1, %v) {scale = 0.05}
      %s = const f32[] {0.5}
      %m = Mul(%y, %s)
      %h = Cast(%m) {to = f16}
      %z = Transpose(%h) {perm = [0, 2, 1, 3]}
      return z = %z
    })";
constexpr const char* kCausal =
    R"(graph @g(%q: f8e4m3fn[2, seq, 128], %k: f8e4m3fn[2, seq, 128],
                %v: f8e4m3fn[2, 64, 16*floordiv(seq + 15, 16)]) ranges {seq: 1..4096} {
      %y = Attention(%q, %k, %v) {scale = 0.03, causal = 1}
      %s = const f32[] {0.25}
      %m = Mul(%y, %s)
      %z = Cast(%m) {to = bf16}
      return z = %z
    })";

const EightBitCase kCases[] = {
    {"heads_of_64",
     kHeadsOf64,
     {{{"b", 2}, {"seq", 1}},
      {{"b", 1}, {"seq", 17}},
      {{"b", 1}, {"seq", 128}},
      {{"b", 2}, {"seq", 150}},
      {{"b", 1}, {"seq", 290}}}},
    {"heads_of_64_promoted", kHeadsOf64, {{{"b", 1}, {"seq", 40}}, {{"b", 1}, {"seq", 290}}}, true},
    {"causal", kCausal, {{{"seq", 5}}, {{"seq", 200}}, {{"seq", 300}}}},
    {"causal_promoted",
     kCausal,
     {{{"seq", 200}}, {{"seq", 300}}},
     true,
     "attention rows=8x16 key_groups=1 keys=64 vector=16 stages=2 queries=2 blocks=2"},
    {"heads_of_80_by_key_mask",
     R"(graph @g(%q: f8e4m3fn[2, 3, 70, 80], %k: f8e4m3fn[2, 3, 257, 80],
                 %v: f8e4m3fn[2, 3, 80, 272], %keep: bool[2, 1, 1, 257]) {
      %y = Attention(%q, %k, %v, %keep) {scale = 0.05}
      %s = const f32[] {0.5}
      %m = Mul(%y, %s)
      %z = Cast(%m) {to = f16}
      return z = %z
    })",
     {{}}},
    {"mask_of_pairs",
     R"(graph @g(%q: f8e4m3fn[3, 70, 64], %k: f8e4m3fn[3, 200, 64], %v: f8e4m3fn[3, 48, 208],
                 %bias: f16[70, 200]) {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.05}
      %s = const f32[] {0.5}
      %m = Mul(%y, %s)
      %z = Cast(%m) {to = f16}
      return z = %z
    })",
     {{}},
     true},
    {"keep_by_row_guarded",
     R"(graph @g(%q: f8e4m3fn[70, 64], %k: f8e4m3fn[90, 64], %v: f8e4m3fn[64, 96],
                 %keep: bool[70, 90]) {
      %y = Attention(%q, %k, %v, %keep) {scale = 0.05, guard = 2}
      %s = const f32[] {0.5}
      %m = Mul(%y, %s)
      %z = Cast(%m) {to = f16}
      return z = %z
    })",
     {{}}},
    {"result_of_float8",
     R"(graph @g(%q: f8e4m3fn[1, seq, 2, 64], %k: f8e4m3fn[1, seq, 2, 64],
                 %v: f8e4m3fn[1, 2, 64, 16*floordiv(seq + 15, 16)]) ranges {seq: 1..512} {
      %q1 = Transpose(%q) {perm = [0, 2, 1, 3]}
      %k1 = Transpose(%k) {perm = [0, 2, 1, 3]}
      %y = Attention(%q1, %k1, %v) {scale = 0.05}
      %s = const f32[] {0.5}
      %m = Mul(%y, %s)
      %h = Cast(%m) {to = f16}
      %t = Transpose(%h) {perm = [0, 2, 1, 3]}
      %w = Cast(%t) {to = f32}
      %step = const f32[] {0.004}
      %d = Quotient(%w, %step)
      %z = Cast(%d) {to = f8e4m3fn}
      return z = %z
    })",
     {{{"seq", 100}}}},
};

struct Emitted {
  ir::Graph body;
  codegen::ExprTable exprs;
  codegen::AttentionProgram program;
  codegen::EmittedKernel kernel;
};

codegen::AttentionProgram lower(const ir::Graph& body, codegen::ExprTable& exprs) {
  std::vector<std::uint32_t> inputs(body.inputs().size());
  std::iota(inputs.begin(), inputs.end(), 0U);
  const std::vector<std::uint32_t> outputs = {static_cast<std::uint32_t>(inputs.size())};
  return codegen::lower_attention(body, inputs, outputs, exprs);
}

Emitted emit(const EightBitCase& test) {
  const ir::Graph body = ir::parse_graph(test.text);
  codegen::ExprTable exprs(body.ranges());
  codegen::AttentionProgram program = lower(body, exprs);
  program.promoted = test.promoted;
  auto kernel = codegen::emit_attention(program, test.name, {}, exprs, false, test.schedule);
  return {body, std::move(exprs), std::move(program), std::move(kernel)};
}

/// The first key of each head is what all queries look for most, so that maxima are those of the
/// first tile: weights are then rounded as the reference rounds them. The others still have most of
/// the sum.
std::vector<ir::Tensor> inputs_of(const ir::Graph& body, const ir::Bindings& sizes) {
  std::vector<ir::Tensor> inputs = random_inputs(body, sizes, 7);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ir::Ints& shape = inputs[i].shape();
    if (inputs[i].dtype() == DType::kBool) {
      // Of the first row nothing where each has its own; else the first key stays.
      std::vector<double> all;
      for (std::int64_t e = 0; e < inputs[i].element_count(); ++e)
        all.push_back(e % shape.back() == 0 || e * 37 % 5 != 0 ? 1 : 0);
      if (shape.size() == 2) std::fill_n(all.begin(), shape.back(), 0.0);
      inputs[i] = ir::Tensor::from_doubles(DType::kBool, shape, all);
    }
    if (inputs[i].dtype() != DType::kFloat8E4M3FN) continue;
    std::vector<double> all;
    for (std::int64_t e = 0; e < inputs[i].element_count(); ++e)
      all.push_back(
          std::remainder(static_cast<double>(e * 7919 + static_cast<std::int64_t>(i)) * 0.37, 2.0));
    if (i < 2)
      for (std::int64_t row = 0; row < std::ssize(all) / shape.back(); ++row)
        all[static_cast<std::size_t>(row * shape.back())] = i == 0 ? 8 : 0;
    if (i == 1) {
      // [.., keys, head], or [b, keys, heads, head].
      const bool side_by_side = shape.size() == 4 && shape[1] > shape[2];
      const std::int64_t keys = side_by_side ? shape[1] : shape[shape.size() - 2],
                         between = side_by_side ? shape[2] : 1;
      for (std::int64_t row = 0; row < std::ssize(all) / shape.back(); ++row)
        if (row / between % keys == 0) all[static_cast<std::size_t>(row * shape.back())] = 14;
    }
    inputs[i] = ir::Tensor::from_doubles(DType::kFloat8E4M3FN, shape, all);
  }
  return inputs;
}

std::string difference(const codegen::AttentionProgram& program, const ir::Tensor& expected,
                       const std::vector<std::byte>& found) {
  const std::size_t size = size_of(expected.dtype());
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    const double a =
        ir::load_as_double(expected.dtype(), found.data() + static_cast<std::size_t>(i) * size);
    const double e = expected.at(i);
    double allowed = program.dtype == DType::kFloat16 ? 3e-3 : 1e-2;
    if (program.rounding) allowed = allowed / program.rounding->scale + std::abs(e) / 8;
    if (!(std::abs(a - e) <= allowed)) return fmt::format("[{}] is {}, not {}", i, a, e);
  }
  return "";
}

TEST(EightBitAttention, MeansItsBody) {
  std::vector<Emitted> emitted;
  std::vector<codegen::EmittedKernel> kernels;
  for (const EightBitCase& test : kCases) {
    SCOPED_TRACE(test.name);
    emitted.push_back(emit(test));
    kernels.push_back(emitted.back().kernel);
  }
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < emitted.size(); ++c) {
    const Emitted& kernel = emitted[c];
    for (const ir::Bindings& sizes : kCases[c].sizes) {
      const auto inputs = inputs_of(kernel.body, sizes);
      const ir::Tensor expected = ir::evaluate(kernel.body, inputs)[0];
      Memory memory;
      for (const ir::Tensor& input : inputs)
        memory.emplace_back(input.bytes().begin(), input.bytes().end());
      memory.emplace_back(expected.bytes().size(), std::byte{0xa5});
      plan::fb::PlanT plan;
      kernel.exprs.write(plan);
      std::vector<std::int64_t> symbols;
      for (const auto& symbol : plan.symbols) symbols.push_back(sizes.at(symbol->name));
      EXPECT_EQ(run_variants(kCases[c].name, library, kernel.kernel.step,
                             plan::evaluate_expressions(plan, symbols), memory,
                             [&](const plan::fb::KernelVariantT& variant, const Memory& found) {
                               return problem_in(
                                   variant, 0, difference(kernel.program, expected, found.back()));
                             }),
                "")
          << to_string(expected.type());
    }
  }
}

/// The reference is what single operators make of it.
TEST(EightBitAttention, IsWhatItsOperatorsAre) {
  for (const EightBitCase& test : kCases) {
    const ir::Graph body = ir::parse_graph(test.text);
    const ir::Graph single = ir::rewrite(
        body,
        [](ir::GraphBuilder& builder, const ir::Graph&, const ir::Node& node,
           std::span<const ir::ValueId> inputs) -> std::optional<std::vector<ir::ValueId>> {
          if (node.op->name != "Attention") return std::nullopt;
          return node.op->composite().decompose(builder, node, inputs);
        });
    const auto inputs = inputs_of(body, test.sizes.back());
    const ir::Tensor expected = ir::evaluate(body, inputs)[0],
                     found = ir::evaluate(single, inputs)[0];
    double largest = 0;
    for (std::int64_t i = 0; i < expected.element_count(); ++i)
      largest = std::max(largest, std::abs(expected.at(i) - found.at(i)) /
                                      std::max(0.01, std::abs(expected.at(i))));
    EXPECT_LT(largest, expected.dtype() == DType::kFloat8E4M3FN ? 0.15 : 2e-2) << test.name;
  }
}

/// Sums and registers that a GPU has to have room for, on the GPU that has the instructions.
TEST(EightBitAttention, CompilesForWarpgroups) {
  std::vector<std::string> texts;
  for (const EightBitCase& test : kCases) texts.push_back(emit(test).kernel.source);
  const std::vector<std::string> targets = {"sm_90"};
  const auto compiled = codegen::compile_cuda(texts, targets);
  ASSERT_EQ(compiled.size(), texts.size());
  for (const auto& kernel : compiled)
    for (const auto& variant : kernel) EXPECT_GT(variant.code.size(), 1000U);
}

TEST(EightBitAttention, HasSchedulesForItsDeviceAlone) {
  for (const EightBitCase& test : kCases) {
    if (*test.schedule != 0) continue;
    const Emitted kernel = emit(test);
    ASSERT_FALSE(kernel.kernel.step.variants.empty()) << test.name;
    EXPECT_TRUE(kernel.kernel.step.variants.back()->conditions.empty()) << test.name;
    for (const auto& variant : kernel.kernel.step.variants) {
      EXPECT_LE(variant->shared_bytes, 227U * 1024) << variant->schedule;
      EXPECT_THAT(variant->schedule, HasSubstr("stages="));
    }
  }
}

std::string refusal(const char* text, const char* architecture = "sm_90") {
  const ir::Graph body = ir::parse_graph(text);
  codegen::ExprTable exprs(body.ranges());
  try {
    const codegen::AttentionProgram program = lower(body, exprs);
    if (std::string reason; !codegen::can_schedule_attention(program, reason)) return reason;
    codegen::choose_attention(program, exprs, codegen::cuda_device(architecture));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(EightBitAttention, RefusesByName) {
  const auto with_heads = [](int head) {
    return fmt::format(R"(graph @g(%q: f8e4m3fn[9, {0}], %k: f8e4m3fn[9, {0}],
                                   %v: f8e4m3fn[{0}, 16]) {{
      %y = Attention(%q, %k, %v) {{scale = 1}}
      %z = Cast(%y) {{to = f16}}
      return z = %z }})",
                       head);
  };
  EXPECT_EQ(refusal(with_heads(64).c_str()), "");
  EXPECT_THAT(refusal(with_heads(40).c_str()), HasSubstr("heads of 40 and 40"));
  EXPECT_THAT(refusal(with_heads(160).c_str()), HasSubstr("heads of 160 and 160"));
  EXPECT_THAT(refusal(with_heads(64).c_str(), "sm_80"), HasSubstr("sm_90"));
  EXPECT_THAT(refusal(R"(graph @g(%q: f8e4m3fn[9, 64], %k: f8e4m3fn[9, 64], %v: f8e4m3fn[64, 16]) {
      %y = Attention(%q, %k, %v) {scale = 1}
      return y = %y })"),
              HasSubstr("f32"));
}

TEST(EightBitAttention, ValuesAreTransposedAndPadded) {
  const auto error_of = [](const char* text) -> std::string {
    try {
      ir::parse_graph(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of(R"(graph @g(%q: f8e4m3fn[9, 64], %k: f8e4m3fn[9, 64], %v: f8e4m3fn[9, 64]) {
      %y = Attention(%q, %k, %v) {scale = 1}
      return y = %y })"),
              HasSubstr("multiple of 16"));
  EXPECT_THAT(error_of(R"(graph @g(%q: f8e4m3fn[9, 64], %k: f8e4m3fn[9, 64], %v: f8e4m3fn[64, 16],
                           %n: i64[9, 1]) {
      %y = Attention(%q, %k, %v, %n) {scale = 1, limited = 1}
      return y = %y })"),
              HasSubstr("no limits"));
}

}  // namespace
}  // namespace sinter::test::eight_bit
#endif
