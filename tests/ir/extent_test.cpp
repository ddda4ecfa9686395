// SPDX-License-Identifier: Apache-2.0
// Sizes that the run finds: order, text, evaluation, bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/reference/evaluate.h"
#include "ir/text/text.h"

namespace sinter::ir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The first n elements of x, where n is how many are above zero, and 0, 1, .., n - 1.
constexpr const char* kFirst = R"(graph @main(%x: f32[a]) ranges {a: 1..8, n: 0..8 max a data} {
  %zero = const f32[] {0}
  %above = Greater(%x, %zero)
  %one = Cast(%above) {to = i64}
  %count = ReduceSum(%one) {axes = [0], keepdims = 0}
  %size = Extent(%count) {symbol = "n"}
  %first = Slice(%x) {shape = [n], starts = [0], steps = [1]} : f32[n]
  %places = Iota() {dtype = i64, shape = [n]} : i64[n]
  return first = %first, places = %places
}
)";

Tensor numbers(std::vector<double> values) {
  return Tensor::from_doubles(DType::kFloat32, {std::ssize(values)}, values);
}

TEST(Extent, IsFoundWhileAGraphIsEvaluated) {
  const Graph graph = parse_graph(kFirst);
  verify(graph);
  const auto run = [&](std::vector<double> x) { return evaluate(graph, std::vector{numbers(x)}); };
  const auto two = run({5, -1, 3});
  EXPECT_THAT(two[0].to_doubles(), ElementsAre(5, -1));
  EXPECT_THAT(two[1].to_doubles(), ElementsAre(0, 1));
  EXPECT_EQ(run({-1, -2})[0].element_count(), 0);
}

TEST(Extent, PrintsAndParses) {
  const Graph graph = parse_graph(kFirst);
  const std::string text = print(graph);
  EXPECT_THAT(text, HasSubstr("n: 0..8 max a data"));
  EXPECT_TRUE(structurally_equal(parse_graph(text), graph));
}

TEST(Extent, ComesBeforeWhatNamesIt) {
  const Graph graph = parse_graph(kFirst);
  const Node* extent = nullptr;
  for (const Node& node : graph.nodes())
    if (node.op->kind == OpKind::kExtent) extent = &node;
  ASSERT_NE(extent, nullptr);
  std::size_t users = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "Slice" && node.op->name != "Iota") continue;
    EXPECT_THAT(node.extents, ElementsAre(extent->outputs[0]));
    ++users;
  }
  EXPECT_EQ(users, 2u);
  EXPECT_EQ(graph.users(extent->outputs[0]).size(), 2u);
  // A rewrite keeps what nothing reads but names.
  const Graph copy =
      rewrite(graph, [](auto&, const auto&, const auto&, auto) { return std::nullopt; });
  verify(copy);
  EXPECT_TRUE(structurally_equal(copy, graph));
}

TEST(Extent, ProductsOfDifferencesHaveABound) {
  Range range;
  range.min = 0;
  range.max = 10;
  range.from_data = true;
  const Ranges ranges{{"a", range}, {"b", range}};
  const Dim a = Dim::symbol("a"), b = Dim::symbol("b");
  const Dim most = largest((a - b + Dim(20)) * (min(a - b, 0, ranges) + Dim(20)), ranges);
  ASSERT_TRUE(most.is_constant());
  EXPECT_GE(most.value(), 30 * 20);
}

// The same in a loop: v + the sum of its first n elements, t times.
constexpr const char* kInALoop =
    R"(graph @main(%x: f32[a], %t: f32[t]) ranges {a: 1..8, t: 0..9, n: 0..8 max a data} {
  %start = const i64[] {0}
  %y = While(%start, %x) {states = 1, trips = [t]} : f32[a] body(%i, %v) {
    %zero = const f32[] {0}
    %above = Greater(%v, %zero)
    %one = Cast(%above) {to = i64}
    %count = ReduceSum(%one) {axes = [0], keepdims = 0}
    %size = Extent(%count) {symbol = "n"}
    %first = Slice(%v) {shape = [n], starts = [0], steps = [1]} : f32[n]
    %sum = ReduceSum(%first) {axes = [0], keepdims = 0}
    %next = Sub(%v, %sum)
    return next = %next
  }
  return y = %y
}
)";

TEST(Extent, OfALoopsBodyIsTheBodysOwn) {
  const Graph graph = parse_graph(kInALoop);
  verify(graph);
  for (const Node& node : graph.nodes()) EXPECT_TRUE(node.extents.empty());
  EXPECT_TRUE(structurally_equal(parse_graph(print(graph)), graph));
  // Of 5, -1, 3 two are above zero: less 4; then one: less 1; then none.
  const Tensor twice = numbers({0, 0}), often = numbers({0, 0, 0, 0});
  EXPECT_THAT(evaluate(graph, std::vector{numbers({5, -1, 3}), twice})[0].to_doubles(),
              ElementsAre(0, -6, -2));
  EXPECT_THAT(evaluate(graph, std::vector{numbers({5, -1, 3}), often})[0].to_doubles(),
              ElementsAre(0, -6, -2));
}

TEST(Extent, ASecondOfTheSameNameIsRefused) {
  std::string text = kFirst;
  text.insert(text.find("  %first"), "  %again = Extent(%size) {symbol = \"n\"}\n");
  EXPECT_THAT([&] { parse_graph(text); },
              ThrowsMessage<Error>(HasSubstr("'n' stands for two sizes")));
}

TEST(Extent, BeyondItsBoundIsAnError) {
  std::string text = kFirst;
  text.replace(text.find("n: 0..8 max a"), 13, "n: 0..1");
  EXPECT_THAT(
      [&] {
        evaluate(parse_graph(text), std::vector{numbers({1, 2})});
      },
      ThrowsMessage<Error>(HasSubstr("the size 'n' is 2, but must be 0 to 1")));
}

TEST(Largest, PutsBoundsInPlaceOfSizesFromData) {
  Ranges ranges;
  ranges["n"] = {0, 10, std::make_shared<const Dim>(Dim::symbol("a") * Dim(2)), true};
  ranges["m"] = {2, 7, nullptr, true};
  ranges["open"] = {0, INT64_MAX, nullptr, true};
  const Dim a = Dim::symbol("a"), n = Dim::symbol("n"), m = Dim::symbol("m");
  EXPECT_EQ(largest(a, ranges), a);
  EXPECT_EQ(largest(n * Dim(4) + Dim(1), ranges), a * Dim(8) + Dim(1));
  EXPECT_EQ(largest(a * Dim(9) - m, ranges), a * Dim(9) - Dim(2));
  EXPECT_EQ(largest(n * m, ranges), a * Dim(14));
  EXPECT_EQ(largest(floor_div(m + Dim(3), Dim(4)), ranges), Dim(2));
  EXPECT_EQ(largest(min(m, Dim(5)), ranges), Dim(5));
  EXPECT_THAT([&] { largest(Dim::symbol("open"), ranges); },
              ThrowsMessage<Error>(HasSubstr("--bound 'open=N'")));
}

}  // namespace
}  // namespace sinter::ir
