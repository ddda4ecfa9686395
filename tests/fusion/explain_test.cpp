// SPDX-License-Identifier: Apache-2.0
// Why two nodes are or are not in one kernel: relations, boundaries, bytes at stake.
#include "fusion/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/graph.h"

namespace sinter::fusion::test {
namespace {

using ir::GraphBuilder;
using ir::ValueId;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A graph whose nodes have the names of ONNX nodes.
class Model {
 public:
  ValueId input(const std::string& name, std::vector<std::int64_t> dims,
                DType dtype = DType::kFloat32) {
    return builder.input(name, {dtype, ir::Shape(dims.begin(), dims.end())});
  }
  ValueId add(const std::string& name, std::string_view op, std::vector<ValueId> inputs,
              ir::Attrs attrs = {}) {
    const GraphBuilder::OriginScope scope(builder, {name});
    return builder.add(op, std::move(inputs), std::move(attrs));
  }

  Explanation why(const std::string& a, const std::string& b,
                  TargetTraits target = codegen::cuda_target().traits()) {
    if (imported.nodes().empty()) imported = builder.finish();
    context = {};
    context.target = std::move(target);
    Trace trace({a, b}, imported);
    PipelineOptions options;
    options.observe = [&](std::string_view pass, bool after, const ir::Graph& graph) {
      if (after) trace.after(pass, graph);
    };
    last = run_pipeline(imported, context, options).graph;
    return explain(imported, last, context, trace.lives()[0], trace.lives()[1]);
  }

  GraphBuilder builder;
  ir::Graph imported, last;
  Context context;
};

/// y = gelu(softmax(x) @ w + b) * x', with a branch of x that nothing joins.
Model encoder() {
  Model m;
  const ValueId x = m.input("x", {64, 256}), w = m.input("w", {256, 128});
  const ValueId shifted = m.add("shift", "Add", {x, x});
  const ValueId weights = m.add("weights", "Softmax", {shifted}, {{"axis", std::int64_t{1}}});
  const ValueId product = m.add("product", "MatMul", {weights, w});
  const ValueId activated = m.add("activate", "Sin", {product});
  const ValueId scaled = m.add("scale", "Mul", {activated, activated});
  const ValueId other = m.add("other", "Cos", {x});
  m.builder.output("y", scaled);
  m.builder.output("z", other);
  return m;
}

TEST(Explain, NeighboursInOneKernel) {
  Model m = encoder();
  const Explanation why = m.why("activate", "scale");
  EXPECT_EQ(why.relation, Relation::kOneKernel);
  ASSERT_EQ(why.shared.size(), 1u);
  EXPECT_FALSE(why.from_b_to_a);
  EXPECT_THAT(why.between, IsEmpty());
  EXPECT_DOUBLE_EQ(why.bytes, 2 * 64 * 128 * 4);  // stored once, read by one kernel
  EXPECT_DOUBLE_EQ(why.launches, 1);
  ASSERT_EQ(why.decisions.size(), 1u);
  EXPECT_THAT(why.decisions[0].reason, HasSubstr("fused: saves"));
  EXPECT_EQ(why.decisions[0].pass, "fuse_pointwise");
  EXPECT_DOUBLE_EQ(why.decisions[0].bytes, 2 * 64 * 128 * 4);
  EXPECT_THAT(why.decisions[0].producer_origins, ElementsAre("activate"));
}

TEST(Explain, TheOtherWayRound) {
  Model m = encoder();
  const Explanation why = m.why("weights", "shift");
  EXPECT_EQ(why.relation, Relation::kOneKernel);
  EXPECT_TRUE(why.from_b_to_a);
  EXPECT_DOUBLE_EQ(why.bytes, 2 * 64 * 256 * 4);
}

TEST(Explain, FarInOneKernel) {
  Model m;
  const ValueId x = m.input("x", {1000}), y = m.input("y", {1000});
  const ValueId a = m.add("a", "Sin", {x});
  const ValueId b = m.add("b", "Mul", {a, y});
  const ValueId c = m.add("c", "Cos", {b});
  m.builder.output("b", b);
  m.builder.output("c", c);
  const Explanation why = m.why("a", "c");
  EXPECT_EQ(why.relation, Relation::kOneKernel);
  EXPECT_THAT(why.between, ElementsAre("b"));
  // a is neither stored nor read; b is an output and stored all the same.
  EXPECT_DOUBLE_EQ(why.bytes, 3 * 4000);
  EXPECT_DOUBLE_EQ(why.launches, 2);
}

TEST(Explain, SideBySideInOneKernel) {
  Model m;
  const ValueId x = m.input("x", {1000});
  m.builder.output("s", m.add("join", "Add", {m.add("a", "Sin", {x}), m.add("b", "Cos", {x})}));
  const Explanation why = m.why("a", "b");
  EXPECT_EQ(why.relation, Relation::kOneKernel);
  EXPECT_TRUE(why.side_by_side);
  EXPECT_DOUBLE_EQ(why.bytes, 4000);
  EXPECT_DOUBLE_EQ(why.launches, 1);
}

TEST(Explain, BoundariesBetweenKernelsThatAreNotNeighbours) {
  Model m = encoder();
  const Explanation why = m.why("shift", "scale", codegen::cpu_target().traits());
  EXPECT_EQ(why.relation, Relation::kSeparate);
  EXPECT_FALSE(why.from_b_to_a);
  ASSERT_EQ(why.boundaries.size(), 2u);
  const Boundary& first = why.boundaries[0];
  EXPECT_DOUBLE_EQ(first.read_bytes, 64 * 256 * 4);
  EXPECT_DOUBLE_EQ(first.stored_bytes, 64 * 256 * 4);
  ASSERT_EQ(first.values.size(), 1u);
  EXPECT_EQ(ir::to_string(first.values[0]), "f32[64, 256]");
  ASSERT_FALSE(first.decisions.empty());
  EXPECT_FALSE(first.decisions[0].fused);
  EXPECT_THAT(first.decisions[0].consumer_origins, Contains("product"));
  EXPECT_FALSE(why.boundaries[1].decisions.empty() && why.boundaries[1].reason.empty());
  EXPECT_DOUBLE_EQ(why.bytes, 2 * (64 * 256 + 64 * 128) * 4);
  EXPECT_DOUBLE_EQ(why.launches, 2);
  EXPECT_TRUE(m.why("scale", "shift", codegen::cpu_target().traits()).from_b_to_a);
}

TEST(Explain, WhatOthersReadTooIsStoredAllTheSame) {
  Model m;
  const ValueId x = m.input("x", {64, 64});
  const ValueId a = m.add("a", "Sin", {x});
  m.builder.output("a", a);
  m.builder.output("p", m.add("p", "MatMul", {a, x}));
  const Explanation why = m.why("a", "p");
  ASSERT_EQ(why.boundaries.size(), 1u);
  EXPECT_DOUBLE_EQ(why.boundaries[0].stored_bytes, 0);
  EXPECT_DOUBLE_EQ(why.bytes, 64 * 64 * 4);
}

TEST(Explain, NoDataFlowBetween) {
  Model m = encoder();
  const Explanation why = m.why("activate", "other", codegen::cpu_target().traits());
  EXPECT_EQ(why.relation, Relation::kUnrelated);
  EXPECT_THAT(why.boundaries, IsEmpty());
  EXPECT_DOUBLE_EQ(why.launches, 1);
  EXPECT_DOUBLE_EQ(why.bytes, 0);
  // These read one input.
  EXPECT_DOUBLE_EQ(m.why("weights", "other", codegen::cpu_target().traits()).bytes, 64 * 256 * 4);
}

TEST(Explain, WhatWasRepeatedCounts) {
  Model m;
  const ValueId x = m.input("x", {256, 4});
  const ValueId s = m.add("s", "Sin", {x});
  const ValueId wide =
      m.add("wide", "Expand", {m.add("shape", "Reshape", {s}, {{"shape", ir::Shape{256, 1, 4}}})},
            {{"shape", ir::Shape{256, 2, 4}}});
  m.builder.output("y", m.add("y", "Exp", {wide}));
  const Explanation why = m.why("s", "y");
  EXPECT_EQ(why.relation, Relation::kOneKernel);
  EXPECT_GT(why.operations, 0);
}

TEST(Explain, FoldedNodesAndAliasesHaveNoKernel) {
  Model m;
  const ValueId x = m.input("x", {4, 4});
  const ValueId one = m.builder.constant(
      ir::Tensor::of<float>(DType::kFloat32, {4, 4}, std::vector<float>(16, 1.0F)));
  const ValueId folded = m.add("folded", "Exp", {one});
  const ValueId sum = m.add("sum", "Add", {x, folded});
  m.builder.output("y", m.add("shape", "Reshape", {sum}, {{"shape", ir::Shape{16}}}));
  const Explanation why = m.why("folded", "sum");
  EXPECT_EQ(why.relation, Relation::kNoKernel);
  EXPECT_EQ(why.a.gone_in, "fold_constants");
  EXPECT_THAT(why.a.kernels, IsEmpty());
  EXPECT_EQ(why.b.kernels.size(), 1u);
  EXPECT_DOUBLE_EQ(why.bytes, 0);
  const Explanation alias = m.why("shape", "sum");
  EXPECT_EQ(alias.relation, Relation::kNoKernel);
  EXPECT_EQ(alias.a.gone_in, "");
  const Explanation never = m.why("absent", "sum");
  EXPECT_EQ(never.a.gone_in, "import");
}

TEST(Explain, LivesSayWhatBecameOfANode) {
  Model m = encoder();
  const Explanation why = m.why("weights", "product", codegen::cpu_target().traits());
  ASSERT_GE(why.a.changes.size(), 3u);
  EXPECT_EQ(why.a.changes[0].pass, "import");
  EXPECT_EQ(why.a.changes[0].became, "Softmax");
  EXPECT_EQ(why.a.changes[1].pass, "decompose");
  EXPECT_THAT(why.a.changes[1].became, HasSubstr("ReduceMax"));
  EXPECT_EQ(why.a.changes.back().pass, "fuse_reductions");
  EXPECT_EQ(why.a.changes.back().became, "a kernel of kind reduction");
  EXPECT_EQ(why.b.changes.back().became, "a kernel of kind matmul");
}

TEST(Explain, SharedConstantsMakeNoRelation) {
  // Both products' scales are casts of one constant, which becomes one node.
  Model m;
  const ValueId x = m.input("x", {64, 256});
  const ValueId scale = m.builder.constant(
      ir::Tensor::from_doubles(DType::kFloat16, {256}, std::vector<double>(256, 1.5)));
  const auto norm = [&](const std::string& name, ValueId value) {
    const GraphBuilder::OriginScope scope(m.builder, {name});
    const ValueId wide = m.builder.add("Cast", {scale}, {{"to", DType::kFloat32}});
    const ValueId sum =
        m.builder.add("ReduceSum", {value},
                      {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{1}}});
    return m.builder.add("Mul", {m.builder.add("Div", {value, sum}), wide});
  };
  const ValueId first = norm("first", x);
  const ValueId product = m.add("product", "MatMul", {first, m.input("w", {256, 256})});
  m.builder.output("y", norm("second", product));
  const Explanation why = m.why("first", "second", codegen::cpu_target().traits());
  EXPECT_EQ(why.relation, Relation::kSeparate);
  EXPECT_EQ(why.a.kernels.size(), 1u);
  EXPECT_EQ(why.b.kernels.size(), 1u);
}

TEST(Explain, PartsOfOneProduct) {
  Model m;
  const ValueId x = m.input("x", {32, 64}), w = m.input("w", {64, 48});
  const ValueId product = m.add("product", "MatMul", {x, w});
  m.builder.output("y", m.add("activate", "Relu", {product}));
  const Explanation why = m.why("product", "activate");
  EXPECT_EQ(why.relation, Relation::kOneKernel);
  EXPECT_DOUBLE_EQ(why.bytes, 2 * 32 * 48 * 4);
  EXPECT_THAT(why.decisions, Contains(testing::Field(&Decision::pass, "fuse_matmul")));
}

TEST(Explain, PartsOfARecognisedOperator) {
  Model m;
  const ValueId x = m.input("x", {1000});
  m.builder.output("y", m.add("gate", "Mul", {x, m.add("squash", "Sigmoid", {x})}));
  const Explanation why = m.why("squash", "gate");
  EXPECT_EQ(why.relation, Relation::kOneKernel);
  for (const NodeLife* life : {&why.a, &why.b}) {
    ASSERT_GE(life->changes.size(), 2u);
    EXPECT_EQ(life->changes[1].pass, "recognise");
    EXPECT_EQ(life->changes[1].became, "Silu");
  }
  EXPECT_DOUBLE_EQ(why.bytes, 2 * 4000);
}

TEST(Explain, PartsOfAttention) {
  Model m;
  const auto f16 = DType::kFloat16;
  const ValueId scores = m.add(
      "scores", "MatMul", {m.input("q", {2, 3, 32, 64}, f16), m.input("k", {2, 3, 64, 48}, f16)});
  const ValueId weights = m.add("weights", "Softmax", {scores}, {{"axis", std::int64_t{3}}});
  m.builder.output("y", m.add("values", "MatMul", {weights, m.input("v", {2, 3, 48, 64}, f16)}));
  const Explanation why = m.why("scores", "weights");
  EXPECT_EQ(why.relation, Relation::kOneKernel);
  EXPECT_THAT(why.a.changes,
              Contains(testing::Field(&NodeLife::Change::pass, "recognise_attention")));
  EXPECT_THAT(why.a.changes.back().became, HasSubstr("a kernel of kind attention"));
  EXPECT_DOUBLE_EQ(why.bytes, 2 * 2 * 3 * 32 * 48 * 2);
  EXPECT_THAT(why.decisions, Contains(testing::Field(&Decision::pass, "recognise_attention")));
}

TEST(Explain, HorizontalKernelsShareALaunch) {
  Model m;
  std::vector<ValueId> means;
  for (int i = 0; i < 5; ++i) {
    const ValueId x = m.input("x" + std::to_string(i), {1000 + i});
    m.builder.output("m" + std::to_string(i), m.add("mean" + std::to_string(i), "ReduceMean", {x},
                                                    {{"axes", std::vector<std::int64_t>{0}},
                                                     {"keepdims", std::int64_t{0}}}));
  }
  const Explanation why = m.why("mean1", "mean3");
  EXPECT_EQ(why.relation, Relation::kOneKernel);
  EXPECT_TRUE(why.side_by_side);
  EXPECT_DOUBLE_EQ(why.bytes, 0);
  EXPECT_DOUBLE_EQ(why.launches, 1);
}

}  // namespace
}  // namespace sinter::fusion::test
