// SPDX-License-Identifier: Apache-2.0
// The CPU target's plans: buffers, aliases, lifetimes, figures, and whole plans against the
// reference through the interpreter. Kernels for CUDA have tests of their own.
#include "codegen/compile.h"

#include <cstring>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

using plan::fb::BufferKind;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTwoLayers = R"(
graph @main(%x: f32[batch, seq, 8], %ids: i64[batch, seq]) ranges {batch: 1..4, seq: 1..16} {
  %table = const f32[10, 8] random(1)
  %w1 = const f32[8, 16] random(2)
  %b1 = const f32[16] random(3)
  %w2 = const f32[16, 8] random(4)
  %same = const f32[10, 8] random(1)
  %e = Fused(%x, %table, %ids) {kind = "pointwise"} body (%x, %table, %ids) {  # from Embed
    %g = Gather(%table, %ids) {axis = 0}
    %s = Add(%x, %g)
    return y = %s
  }
  %flat = Reshape(%e) {shape = [batch*seq, 8]}
  %h = Fused(%flat, %w1, %b1) {kind = "matmul"} body (%x, %w, %b) {  # from Up
    %y = MatMul(%x, %w)
    %z = Add(%y, %b)
    %r = Relu(%z)
    return y = %r
  }
  %o = Fused(%h, %w2, %flat) {kind = "matmul"} body (%x, %w, %r) {  # from Down
    %y = MatMul(%x, %w)
    %z = Add(%y, %r)
    return y = %z
  }
  %back = Reshape(%o) {shape = [batch, seq, 8]}
  %n, %m = Fused(%back) {kind = "reduction"} body (%x) {  # from Norm
    %m = ReduceMean(%x) {axes = [2], keepdims = 1}
    %d = Sub(%x, %m)
    return y = %d, m = %m
  }
  %again = Fused(%n, %same, %ids) {kind = "pointwise"} body (%x, %table, %ids) {  # from Embed2
    %g = Gather(%table, %ids) {axis = 0}
    %s = Add(%x, %g)
    return y = %s
  }
  %last = Reshape(%again) {shape = [batch*seq, 8]}
  return out = %again, mean = %m, flat = %last, input = %x, table = %same
})";

codegen::CompiledPlan compile_cpu(const char* text) {
  return codegen::compile(ir::parse_graph(text), {});
}

std::vector<std::string> step_names(const plan::fb::PlanT& plan) {
  std::vector<std::string> names;
  for (const auto& step : plan.steps) names.push_back(step->name);
  return names;
}

/// Runs a CPU plan with the tests' interpreter, arena buffers placed as the runtime places them so
/// that a wrong lifetime gives a wrong result.
std::vector<std::vector<std::byte>> run(const plan::PlanData& plan,
                                        std::span<const std::int64_t> symbols,
                                        std::span<const ir::Tensor> inputs) {
  const plan::fb::PlanT& meta = plan.meta;
  const auto expressions = plan::evaluate_expressions(meta, symbols);
  const plan::MemoryLayout layout = plan::plan_memory(meta, expressions);
  std::vector<std::byte> arena(layout.arena_bytes, std::byte{0xa5});
  Memory memory(meta.buffers.size());
  std::vector<DType> types;
  for (std::size_t b = 0; b < meta.buffers.size(); ++b) {
    const auto& buffer = *meta.buffers[b];
    types.push_back(static_cast<DType>(buffer.dtype));
    const auto bytes = static_cast<std::size_t>(expressions[buffer.bytes]);
    memory[b].assign(bytes, std::byte{0xa5});
    std::span<const std::byte> content;
    if (buffer.kind == BufferKind::Input) content = inputs[buffer.binding].bytes();
    if (buffer.kind == BufferKind::Weight) content = plan.weight(buffer, bytes);
    std::copy(content.begin(), content.end(), memory[b].begin());
  }
  const auto each_arena_buffer = [&](std::size_t step, auto&& action) {
    for (const auto* list : {&meta.steps[step]->reads, &meta.steps[step]->writes})
      for (const std::uint32_t b : *list)
        if (meta.buffers[b]->kind == BufferKind::Arena) action(b);
  };
  for (std::size_t s = 0; s < meta.steps.size(); ++s) {
    each_arena_buffer(s, [&](std::uint32_t b) {
      std::memcpy(memory[b].data(), arena.data() + layout.offsets[b], memory[b].size());
    });
    const auto& work = meta.steps[s]->work;
    if (const auto* loop = work.AsLoopStep()) {
      interpret(*loop->program, types, expressions, memory);
    } else if (const auto* product = work.AsMatmulStep()) {
      interpret(*product, types, expressions, memory);
    } else if (const auto* copy = work.AsCopyStep()) {
      memory[copy->target] = memory[copy->source];
    } else {
      ADD_FAILURE() << "step " << meta.steps[s]->name << " has no work";
    }
    each_arena_buffer(s, [&](std::uint32_t b) {
      std::memcpy(arena.data() + layout.offsets[b], memory[b].data(), memory[b].size());
    });
  }
  std::vector<std::vector<std::byte>> outputs;
  for (const auto& output : meta.outputs) outputs.push_back(memory[output->buffer]);
  return outputs;
}

TEST(Compile, PlanComputesTheGraph) {
  const ir::Graph graph = ir::parse_graph(kTwoLayers);
  const codegen::CompiledPlan compiled = codegen::compile(graph, {});
  const auto plan = plan::parse_plan(plan::serialize_plan(compiled.parts));
  for (const std::int64_t seq : {1, 7}) {
    const ir::Bindings symbols = {{"batch", 3}, {"seq", seq}};
    const auto inputs = random_inputs(graph, symbols, 5);
    ir::EvaluateOptions wide;
    wide.keep_wide = true;
    const auto expected = ir::evaluate(graph, inputs, wide);
    const std::int64_t values[] = {3, seq};
    const auto found = run(*plan, values, inputs);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(found[k].size(), expected[k].bytes().size());
      for (std::int64_t i = 0; i < expected[k].element_count(); ++i)
        ASSERT_NEAR(ir::load_as_double(DType::kFloat32, found[k].data() + 4 * i), expected[k].at(i),
                    1e-4)
            << graph.output_names()[k] << " " << i;
    }
  }
}

TEST(Compile, NamesStepsByTheirOperatorsInOrder) {
  EXPECT_THAT(step_names(compile_cpu(kTwoLayers).parts.meta),
              ElementsAre("gather_add_0", "matmul_add_relu_1", "matmul_add_2", "reducemean_sub_3",
                          "gather_add_4", "copy_5", "copy_6", "copy_7"));
}

TEST(Compile, KeepsOriginsAndManifest) {
  codegen::CompileOptions options;
  options.model_name = "two_layers";
  options.model_hash = 42;
  options.nodes_imported = 9;
  options.options = {{"fuse", "on"}};
  options.precision_notes = {"all float32"};
  const auto compiled = codegen::compile(ir::parse_graph(kTwoLayers), options);
  const plan::fb::PlanT& meta = compiled.parts.meta;
  EXPECT_THAT(meta.steps[1]->origins, ElementsAre("Up"));
  EXPECT_EQ(meta.manifest->model_name, "two_layers");
  EXPECT_EQ(meta.manifest->model_hash, 42u);
  EXPECT_EQ(meta.manifest->nodes_imported, 9u);
  EXPECT_EQ(meta.manifest->options.at(0)->value, "on");
  EXPECT_THAT(meta.manifest->precision_notes, ElementsAre("all float32"));
  EXPECT_EQ(meta.target, "cpu");
  EXPECT_FALSE(meta.compiler_version.empty());
  EXPECT_NO_THROW(ir::parse_graph(meta.graph_text, ir::constant_pool(ir::parse_graph(kTwoLayers))));
}

TEST(Compile, EqualConstantsAreStoredOnceAndAligned) {
  const auto compiled = compile_cpu(kTwoLayers);
  std::size_t weights = 0;
  for (const auto& buffer : compiled.parts.meta.buffers) {
    if (buffer->kind != BufferKind::Weight) continue;
    ++weights;
    EXPECT_EQ(buffer->weight_offset % plan::kWeightAlignment, 0u);
  }
  EXPECT_EQ(weights, 4u);  // table, w1, b1, w2
  EXPECT_EQ(compiled.parts.weights.size(), 4u);
}

TEST(Compile, ComputedOutputsNeedNoCopy) {
  const auto compiled = compile_cpu(kTwoLayers);
  const plan::fb::PlanT& meta = compiled.parts.meta;
  // out and mean are written where they belong; the second name of out, the input and the constant
  // are copied.
  EXPECT_EQ(meta.steps[4]->writes, std::vector<std::uint32_t>{meta.outputs[0]->buffer});
  EXPECT_THAT(meta.steps[3]->writes, testing::Contains(meta.outputs[1]->buffer));
  const auto* copy = meta.steps[5]->work.AsCopyStep();
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->source, meta.outputs[0]->buffer);
  EXPECT_EQ(copy->target, meta.outputs[2]->buffer);
  EXPECT_EQ(meta.steps[6]->work.AsCopyStep()->source, meta.inputs[0]->buffer);
}

TEST(Compile, ArenaBuffersLiveFromFirstWriteToLastRead) {
  const auto compiled = compile_cpu(kTwoLayers);
  const plan::fb::PlanT& meta = compiled.parts.meta;
  for (std::uint32_t b = 0; b < meta.buffers.size(); ++b) {
    if (meta.buffers[b]->kind != BufferKind::Arena) continue;
    std::set<std::uint32_t> uses;
    for (std::uint32_t s = 0; s < meta.steps.size(); ++s)
      for (const auto* list : {&meta.steps[s]->reads, &meta.steps[s]->writes})
        if (std::find(list->begin(), list->end(), b) != list->end()) uses.insert(s);
    ASSERT_FALSE(uses.empty()) << "buffer " << b << " is never used";
    EXPECT_EQ(meta.buffers[b]->first_step, *uses.begin());
    EXPECT_EQ(meta.buffers[b]->last_step, *uses.rbegin());
    EXPECT_THAT(meta.steps[*uses.begin()]->writes, testing::Contains(b));
  }
  // The reshaped embedding is one buffer: written by step 0, read as the residual of step 2.
  const std::uint32_t embedding = meta.steps[0]->writes.at(0);
  EXPECT_EQ(meta.buffers[embedding]->last_step, 2u);
}

TEST(Compile, CountsTrafficAndWork) {
  const auto compiled = compile_cpu(kTwoLayers);
  const plan::fb::PlanT& meta = compiled.parts.meta;
  const std::int64_t symbols[] = {2, 5};
  const auto values = plan::evaluate_expressions(meta, symbols);
  const std::int64_t rows = 2 * 5;
  // The table is read where it is gathered, at most whole: 10 rows of 8 either way.
  EXPECT_EQ(values[meta.steps[0]->bytes_read], rows * 8 * 4 + 10 * 8 * 4 + rows * 8);
  EXPECT_EQ(values[meta.steps[0]->bytes_written], rows * 8 * 4);
  EXPECT_EQ(values[meta.steps[0]->flops], rows * 8);
  EXPECT_EQ(values[meta.steps[1]->bytes_read], (rows * 8 + 8 * 16 + 16) * 4);
  EXPECT_EQ(values[meta.steps[1]->flops], 2 * rows * 8 * 16);
  EXPECT_EQ(values[meta.steps[3]->bytes_written], (rows * 8 + rows) * 4);
}

TEST(Compile, TheSameBytesEveryTime) {
  codegen::CompileOptions one, many;
  one.threads = 1;
  many.threads = 8;
  const auto first = plan::serialize_plan(codegen::compile(ir::parse_graph(kTwoLayers), one).parts);
  const auto second =
      plan::serialize_plan(codegen::compile(ir::parse_graph(kTwoLayers), many).parts);
  EXPECT_TRUE(first == second);
}

TEST(Compile, ReportsProgress) {
  codegen::CompileOptions options;
  std::vector<std::size_t> done;
  std::size_t total = 0;
  options.progress = [&](std::size_t d, std::size_t of) {
    EXPECT_LE(d, of);
    done.push_back(d);
    total = of;
  };
  codegen::compile(ir::parse_graph(kTwoLayers), options);
  // After each step, and when all are done.
  EXPECT_EQ(done.size(), 6u);
  EXPECT_EQ(done.back(), total);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

TEST(Compile, StatesAndConvolutionsGoThrough) {
  const auto compiled = compile_cpu(R"(
graph @main(%x: f32[batch, 3, 8], %s: f32[batch, 4, 8]) states {output 0 -> input 1} {
  %w = const f32[4, 3, 3] random(1)
  %b = const f32[4] random(2)
  %y = Fused(%x, %w, %b) {kind = "conv"} body (%x, %w, %b) {
    %c = Conv(%x, %w, %b) {strides = [1], dilations = [1], pads_begin = [1], pads_end = [1], group = 1}
    %r = Relu(%c)
    return y = %r
  }
  %n = Fused(%y, %s) {kind = "pointwise"} body (%y, %s) {
    %z = Add(%y, %s)
    return z = %z
  }
  return n = %n
} )");
  const plan::fb::PlanT& meta = compiled.parts.meta;
  const auto* conv = meta.steps[0]->work.AsConvStep();
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->activation, plan::fb::Activation::Relu);
  EXPECT_EQ(conv->output_shape.size(), 3u);
  EXPECT_GE(conv->bias, 0);
  ASSERT_EQ(meta.states.size(), 1u);
  EXPECT_EQ(meta.states[0]->output, 0u);
  EXPECT_EQ(meta.states[0]->input, 1u);
  EXPECT_NO_THROW(plan::parse_plan(plan::serialize_plan(compiled.parts)));
}

TEST(Compile, ConvolutionsEndWithAResidualAndAnActivation) {
  const auto compiled = compile_cpu(R"(
graph @main(%x: f32[batch, 8, 3], %s: f32[batch, 8, 4]) {
  %w = const f32[4, 3, 3] random(1)
  %y = Fused(%x, %w, %s) {kind = "conv"} body (%x, %w, %s) {
    %low = const f32[] {-1}
    %high = const f32[] {6}
    %c = Conv(%x, %w) {strides = [1], dilations = [1], pads_begin = [1], pads_end = [1], group = 1, channels_last = 1}
    %a = Add(%s, %c)
    %r = Clip(%a, %low, %high)
    return y = %r
  }
  return y = %y
} )");
  const plan::fb::PlanT& meta = compiled.parts.meta;
  const auto* conv = meta.steps[0]->work.AsConvStep();
  ASSERT_NE(conv, nullptr);
  EXPECT_TRUE(conv->channels_last);
  EXPECT_EQ(conv->residual, static_cast<std::int32_t>(meta.inputs[1]->buffer));
  EXPECT_EQ(conv->activation, plan::fb::Activation::Clip);
  EXPECT_EQ(conv->activation_a, -1);
  EXPECT_EQ(conv->activation_b, 6);
  EXPECT_NO_THROW(plan::parse_plan(plan::serialize_plan(compiled.parts)));
}

std::string compile_error(const char* text) {
  try {
    compile_cpu(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(Compile, NamesWhatItCannotLower) {
  EXPECT_THAT(compile_error(R"(graph @main(%x: f32[4]) {
    %y = Exp(%x)  # from Exp_7
    return y = %y
  })"),
              testing::AllOf(HasSubstr("Exp 'Exp_7'"), HasSubstr("only fused regions")));
  EXPECT_THAT(compile_error(R"(graph @main(%x: f32[4]) {
    %y = Fused(%x) {kind = "horizontal"} body (%x) {
      %e = Exp(%x)
      return y = %e
    }
    return y = %y
  })"),
              HasSubstr("kind 'horizontal'"));
}

constexpr const char* kScatters = R"(
graph @main(%x: f32[6, 4], %i: i64[3, 1], %u: f32[3, 4]) {
  %a = Fused(%x) {kind = "pointwise"} body (%x) {
    %y = Exp(%x)
    return y = %y
  }
  %b = Fused(%a, %u, %i) {kind = "scatter"} body (%x, %u, %i) {
    %c = Iota() {shape = [4]}
    %y = Scatter(%x, %u, %i, %c)
    return y = %y
  }
  %d = Fused(%b, %u, %i) {kind = "scatter"} body (%x, %u, %i) {
    %c = Iota() {shape = [4]}
    %v = Neg(%u)
    %y = Scatter(%x, %v, %i, %c) {combine = "sum"}
    return y = %y
  }
  return z = %d
})";

TEST(Compile, ScattersInPlaceWhereNothingElseReads) {
  // Both happen in the output's buffer.
  EXPECT_THAT(step_names(compile_cpu(kScatters).parts.meta),
              ElementsAre("exp_0", "scatter_1", "neg_scatter_2"));
  std::string kept = kScatters;
  kept.replace(kept.find("return z = %d"), 13, "return z = %d, b = %b");
  EXPECT_THAT(step_names(compile_cpu(kept.c_str()).parts.meta),
              ElementsAre("exp_0", "scatter_1", "copy_2", "neg_scatter_2"));
  // Updates that are made of the data need it as it was.
  std::string own = kScatters;
  own.replace(own.find("%v = Neg(%u)"), 12,
              "%s = Slice(%x) {starts = [0, 0], steps = [1, 1], shape = [3, 4]}\n    %v = Neg(%s)");
  EXPECT_THAT(step_names(compile_cpu(own.c_str()).parts.meta),
              ElementsAre("exp_0", "scatter_1", "copy_2", "neg_scatter_2"));
}

}  // namespace
}  // namespace sinter::test
