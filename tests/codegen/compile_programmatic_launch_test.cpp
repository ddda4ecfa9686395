// SPDX-License-Identifier: Apache-2.0
// What kernels fetch before the step in front has ended, and the tactics of products whose
// few rows a norm makes.
#ifdef SINTER_WITH_CUDA

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;
using testing::Not;

codegen::CompiledPlan compile(const std::string& graph, std::string& sources) {
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_90"};
  options.programmatic_launch = true;
  auto compiled = codegen::compile(ir::parse_graph(graph), options);
  const auto plan = plan::parse_plan(plan::serialize_plan(compiled.parts));
  sources.assign(reinterpret_cast<const char*>(plan->sources.data()), plan->sources.size());
  return compiled;
}

/// The part of `text` in front of the first wait.
std::string before_wait(const std::string& text) {
  return text.substr(0, text.find("grid_dependency_wait();"));
}

TEST(CompileEarly, TablesAreFetchedAtPlacesThatInputsSay) {
  std::string sources;
  compile(R"(
graph @main(%x: f16[4, 64], %at: i64[1]) {
  %table = const f16[32, 64] random(1)
  %y = Fused(%x, %table, %at) {kind = "pointwise"} body (%x, %table, %at) {
    %row = Gather(%table, %at) {axis = 0}
    %s = Mul(%x, %row)
    return s = %s
  }
  return y = %y
})",
          sources);
  const std::string early = before_wait(sources);
  EXPECT_THAT(early, HasSubstr("wrap_index(widen("));
  EXPECT_THAT(early, HasSubstr("fetch_line"));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(CompileEarly, WeightsOfGroupsThatAnEarlierStepHadAreRead) {
  // The second of two products by the same offsets does not wait for them; one by others does.
  for (const bool are_same : {true, false}) {
    std::string sources;
    compile(R"(
graph @main(%x: f16[64, 64], %o: i32[5], %p: i32[5]) {
  %w = const f16[4, 128, 64] random(1)
  %v = const f16[4, 64, 128] random(2)
  %h = Fused(%x, %w, %o) {kind = "grouped_matmul"} body (%x, %w, %o) {
    %y = GroupedMatMul(%x, %w, %o) {transposed = 1}
    return y = %y
  }
  %z = Fused(%h, %v, )" +
                std::string(are_same ? "%o" : "%p") +
                R"() {kind = "grouped_matmul"} body (%h, %v, %o) {
    %y = GroupedMatMul(%h, %v, %o) {transposed = 1}
    return y = %y
  }
  return z = %z
})",
            sources);
    const std::size_t all = count(sources, "__shared__ GroupTiles<"),
                      waiting = count(sources, "grid_dependency_wait();\n  __shared__ GroupTiles<");
    EXPECT_GT(waiting, 0U);
    EXPECT_EQ(waiting == all, !are_same) << waiting << " of " << all;
  }
}

TEST(CompileEarly, BiasesBehindProductsAreFetchedButNoResiduals) {
  std::string sources;
  compile(R"(
graph @main(%x: f16[70, 128], %y: f16[70, 128]) {
  %r = Fused(%y) {kind = "pointwise"} body (%y) {
    %t = Tanh(%y)
    return t = %t
  }
  %w = const f16[128, 128] random(1)
  %b = const f16[128] random(2)
  %p = Fused(%x, %w, %b, %r) {kind = "gemm"} body (%x, %w, %b, %r) {
    %m = Fused(%x, %w, %b, %r) {kind = "matmul"} body (%x, %w, %b, %r) {
      %p = MatMul(%x, %w)
      %s = Add(%p, %b)
      %u = Add(%s, %r)
      return u = %u
    }
    return m = %m
  }
  return p = %p
})",
          sources);
  for (const char* family : {"WithAccumulators<WarpTile<", "WithAccumulators<TmaTile<"}) {
    SCOPED_TRACE(family);
    const std::size_t at = sources.find(family);
    ASSERT_NE(at, std::string::npos);
    const std::string kernel = sources.substr(at, sources.find("Tile::begin<", at) - at);
    EXPECT_THAT(kernel, HasSubstr(", 256);"));  // bytes
    EXPECT_EQ(kernel.find("fetch_line"), kernel.rfind("fetch_line"));
  }
}

TEST(CompileEarly, WhatAStepWritesIsNot) {
  std::string sources;
  // The two kernels are one; the second reads the first one's result in the place of an input.
  compile(R"(
graph @main(%x: f16[4, 64]) {
  %a = Fused(%x) {kind = "pointwise"} body (%x) {
    %t = Tanh(%x)
    return t = %t
  }
  %b = Fused(%a) {kind = "pointwise"} body (%x) {
    %t = Tanh(%x)
    return t = %t
  }
  return b = %b
})",
          sources);
  EXPECT_THAT(sources, Not(HasSubstr("fetch_line")));
}

// Loads through `const __restrict__` parameters may be moved in front of the wait.
TEST(CompileEarly, WhatAStepWritesIsReadThroughAPointerFromBehindTheWait) {
  std::string sources;
  compile(R"(
graph @main(%q: f16[2, 3, 64], %k: f16[2, 40, 64], %x: f16[40, 64]) {
  %w = const f16[64] random(1)
  %s = Fused(%x, %w) {kind = "pointwise"} body (%x, %w) {
    %t = Tanh(%x)
    %m = Mul(%t, %w)
    return m = %m
  }
  %v = Fused(%s, %w) {kind = "pointwise"} body (%x, %w) {
    %t = Tanh(%x)
    %m = Mul(%t, %w)
    return m = %m
  }
  %y = Fused(%q, %k) {kind = "attention"} body (%q, %k) {
    %a = Attention(%q, %k, %k) {scale = 0.125}
    return a = %a
  }
  return y = %y, v = %v
})",
          sources);
  const std::size_t loops = sources.find("x0 = after_grid_wait(x0);");
  ASSERT_NE(loops, sources.npos);
  EXPECT_EQ(sources.substr(0, loops).find_last_not_of(" \n"),
            sources.rfind("grid_dependency_wait();", loops) +
                std::string("grid_dependency_wait();").size() - 1);
  const std::string attention = sources.substr(sources.find("attention.cuh"));
  for (const char* line : {"x0 = after_grid_wait(x0);", "x1 = after_grid_wait(x1);"})
    EXPECT_GT(attention.find(line), attention.find("grid_dependency_wait();")) << line;
}

/// A norm of few rows and the product that reads it.
std::string norm_graph(const std::string& inputs, const std::string& weights) {
  return "graph @main(%x: f16[2, 64], %g: f16[64]" + inputs + ") {\n" + weights + R"(
  %y = Fused(%x, %g, %w) {kind = "gemm"} body (%x, %g, %w) {
    %n = Fused(%x, %g) {kind = "reduction"} body (%x, %g) {
      %q = Square(%x)
      %m = ReduceMean(%q) {axes = [1], keepdims = 1}
      %i = Rsqrt(%m)
      %s = Mul(%x, %i)
      %t = Mul(%s, %g)
      return t = %t
    }
    %p = Fused(%n, %w) {kind = "matmul"} body (%n, %w) {
      %m = MatMul(%n, %w)
      return m = %m
    }
    return p = %p
  }
  return y = %y
})";
}

TEST(CompileEarly, RowsOfAProductComeInItOrFirst) {
  std::string sources;
  const auto compiled = compile(norm_graph(", %w: f16[64, 96]", ""), sources);
  const plan::fb::StepT& step = *compiled.parts.meta.steps[0];
  const auto& ways = step.work.AsTacticStep()->tactics;
  ASSERT_GE(ways.size(), 3u);
  EXPECT_EQ(ways[0]->name, "gemm with its prologue");
  EXPECT_EQ(ways[0]->parts.size(), 1u);
  EXPECT_EQ(ways[1]->name, "prologue, then gemm");
  EXPECT_EQ(ways[1]->parts.size(), 2u);
  EXPECT_EQ(ways.back()->name, "prologue, then library");
  EXPECT_NE(ways.back()->parts[1]->work.AsMatmulStep(), nullptr);
  // The rows pass within the step.
  ASSERT_EQ(step.writes.size(), 2u);
  const std::uint32_t rows = step.writes[1];
  EXPECT_THAT(step.reads, Not(testing::Contains(rows)));
  EXPECT_EQ(compiled.parts.meta.buffers[rows]->kind, plan::fb::BufferKind::Arena);
  EXPECT_THAT(sources, HasSubstr("Tile::make_prologue(shared, i32(64)"));
}

TEST(CompileEarly, NothingElseReadsPackedWeightsOfFewRows) {
  std::string sources;
  const auto compiled = compile(norm_graph("", "  %w = const f16[64, 96] random(1)"), sources);
  const plan::fb::StepT& step = *compiled.parts.meta.steps[0];
  std::vector<std::string> names;
  for (const auto& way : step.work.AsTacticStep()->tactics) names.push_back(way->name);
  EXPECT_THAT(names, testing::ElementsAre("gemm with its prologue", "prologue, then gemm"));
  EXPECT_THAT(sources, HasSubstr("PackedElements, NoScales"));
  // k is filled up to 256; the plan has these weights alone.
  EXPECT_EQ(compiled.parts.weights.back().size, 96u * 256 * 2);
  EXPECT_EQ(compiled.parts.weights.size(), 1u);
  EXPECT_EQ(step.reads.size(), 3u);
}

TEST(CompileEarly, WeightsThatOtherStepsReadAreNotPacked) {
  std::string sources;
  const auto compiled = compile(R"(
graph @main(%x: f16[1, 64], %id: i64[1]) {
  %w = const f16[96, 64] random(1)
  %y = Fused(%x, %w) {kind = "gemm"} body (%x, %w) {
    %p = Fused(%x, %w) {kind = "matmul"} body (%x, %w) {
      %t = Transpose(%w) {perm = [1, 0]}
      %m = MatMul(%x, %t)
      return m = %m
    }
    return p = %p
  }
  %z = Fused(%w, %id) {kind = "pointwise"} body (%w, %id) {
    %g = Gather(%w, %id) {axis = 0}
    return g = %g
  }
  return y = %y, z = %z
})",
                                sources);
  EXPECT_THAT(sources, HasSubstr("RowsAreColumns, NoScales"));
  EXPECT_THAT(sources, Not(HasSubstr("PackedElements")));
  EXPECT_EQ(compiled.parts.weights.size(), 1u);
}

}  // namespace
}  // namespace sinter::test

#endif
