// SPDX-License-Identifier: Apache-2.0
#include "ir/affine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/text/text.h"
#include "tests/ir/symbols.h"

namespace sinter::ir {
namespace {

using ::testing::ElementsAre;

const Dim i0 = Dim::symbol("$0"), i1 = Dim::symbol("$1"), i2 = Dim::symbol("$2"),
          i3 = Dim::symbol("$3");

TEST(IndexSymbols, AreBoundedByTheirExtent) {
  Ranges ranges{{"seq", {1, 512, nullptr}}};
  const auto symbols = index_symbols({S, 12}, ranges);
  EXPECT_THAT(symbols, ElementsAre(i0, i1));
  EXPECT_EQ(ranges.at("$0").min, 0);
  EXPECT_EQ(ranges.at("$0").max, 511);
  EXPECT_EQ(*ranges.at("$0").symbolic_max, S - 1);
  EXPECT_EQ(ranges.at("$1").max, 11);
}

TEST(LinearForm, SplitsIntoOffsetAndStrides) {
  const std::vector<std::string> symbols{"$0", "$1"};
  const auto form = linear_form(i0 * S * 384 + i1 * 3 + S + 7, symbols);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->offset, S + 7);
  EXPECT_THAT(form->strides, ElementsAre(384 * S, Dim(3)));
  EXPECT_FALSE(linear_form(i0 * i1, symbols));
  EXPECT_FALSE(linear_form(i0 * i0, symbols));
  EXPECT_FALSE(linear_form(floor_div(i0, 2), symbols));
  EXPECT_TRUE(linear_form(floor_div(S, 2) * i1, symbols));
}

/// The last output of a graph `text` as one strided access.
struct Access {
  Graph graph;
  std::optional<StridedAccess> access;
};
Access access_of(const std::string& text) {
  Graph graph = parse_graph(text);
  auto access = strided_access(graph, graph.outputs()[0]);
  return {std::move(graph), std::move(access)};
}

TEST(StridedAccess, OfAttentionHeads) {
  const auto [graph, access] = access_of(R"(
graph @main(%x: f32[batch, seq, 384]) {
  %0 = Reshape(%x) {shape = [batch, seq, 12, 32]}
  %1 = Transpose(%0) {perm = [0, 2, 3, 1]}
  return %1
})");
  ASSERT_TRUE(access);
  EXPECT_EQ(access->source, graph.inputs()[0]);
  EXPECT_EQ(access->offset, Dim(0));
  EXPECT_THAT(access->strides, ElementsAre(384 * S, Dim(32), Dim(1), Dim(384)));
}

TEST(StridedAccess, OfHeadsMergedBack) {
  const auto [graph, access] = access_of(R"(
graph @main(%x: f32[batch, seq, 12, 32]) {
  %0 = Transpose(%x) {perm = [0, 2, 1, 3]}
  %1 = Transpose(%0) {perm = [0, 2, 1, 3]}
  %2 = Reshape(%1) {shape = [batch*seq, 384]}
  return %2
})");
  ASSERT_TRUE(access);
  EXPECT_THAT(access->strides, ElementsAre(Dim(384), Dim(1)));
}

TEST(StridedAccess, OfSlicesAndBroadcasts) {
  const auto [graph, access] = access_of(R"(
graph @main(%x: f32[seq, 1, 64]) {
  %0 = Slice(%x) {starts = [0, 0, 63], steps = [1, 1, -2], shape = [seq, 1, 32]}
  %1 = Expand(%0) {shape = [seq, 5, 32]}
  return %1
})");
  ASSERT_TRUE(access);
  EXPECT_EQ(access->offset, Dim(63));
  EXPECT_THAT(access->strides, ElementsAre(Dim(64), Dim(0), Dim(-2)));
}

TEST(StridedAccess, IsRefusedWhereAViewDoesNotMapLinearly) {
  // Merging transposed dimensions.
  EXPECT_FALSE(access_of(R"(
graph @main(%x: f32[4, 6]) {
  %0 = Transpose(%x) {perm = [1, 0]}
  %1 = Reshape(%0) {shape = [24]}
  return %1
})")
                   .access);
  EXPECT_FALSE(access_of(R"(
graph @main(%x: f32[4], %y: f32[4]) {
  %0 = Concat(%x, %y) {axis = 0}
  return %0
})")
                   .access);
  EXPECT_FALSE(access_of(R"(
graph @main(%x: f32[4]) {
  %0 = Pad(%x) {begins = [1], ends = [0]}
  return %0
})")
                   .access);
}

TEST(StridedAccess, StopsWhereItIsTold) {
  const Graph graph = parse_graph(R"(
graph @main(%x: f32[4, 6]) {
  %0 = Transpose(%x) {perm = [1, 0]}
  %1 = Slice(%0) {starts = [0, 1], steps = [1, 1], shape = [6, 3]}
  return %1
})");
  const auto access = strided_access(graph, graph.outputs()[0],
                                     [](const Node& node) { return node.op->name == "Slice"; });
  ASSERT_TRUE(access);
  EXPECT_EQ(access->source, graph.nodes()[0].outputs[0]);
  EXPECT_EQ(access->offset, Dim(1));
}

TracedView trace(const Graph& graph, Ranges& ranges) {
  ranges = graph.ranges();
  const ValueId value = graph.outputs()[0];
  const auto index = index_symbols(graph.type(value).shape, ranges);
  return trace_view(graph, value, index, ranges);
}

TEST(TraceView, ConcatSelects) {
  const Graph graph = parse_graph(R"(
graph @main(%x: f32[batch, 4], %y: f32[batch, 8]) {
  %0 = Concat(%x, %y) {axis = 1}
  return %0
})");
  Ranges ranges;
  const TracedView view = trace(graph, ranges);
  ASSERT_EQ(view.sources.size(), 2u);
  EXPECT_EQ(view.sources[0].source, graph.inputs()[0]);
  EXPECT_THAT(view.sources[0].index, ElementsAre(i0, i1));
  EXPECT_THAT(view.sources[1].index, ElementsAre(i0, i1 - 4));
  // Each applies where its own guards hold and nowhere else.
  for (std::int64_t j = 0; j < 12; ++j) {
    int holding = 0;
    for (const auto& source : view.sources) {
      bool holds = true;
      for (const auto& guard : source.guards) {
        const Bindings at{{"batch", 3}, {"$0", 1}, {"$1", j}};
        const std::int64_t value = guard.value.evaluate(at);
        holds = holds && value >= 0 && value < guard.extent.evaluate(at);
      }
      holding += holds ? 1 : 0;
    }
    EXPECT_EQ(holding, 1) << j;
  }
}

TEST(TraceView, AHalfOfAConcatenationNeedsNoGuard) {
  const Graph graph = parse_graph(R"(
graph @main(%x: f32[batch, 4], %y: f32[batch, 8]) {
  %0 = Concat(%x, %y) {axis = 1}
  %1 = Slice(%0) {starts = [0, 6], steps = [1, 1], shape = [batch, 5]}
  return %1
})");
  Ranges ranges;
  const TracedView view = trace(graph, ranges);
  ASSERT_EQ(view.sources.size(), 1u);
  EXPECT_EQ(view.sources[0].source, graph.inputs()[1]);
  EXPECT_THAT(view.sources[0].index, ElementsAre(i0, i1 + 2));
  EXPECT_TRUE(view.sources[0].guards.empty());
}

TEST(TraceView, PadsCarryTheirFill) {
  const Graph graph = parse_graph(R"(
graph @main(%x: f32[seq]) {
  %0 = Pad(%x) {begins = [2], ends = [1], fill = -3.5}
  return %0
})");
  Ranges ranges;
  const TracedView view = trace(graph, ranges);
  ASSERT_EQ(view.sources.size(), 1u);
  EXPECT_EQ(view.fill, -3.5);
  EXPECT_THAT(view.sources[0].index, ElementsAre(i0 - 2));
  ASSERT_FALSE(view.sources[0].guards.empty());
}

TEST(TraceView, TwoFillsStopAtTheInnerView) {
  const std::string text = R"(
graph @main(%x: f32[seq]) {
  %0 = Pad(%x) {begins = [2], ends = [1], fill = FIRST}
  %1 = Pad(%0) {begins = [1], ends = [1], fill = 1}
  return %1
})";
  const auto source_of = [&](const std::string& first) {
    std::string changed = text;
    const Graph graph = parse_graph(changed.replace(changed.find("FIRST"), 5, first));
    Ranges ranges;
    const TracedView view = trace(graph, ranges);
    EXPECT_EQ(view.sources.size(), 1u);
    return view.sources[0].source == graph.inputs()[0];
  };
  EXPECT_TRUE(source_of("1"));
  EXPECT_FALSE(source_of("2"));
}

}  // namespace
}  // namespace sinter::ir
