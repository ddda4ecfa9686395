// Attention regions: what they are lowered to, and their kernels on the emulator.
#ifdef SINTER_WITH_CUDA
#include <cmath>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/cuda/attention_schedule.h"
#include "codegen/cuda/emit_attention.h"
#include "codegen/lowering/attention_lowering.h"
#include "cuda_emulation.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "region_check.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;

struct Case {
  const char* name;
  const char* text;  // inputs named none.. are zero: a mask that lets nothing through
  std::vector<ir::Bindings> sizes = {{}};
  const char* schedule = "";  // empty: as chosen
  friend void PrintTo(const Case& value, std::ostream* os) { *os << value.name; }
};

const Case kCases[] = {
    {"packed_heads_and_key_mask",
     R"(graph @g(%qkv: f16[batch, seq, 96], %keep: bool[batch, seq])
          ranges {batch: 1..64, seq: 1..4096} {
      %q0 = Slice(%qkv) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [batch, seq, 32]}
      %k0 = Slice(%qkv) {starts = [0, 0, 32], steps = [1, 1, 1], shape = [batch, seq, 32]}
      %v0 = Slice(%qkv) {starts = [0, 0, 64], steps = [1, 1, 1], shape = [batch, seq, 32]}
      %q1 = Reshape(%q0) {shape = [batch, seq, 2, 16]}
      %k1 = Reshape(%k0) {shape = [batch, seq, 2, 16]}
      %v1 = Reshape(%v0) {shape = [batch, seq, 2, 16]}
      %q = Transpose(%q1) {perm = [0, 2, 1, 3]}
      %k = Transpose(%k1) {perm = [0, 2, 1, 3]}
      %v = Transpose(%v1) {perm = [0, 2, 1, 3]}
      %mask = Reshape(%keep) {shape = [batch, 1, 1, seq]}
      %y = Attention(%q, %k, %v, %mask) {scale = 0.25, fill = -10000}
      %t = Transpose(%y) {perm = [0, 2, 1, 3]}
      %z = Reshape(%t) {shape = [batch, seq, 32]}
      return z = %z
    })",
     {{{"batch", 1}, {"seq", 1}},
      {{"batch", 2}, {"seq", 17}},
      {{"batch", 1}, {"seq", 64}},
      {{"batch", 2}, {"seq", 150}}}},
    {"heads_of_odd_sizes", R"(graph @g(%q: f16[2, 3, 19, 40], %k: f16[2, 3, 37, 40],
                                       %v: f16[2, 3, 37, 24]) {
      %y = Attention(%q, %k, %v) {scale = 0.3}
      return y = %y
    })"},
    {"added_mask_by_row",
     R"(graph @g(%q: bf16[1, 2, 20, 64], %k: bf16[1, 2, 70, 64], %v: bf16[1, 2, 70, 72],
                 %bias: f32[2, 20, 70]) {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.125}
      return y = %y
    })"},
    {"added_mask_of_the_lowest_value",
     R"(graph @g(%q: f16[2, 4, 16], %k: f16[2, 9, 16], %v: f16[2, 9, 16], %low: f32[9]) {
      %y = Attention(%q, %k, %v, %low) {scale = 0.125}
      return y = %y
    })"},
    {"causal_long",
     R"(graph @g(%q: f16[1, 1, seq, 128], %k: f16[1, 1, seq, 128],
                               %v: f16[1, 1, seq, 128]) ranges {seq: 1..8192} {
      %y = Attention(%q, %k, %v) {scale = 0.0883, causal = 1}
      return y = %y
    })",
     {{{"seq", 33}}, {{"seq", 140}}}},
    {"causal_behind_a_cache", R"(graph @g(%q: bf16[2, 5, 32], %k: bf16[2, 100, 32],
                                         %v: bf16[2, 100, 32]) {
      %y = Attention(%q, %k, %v) {scale = 0.2, causal = 2}
      return y = %y
    })"},
    {"fully_masked_rows_are_uniform",
     R"(graph @g(%q: f16[3, 40, 32], %k: f16[3, 50, 32], %v: f16[3, 50, 32],
                 %none: bool[1, 40, 1]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.2, fill = -10000}
      return y = %y
    })"},
    {"fully_masked_rows_are_nan",
     R"(graph @g(%q: f16[18, 8], %k: f16[5, 8], %v: f16[5, 8], %none: bool[18, 5]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.2}
      return y = %y
    })"},
    {"fully_masked_rows_are_guarded",
     R"(graph @g(%q: f16[18, 16], %k: f16[200, 16], %v: f16[200, 16], %none: bool[18, 200]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.2, guard = 1}
      return y = %y
    })"},
    {"random_rows_masked_or_guarded",
     R"(graph @g(%q: f16[70, 16], %k: f16[3, 16], %v: f16[3, 16], %mask: bool[70, 3]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.2, guard = 1}
      return y = %y
    })"},
    {"one_query_shares_its_keys",
     R"(graph @g(%q: f16[2, 2, 4, 1, 64], %k: f16[2, 2, 1, 300, 64], %v: f16[2, 2, 1, 300, 64],
                 %mask: bool[2, 1, 1, 1, 300]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.125}
      return y = %y
    })"},
    {"grouped_queries",
     R"(graph @g(%q: f16[2, 6, 20, 16], %k: f16[2, 2, 25, 16], %v: f16[2, 2, 25, 16]) {
      %k1 = Reshape(%k) {shape = [2, 2, 1, 25, 16]}
      %k2 = Expand(%k1) {shape = [2, 2, 3, 25, 16]}
      %k3 = Reshape(%k2) {shape = [2, 6, 25, 16]}
      %v1 = Reshape(%v) {shape = [2, 2, 1, 25, 16]}
      %v2 = Expand(%v1) {shape = [2, 2, 3, 25, 16]}
      %v3 = Reshape(%v2) {shape = [2, 6, 25, 16]}
      %y = Attention(%q, %k3, %v3) {scale = 0.25}
      return y = %y
    })"},
    {"heads_merged_with_the_batch",
     R"(graph @g(%q: f16[2, 20, 3, 16], %k: f16[2, 25, 3, 16], %v: f16[2, 25, 3, 16]) {
      %q1 = Transpose(%q) {perm = [0, 2, 1, 3]}
      %k1 = Transpose(%k) {perm = [0, 2, 1, 3]}
      %v1 = Transpose(%v) {perm = [0, 2, 1, 3]}
      %q2 = Reshape(%q1) {shape = [6, 20, 16]}
      %k2 = Reshape(%k1) {shape = [6, 25, 16]}
      %v2 = Reshape(%v1) {shape = [6, 25, 16]}
      %y = Attention(%q2, %k2, %v2) {scale = 0.25}
      %y1 = Reshape(%y) {shape = [2, 3, 20, 16]}
      %y2 = Transpose(%y1) {perm = [0, 2, 1, 3]}
      return y = %y2
    })"},
    {"unaligned_rows", R"(graph @g(%x: f16[2, 21, 51]) {
      %q = Slice(%x) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [2, 21, 16]}
      %k = Slice(%x) {starts = [0, 0, 17], steps = [1, 1, 1], shape = [2, 21, 16]}
      %v = Slice(%x) {starts = [0, 0, 34], steps = [1, 1, 1], shape = [2, 21, 16]}
      %y = Attention(%q, %k, %v) {scale = -0.5}
      return y = %y
    })"},
    {"rows_of_pairs", R"(graph @g(%x: bf16[2, 21, 54]) {
      %q = Slice(%x) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [2, 21, 16]}
      %k = Slice(%x) {starts = [0, 0, 18], steps = [1, 1, 1], shape = [2, 21, 16]}
      %v = Slice(%x) {starts = [0, 0, 36], steps = [1, 1, 1], shape = [2, 21, 16]}
      %y = Attention(%q, %k, %v) {scale = 2}
      return y = %y
    })"},
    {"longest_heads", R"(graph @g(%q: f16[1, 18, 256], %k: f16[1, 40, 256], %v: f16[1, 40, 256]) {
      %y = Attention(%q, %k, %v) {scale = 0.0625}
      return y = %y
    })"},
    {"one_query_behind_a_long_cache",
     R"(graph @g(%q: f16[3, 1, 64], %k: f16[3, keys, 64], %v: f16[3, keys, 64])
          ranges {keys: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.125, causal = 2}
      return y = %y
    })",
     {{{"keys", 30}}, {{"keys", 600}}, {{"keys", 2100}}}},
    {"heads_of_64",
     R"(graph @g(%q: f16[2, seq, 64], %k: f16[2, seq, 64], %v: f16[2, seq, 64])
          ranges {seq: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.125}
      return y = %y
    })",
     {{{"seq", 100}}, {{"seq", 390}}}},
    {"scores_that_grow",
     R"(graph @g(%q: f16[2, seq, 64], %k: f16[2, seq, 64], %v: f16[2, seq, 64])
          ranges {seq: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 3}
      return y = %y
    })",
     {{{"seq", 390}}}},
    {"causal_heads_of_128",
     R"(graph @g(%q: bf16[2, rows, 128], %k: bf16[2, keys, 128], %v: bf16[2, keys, 128])
          ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v) {scale = 0.0883, causal = 2}
      return y = %y
    })",
     {{{"rows", 130}, {"keys", 270}}, {{"rows", 200}, {"keys", 64}}}},
    {"keys_wider_than_values_masked",
     R"(graph @g(%q: f16[2, 90, 128], %k: f16[2, 150, 128], %v: f16[2, 150, 64],
                 %mask: bool[90, 150]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.0883, fill = -10000}
      return y = %y
    })"},
    {"added_mask_of_keys_by_groups",
     R"(graph @g(%q: f16[2, 2, 70, 64], %k: f16[2, 2, 2*pairs, 64], %v: f16[2, 2, 2*pairs, 64],
                 %bias: f16[2, 1, 1, 2*pairs]) ranges {pairs: 1..32768} {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.125}
      return y = %y
    })",
     {{{"pairs", 65}}, {{"pairs", 128}}}},
    {"added_mask_by_groups",
     R"(graph @g(%q: bf16[2, rows, 64], %k: bf16[2, keys, 64], %v: bf16[2, keys, 64],
                 %bias: f32[2, rows, keys]) ranges {rows: 1..65536, keys: 1..65536} {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.125}
      return y = %y
    })",
     {{{"rows", 70}, {"keys", 201}}}},
    {"added_mask_of_wide_heads_by_groups",
     R"(graph @g(%q: f16[2, 90, 128], %k: f16[2, 200, 128], %v: f16[2, 200, 128],
                 %bias: f16[90, 200]) {
      %y = Attention(%q, %k, %v, %bias) {scale = 0.0883, causal = 1}
      return y = %y
    })"},
    {"added_lowest_by_groups",
     R"(graph @g(%q: f16[2, 90, 64], %k: f16[2, 140, 64], %v: f16[2, 140, 64], %low: f32[140]) {
      %y = Attention(%q, %k, %v, %low) {scale = 0.125}
      return y = %y
    })"},
    {"hidden_keys_by_groups",
     R"(graph @g(%q: f16[2, 2, 70, 64], %k: f16[2, 2, 300, 64], %v: f16[2, 2, 300, 64],
                 %mask: bool[2, 1, 1, 300]) {
      %y = Attention(%q, %k, %v, %mask) {scale = 0.125, fill = -3.4028235e38, guard = 1}
      return y = %y
    })"},
    {"all_keys_hidden_by_groups",
     R"(graph @g(%q: f16[2, 70, 64], %k: f16[2, 300, 64], %v: f16[2, 300, 64],
                 %none: bool[2, 1, 300]) {
      %y = Attention(%q, %k, %v, %none) {scale = 0.13, fill = -3.4028235e38}
      return y = %y
    })"},
    // Few blocks take many items: places in rings and phases of barriers go on.
    {"items_in_turns",
     R"(graph @g(%q: f16[5, 150, 64], %k: f16[5, 140, 64], %v: f16[5, 140, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.125, causal = 1}
      return y = %y
    })",
     {{}},
     "attention rows=4x16 groups=1 keys=64 vector=8 stages=2 blocks=3"},
    {"items_of_wide_blocks_in_turns",
     R"(graph @g(%q: f16[5, 150, 64], %k: f16[5, 240, 64], %v: f16[5, 240, 64]) {
      %y = Attention(%q, %k, %v) {scale = 0.125}
      return y = %y
    })",
     {{}},
     "attention rows=12x16 groups=1 keys=96 vector=8 stages=3 blocks=2"},
    {"no_stage_to_spare",
     R"(graph @g(%q: f16[3, 70, 128], %k: f16[3, 260, 128], %v: f16[3, 260, 128]) {
      %y = Attention(%q, %k, %v) {scale = 0.0883}
      return y = %y
    })",
     {{}},
     "attention rows=8x16 groups=1 keys=128 vector=8 stages=1 blocks=2"},
};

std::vector<std::uint32_t> numbers(std::size_t first, std::size_t count) {
  std::vector<std::uint32_t> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(static_cast<std::uint32_t>(first + i));
  return result;
}

codegen::AttentionProgram lower(const ir::Graph& body, codegen::ExprTable& exprs) {
  const std::size_t inputs = body.inputs().size();
  return codegen::lower_attention(body, numbers(0, inputs), numbers(inputs, 1), exprs);
}

/// A kernel with the table that its expressions are in.
struct Emitted {
  ir::Graph body;
  codegen::ExprTable exprs;
  codegen::AttentionProgram program;
  codegen::EmittedKernel kernel;
};
Emitted emit(const Case& test) {
  const ir::Graph body = ir::parse_graph(test.text);
  codegen::ExprTable exprs(body.ranges());
  codegen::AttentionProgram program = lower(body, exprs);
  auto kernel =
      codegen::emit_attention(program, test.name, {"layer/attention"}, exprs, false, test.schedule);
  return {body, std::move(exprs), std::move(program), std::move(kernel)};
}

std::vector<ir::Tensor> inputs_of(const ir::Graph& body, const ir::Bindings& sizes) {
  std::vector<ir::Tensor> inputs = random_inputs(body, sizes, 7);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = body.value(body.inputs()[i]).name;
    if (name != "none" && name != "low") continue;
    const double value = name == "low" ? -3.4028234e38 : 0;
    const std::vector<double> all(static_cast<std::size_t>(inputs[i].element_count()), value);
    inputs[i] = ir::Tensor::from_doubles(inputs[i].dtype(), inputs[i].shape(), all);
  }
  return inputs;
}

/// Values are below 2. Weights are rounded before the second product, the result is once more: half
/// a unit of 11 (or 8) bits each, of values up to 2.
double tolerance(DType type) { return type == DType::kFloat16 ? 2e-3 : 1.6e-2; }

std::string difference(const ir::Tensor& expected, const std::vector<std::byte>& found) {
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    const double a =
        ir::load_as_double(expected.dtype(), found.data() + static_cast<std::size_t>(i) * 2);
    const double e = expected.at(i);
    if (std::isnan(e) ? !std::isnan(a) : !(std::abs(a - e) <= tolerance(expected.dtype())))
      return fmt::format("[{}] is {}, not {}", i, a, e);
  }
  return "";
}

/// The values of the plan's expressions with these sizes.
std::vector<std::int64_t> expressions_of(const Emitted& kernel, const ir::Bindings& sizes) {
  plan::fb::PlanT plan;
  kernel.exprs.write(plan);
  std::vector<std::int64_t> symbols;
  for (const auto& symbol : plan.symbols) symbols.push_back(sizes.at(symbol->name));
  return plan::evaluate_expressions(plan, symbols);
}

/// Every kParts-th case from one on: parts run side by side.
constexpr std::size_t kParts = 4;
class AttentionCases : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Parts, AttentionCases, testing::Range(std::size_t{0}, kParts));

TEST_P(AttentionCases, MeanTheirBodies) {
  std::vector<const Case*> cases;
  std::vector<Emitted> emitted;
  std::vector<codegen::EmittedKernel> kernels;
  for (std::size_t c = GetParam(); c < std::size(kCases); c += kParts) {
    SCOPED_TRACE(kCases[c].name);
    cases.push_back(&kCases[c]);
    emitted.push_back(emit(kCases[c]));
    kernels.push_back(emitted.back().kernel);
  }
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < emitted.size(); ++c) {
    const Emitted& kernel = emitted[c];
    for (const ir::Bindings& sizes : cases[c]->sizes) {
      const auto inputs = inputs_of(kernel.body, sizes);
      const ir::Tensor expected = ir::evaluate(kernel.body, inputs)[0];
      Memory memory;
      for (const ir::Tensor& input : inputs)
        memory.emplace_back(input.bytes().begin(), input.bytes().end());
      memory.emplace_back(expected.bytes().size(), std::byte{0xa5});
      EXPECT_EQ(run_variants(cases[c]->name, library, kernel.kernel.step,
                             expressions_of(kernel, sizes), memory,
                             [&](const plan::fb::KernelVariantT& variant, const Memory& found) {
                               return problem_in(variant, 0, difference(expected, found.back()));
                             }),
                "")
          << to_string(expected.type());
    }
  }
}

TEST(AttentionKernels, EveryFormIsSeen) {
  std::set<std::string> schedules;
  for (const Case& test : kCases) {
    const Emitted kernel = emit(test);
    for (const ir::Bindings& sizes : test.sizes) {
      const auto values = expressions_of(kernel, sizes);
      for (const auto& variant : kernel.kernel.step.variants)
        if (may_run(*variant, values)) schedules.insert(variant->schedule);
    }
  }
  for (const char* part :
       {"rows=1x16 groups=2", "groups=4", "groups=8", "rows=4x16 groups=2",
        "rows=4x16 groups=1 keys=64", "rows=4x32", "vector=8", "vector=2", "vector=1 single",
        "groups=4 keys=64 vector=8 splits=8", "rows=4x16 groups=1 keys=128 vector=8 stages=2",
        "rows=8x16 groups=1 keys=128 vector=8 stages=2 blocks=132",
        "rows=12x16 groups=1 keys=96 vector=8 stages=3"})
    EXPECT_TRUE(std::any_of(schedules.begin(), schedules.end(), [&](const std::string& text) {
      return text.find(part) != text.npos;
    })) << part;
}

TEST(AttentionKernels, CompileForEveryArchitecture) {
  std::vector<std::string> sources;
  for (const Case& test : kCases) sources.push_back(emit(test).kernel.source);
  Emitted early = emit(kCases[0]);
  early.kernel = codegen::emit_attention(early.program, "early", {}, early.exprs, true);
  EXPECT_THAT(early.kernel.source, HasSubstr("wait_for_previous_kernel();"));
  for (const auto& variant : early.kernel.step.variants) EXPECT_TRUE(variant->overlaps);
  sources.push_back(early.kernel.source);
  const auto compile = [](std::span<const std::string> texts, std::vector<std::string> targets) {
    codegen::NvrtcStats stats;
    const auto compiled = codegen::compile_cuda(texts, targets, {}, stats);
    ASSERT_EQ(compiled.size(), texts.size());
    for (const auto& kernel : compiled)
      for (const auto& variant : kernel) EXPECT_GT(variant.cubin.size(), 1000u);
  };
  compile(sources, {"sm_80", "sm_90"});
  // Beyond that nothing differs but the instructions of one GPU, which are left out again.
  compile(std::span(sources).last(8), {"sm_100"});
}

/// What only some GPUs run is followed by a form that all run.
TEST(AttentionKernels, EndWithAFormForEveryGpu) {
  for (const Case& test : kCases) {
    if (*test.schedule != 0) continue;
    const auto& variants = emit(test).kernel.step.variants;
    const auto& last = *variants.back();
    EXPECT_TRUE(last.conditions.empty()) << test.name;
    EXPECT_EQ(last.cluster, 1u) << test.name;
    EXPECT_EQ(last.schedule.find("stages"), std::string::npos) << test.name;
  }
}

TEST(AttentionKernels, RefuseSchedulesThatDoNotTakeThem) {
  const auto refusal_of = [](const char* schedule) -> std::string {
    const ir::Graph body = ir::parse_graph(kCases[1].text);
    codegen::ExprTable exprs(body.ranges());
    try {
      codegen::emit_attention(lower(body, exprs), "attention", {}, exprs, false, schedule);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal_of("row vector=8"), HasSubstr("is no schedule of attention"));
  EXPECT_THAT(refusal_of("attention rows=4"), HasSubstr("is no schedule of attention"));
  EXPECT_THAT(refusal_of("attention rows=8x16 groups=1 keys=128 vector=8 stages=2"),
              HasSubstr("does not take"));
}

TEST(AttentionKernels, FitIntoSharedMemory) {
  for (const Case& test : kCases)
    for (const auto& variant : emit(test).kernel.step.variants) {
      const bool exact = variant->schedule.find("stages") != std::string::npos;
      EXPECT_LE(variant->shared_bytes, (exact || variant->cluster > 1 ? 227u : 96u) * 1024)
          << test.name << " " << variant->schedule;
      EXPECT_LE(variant->block[0], exact ? 512u : 256u);
    }
}

/// Generated text and the strided problem behind it, as in goldens/.
TEST(AttentionKernels, AreReadable) {
  const Emitted kernel = emit(kCases[0]);
  const std::string text =
      codegen::print_attention(kernel.program) + "----\n" + kernel.kernel.source;
  const std::string path = SINTER_SOURCE_DIR "/tests/codegen/goldens/attention.kernel.cu";
  if (std::getenv("SINTER_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "SINTER_UPDATE_GOLDENS=1 rewrites " << path;
}

TEST(AttentionLowering, JoinsBatchAndRows) {
  codegen::ExprTable exprs{ir::Ranges{}};
  const auto program = lower(ir::parse_graph(R"(
    graph @g(%q: f16[2, 3, 5, 16], %k: f16[2, 3, 7, 16], %v: f16[2, 3, 7, 16]) {
      %y = Attention(%q, %k, %v) {scale = 0.25}
      return y = %y
    })"),
                             exprs);
  EXPECT_EQ(program.batch, std::vector<ir::Dim>{6});
  EXPECT_EQ(program.q.batch, std::vector<ir::Dim>{80});
  codegen::ExprTable other{ir::Ranges{}};
  const auto decode = lower(ir::parse_graph(kCases[10].text), other);
  EXPECT_EQ(decode.rows, ir::Dim(4));
  EXPECT_EQ(decode.q.row, ir::Dim(64));
}

TEST(AttentionLowering, CountsWork) {
  codegen::ExprTable exprs{ir::Ranges{}};
  const auto program = lower(ir::parse_graph(kCases[10].text), exprs);
  const auto work = codegen::work_of(program, exprs, [](std::uint32_t) {
    return codegen::BufferSize{ir::Dim(1 << 20), 2};
  });
  const std::int64_t keys = 2 * 2 * 300 * 64 * 2, queries = 2 * 2 * 4 * 64 * 2, mask = 2 * 300;
  EXPECT_EQ(work.bytes_read, ir::Dim(2 * keys + queries + mask));
  EXPECT_EQ(work.bytes_written, ir::Dim(queries));
  EXPECT_EQ(work.flops, ir::Dim(2 * 16 * 300 * 128));
}

std::string refusal(const char* text) {
  const ir::Graph body = ir::parse_graph(text);
  codegen::ExprTable exprs(body.ranges());
  try {
    codegen::emit_attention(lower(body, exprs), "attention", {}, exprs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(AttentionLowering, RefusesByName) {
  EXPECT_THAT(refusal(R"(graph @g(%q: f32[4, 16], %k: f32[4, 16], %v: f32[4, 16]) {
      %y = Attention(%q, %k, %v) {scale = 1}
      return y = %y })"),
              HasSubstr("f32, not f16"));
  EXPECT_THAT(refusal(R"(graph @g(%q: f16[4, 12], %k: f16[4, 12], %v: f16[4, 16]) {
      %y = Attention(%q, %k, %v) {scale = 1}
      return y = %y })"),
              HasSubstr("head dimension 12"));
  EXPECT_THAT(refusal(R"(graph @g(%q: f16[4, 16], %k: f16[16, 4], %v: f16[4, 16]) {
      %t = Transpose(%k) {perm = [1, 0]}
      %y = Attention(%q, %t, %v) {scale = 1}
      return y = %y })"),
              HasSubstr("the columns of k have stride 4"));
}

}  // namespace
}  // namespace sinter::test
#endif
