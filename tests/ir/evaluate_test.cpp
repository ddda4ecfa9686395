// SPDX-License-Identifier: Apache-2.0
// Evaluation of whole graphs: symbols, precision, regions, errors.
#include "ir/reference/evaluate.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/text/text.h"

namespace sinter::ir {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

Tensor floats(std::vector<std::int64_t> shape, std::vector<double> values,
              DType type = DType::kFloat32) {
  return Tensor::from_doubles(type, std::move(shape), values);
}

Tensor zeros(std::vector<std::int64_t> shape, DType type = DType::kFloat32) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) count *= dim;
  return floats(std::move(shape), std::vector<double>(static_cast<std::size_t>(count)), type);
}

Graph two_inputs(const std::string& a, const std::string& b, const std::string& ranges = "") {
  return parse_graph("graph @main(%a: " + a + ", %b: " + b + ")" + ranges +
                     " {\n  return x = %a, y = %b\n}\n");
}

TEST(BindSymbols, SolvesLinearDimensionsInAnyOrder) {
  const Graph graph = two_inputs("f32[2*seq + 1, batch]", "f32[batch, batch + seq]");
  const Tensor inputs[] = {zeros({7, 4}), zeros({4, 7})};
  EXPECT_THAT(bind_symbols(graph, inputs), ElementsAre(Pair("batch", 4), Pair("seq", 3)));
}

TEST(BindSymbols, ErrorsNameTheInput) {
  const auto binding = [](const Graph& graph, std::vector<Tensor> inputs) {
    return [graph, inputs = std::move(inputs)] { bind_symbols(graph, inputs); };
  };
  const Graph graph = two_inputs("f32[batch, 4]", "f32[batch]", " ranges {batch: 2..8}");
  EXPECT_THAT(binding(graph, {zeros({2, 4})}),
              ThrowsMessage<Error>(HasSubstr("takes 2 inputs, found 1")));
  EXPECT_THAT(binding(graph, {zeros({2, 4}), zeros({3})}),
              ThrowsMessage<Error>(AllOf(HasSubstr("input 'b' is f32[batch], found f32[3]"),
                                         HasSubstr("dimension 0 must be 2"))));
  EXPECT_THAT(binding(graph, {zeros({2, 5}), zeros({2})}),
              ThrowsMessage<Error>(AllOf(HasSubstr("input 'a' is f32[batch, 4], found f32[2, 5]"),
                                         HasSubstr("dimension 1 must be 4"))));
  EXPECT_THAT(binding(graph, {zeros({2, 4}, DType::kFloat64), zeros({2})}),
              ThrowsMessage<Error>(HasSubstr("the element types differ")));
  EXPECT_THAT(binding(graph, {zeros({2, 4, 1}), zeros({2})}),
              ThrowsMessage<Error>(HasSubstr("the ranks differ")));
  EXPECT_THAT(binding(graph, {zeros({9, 4}), zeros({9})}),
              ThrowsMessage<Error>(HasSubstr("batch is 9, but must be at least 2 and at most 8")));
  EXPECT_THAT(binding(two_inputs("f32[2*n]", "f32[n]"), {zeros({3}), zeros({1})}),
              ThrowsMessage<Error>(HasSubstr("input 'a'")));
  EXPECT_THAT(binding(two_inputs("f32[n*m]", "f32[n*m]"), {zeros({3}), zeros({3})}),
              ThrowsMessage<Error>(HasSubstr("no size of its symbols gives dimension 0")));
}

TEST(Evaluate, RoundsEveryResultUnlessWide) {
  const Graph graph = parse_graph(R"(
    graph @main(%x: f16[n]) {
      %big = const f16[] {2048}
      %1 = Add(%x, %big) : f16[n]
      %2 = Sub(%1, %big) : f16[n]
      return y = %2
    })");
  const Tensor input = floats({2}, {0.25, 3}, DType::kFloat16);
  EXPECT_THAT(evaluate(graph, std::span(&input, 1))[0].to_doubles(), ElementsAre(0, 4));
  EvaluateOptions wide;
  wide.keep_wide = true;
  const Tensor exact = evaluate(graph, std::span(&input, 1), wide)[0];
  EXPECT_EQ(exact.dtype(), DType::kFloat16);
  EXPECT_THAT(exact.to_doubles(), ElementsAre(0.25, 3));
}

TEST(Evaluate, WideValuesGoThroughEveryKindOfOperator) {
  const Graph graph = parse_graph(R"(
    graph @main(%x: f16[2, n], %i: i64[2]) {
      %w = const f16[2] {1, 2}
      %1 = Sqrt(%x) : f16[2, n]
      %2 = Concat(%1, %x) {axis = 0} : f16[4, n]
      %3 = Gather(%2, %i) {axis = 0} : f16[2, n]
      %4 = Transpose(%3) {perm = [1, 0]} : f16[n, 2]
      %5 = MatMul(%4, %3) : f16[n, n]
      %6 = Softmax(%4) {axis = 1} : f16[n, 2]
      %7 = Mul(%6, %w) : f16[n, 2]
      %8 = ReduceSum(%7) {axes = [1], keepdims = 0} : f16[n]
      return product = %5, sum = %8, same = %3
    })");
  const Tensor inputs[] = {floats({2, 2}, {2, 4, 9, 16}, DType::kFloat16),
                           Tensor::from_ints(DType::kInt64, {2}, std::vector<std::int64_t>{0, -1})};
  int nodes = 0;
  EvaluateOptions options;
  options.keep_wide = true;
  options.on_node = [&](const Node&, std::span<const Tensor> results) {
    ++nodes;
    EXPECT_EQ(results[0].dtype(), DType::kFloat64);
  };
  const auto outputs = evaluate(graph, inputs, options);
  EXPECT_EQ(nodes, 8);
  // Rows (sqrt 2, 2) and (9, 16): wide, sqrt(2)^2 + 81 has no error of sqrt(2) in float16.
  EXPECT_EQ(outputs[0].to_doubles()[0], 83);
  EXPECT_EQ(outputs[0].dtype(), DType::kFloat16);
  EXPECT_NEAR(outputs[1].to_doubles()[0], 1 + 1 / (1 + std::exp(std::sqrt(2) - 9)), 1e-3);
  EXPECT_NEAR(outputs[2].to_doubles()[0], std::sqrt(2), 1e-3);
}

TEST(Evaluate, FusedNodesMeanTheirBodies) {
  const Graph graph = parse_graph(R"(
    graph @main(%x: f32[batch, seq], %b: f32[seq]) {
      %1, %2 = Fused(%x, %b) {kind = "reduction"} : f32[batch, seq], f32[batch] body (%p, %q) {
        %1 = Add(%p, %q) : f32[batch, seq]
        %2 = ReduceMax(%1) {axes = [1], keepdims = 0} : f32[batch]
        return s = %1, m = %2
      }
      %3 = Expand(%2) {shape = [seq, batch]} : f32[seq, batch]
      return s = %1, m = %3
    })");
  const Tensor inputs[] = {floats({1, 2}, {1, 2}), floats({2}, {10, 5})};
  const auto outputs = evaluate(graph, inputs);
  EXPECT_THAT(outputs[0].to_doubles(), ElementsAre(11, 7));
  EXPECT_THAT(outputs[1].to_doubles(), ElementsAre(11, 11));
}

TEST(Evaluate, OneValueMayBeSeveralOutputsAndAnInputToo) {
  const Graph graph = parse_graph(R"(
    graph @main(%x: f32[n]) {
      %1 = Mul(%x, %x) : f32[n]
      return a = %1, b = %1, c = %x
    })");
  const Tensor input = floats({1}, {3});
  const auto outputs = evaluate(graph, std::span(&input, 1));
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_THAT(outputs[0].to_doubles(), ElementsAre(9));
  EXPECT_THAT(outputs[1].to_doubles(), ElementsAre(9));
  EXPECT_THAT(outputs[2].to_doubles(), ElementsAre(3));
}

TEST(Evaluate, ChecksOnKnownSizesWhatSymbolsLeftOpen) {
  const Graph slice = parse_graph(R"(
    graph @main(%x: f32[n]) {
      %1 = Slice(%x) {starts = [2], steps = [1], shape = [n - 2]} : f32[n - 2]
      return y = %1
    })");
  Tensor input = floats({3}, {1, 2, 3});
  EXPECT_THAT(evaluate(slice, std::span(&input, 1))[0].to_doubles(), ElementsAre(3));
  const Graph beyond = parse_graph(R"(
    graph @main(%x: f32[n], %m: f32[m]) {
      %1 = Slice(%x) {starts = [0], steps = [1], shape = [m]} : f32[m]
      return y = %1
    })");
  const Tensor inputs[] = {floats({1}, {1}), floats({2}, {0, 0})};
  EXPECT_THAT([&] { evaluate(beyond, inputs); },
              ThrowsMessage<Error>(AllOf(HasSubstr("Slice"), HasSubstr("lie outside f32[1]"))));
}

TEST(EvaluateOp, GatherNamesTheIndexOutside) {
  const Tensor inputs[] = {floats({3}, {1, 2, 3}),
                           Tensor::from_ints(DType::kInt64, {1}, std::vector<std::int64_t>{3})};
  EXPECT_THAT(
      [&] {
        evaluate_op(get_op("Gather"), {{"axis", Attr(std::int64_t{0})}}, inputs);
      },
      ThrowsMessage<Error>(
          HasSubstr("Gather: index 3 is outside dimension 0 of f32[3]: expected -3 to 2")));
}

TEST(EvaluateOp, EvaluatesAttributesUnderBindings) {
  const Tensor input = floats({6}, {0, 1, 2, 3, 4, 5});
  const Dim n = Dim::symbol("n");
  const Attrs attrs{{"shape", Attr(std::vector<Dim>{n, n + Dim(1)})}};
  const auto outputs = evaluate_op(get_op("Reshape"), attrs, std::span(&input, 1), {{"n", 2}});
  EXPECT_THAT(outputs[0].shape(), ElementsAre(2, 3));
  EXPECT_EQ(outputs[0].buffer(), input.buffer());  // a reshape copies nothing
}

TEST(EvaluateOp, EmptyTensors) {
  const Tensor empty = zeros({0, 3});
  const Attrs axis0{{"axes", Attr(std::vector<std::int64_t>{0})}};
  EXPECT_THAT(evaluate_op(get_op("ReduceSum"), axis0, std::span(&empty, 1))[0].to_doubles(),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(evaluate_op(get_op("ReduceMax"), axis0, std::span(&empty, 1))[0].to_doubles(),
              testing::Each(-INFINITY));
  EXPECT_EQ(evaluate_op(get_op("Exp"), {}, std::span(&empty, 1))[0].element_count(), 0);
  const Attrs perm{{"perm", Attr(std::vector<std::int64_t>{1, 0})}};
  EXPECT_THAT(evaluate_op(get_op("Transpose"), perm, std::span(&empty, 1))[0].shape(),
              ElementsAre(3, 0));
  const Tensor product[] = {zeros({2, 0}), empty};
  EXPECT_THAT(evaluate_op(get_op("MatMul"), {}, product)[0].to_doubles(),
              testing::AllOf(testing::SizeIs(6), testing::Each(0)));
}

TEST(Evaluate, ProductsOfEightBitsDoNotWrap) {
  const Tensor operands[] = {
      Tensor::from_ints(DType::kUInt8, {1, 3}, std::vector<std::int64_t>{255, 255, 1}),
      Tensor::from_ints(DType::kInt8, {3, 2},
                        std::vector<std::int64_t>{127, -128, 127, -128, 1, 2})};
  const Tensor product = evaluate_op(get_op("MatMul"), {}, operands)[0];
  EXPECT_EQ(product.dtype(), DType::kInt32);
  EXPECT_THAT(product.to_doubles(), ElementsAre(64771, -65278));
}

TEST(Evaluate, LimitsOfAttentionAreNumbersOfKeys) {
  const std::string inputs = "graph @main(%q: f64[3, 2], %k: f64[4, 2], %v: f64[4, 2]";
  const Tensor q = floats({3, 2}, {1, 2, -1, 0.5, 3, 1}, DType::kFloat64);
  const Tensor k = floats({4, 2}, {1, 0, 0, 1, 2, -1, 0.5, 0.25}, DType::kFloat64);
  const Tensor v = floats({4, 2}, {1, 10, 2, 20, 3, 30, 4, 40}, DType::kFloat64);
  const Tensor limits = floats({3, 1}, {1, 9, 2}, DType::kInt64);
  const auto limited =
      evaluate(parse_graph(inputs + ", %l: i64[3, 1]) {\n"
                                    "  %y = Attention(%q, %k, %v, %l) {scale = 0.5, limited = 1}\n"
                                    "  return y = %y\n}"),
               std::vector<Tensor>{q, k, v, limits})[0];
  const auto whole =
      evaluate(parse_graph(inputs + ") {\n  %y = Attention(%q, %k, %v) {scale = 0.5}\n"
                                    "  return y = %y\n}"),
               std::vector<Tensor>{q, k, v})[0];
  EXPECT_EQ(limited.at(0), 1);  // the first key alone
  EXPECT_EQ(limited.at(1), 10);
  EXPECT_EQ(limited.at(2), whole.at(2));  // more than there are
  EXPECT_GT(limited.at(4), 1);
  EXPECT_LT(limited.at(4), 2);
}

}  // namespace
}  // namespace sinter::ir
