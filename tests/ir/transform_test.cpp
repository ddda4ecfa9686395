// SPDX-License-Identifier: Apache-2.0
// Transforms as matmuls, in one step and in two, against the definition.
#include <random>

#include <gtest/gtest.h>

#include "ir/constants/fourier.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"

namespace sinter::ir {
namespace {

struct Transform {
  std::int64_t length, given, count;
  bool is_complex, is_inverse;
};

/// The transform alone, or what it is made of.
Graph transform_of(const Transform& t, bool is_decomposed) {
  GraphBuilder b;
  const ValueId rows = t.is_complex
                           ? b.input("x", {DType::kFloat32, {Dim(2), Dim(3), Dim(t.given), Dim(2)}})
                           : b.input("x", {DType::kFloat32, {Dim(2), Dim(3), Dim(t.given)}});
  const Attrs attrs{{"length", t.length},
                    {"count", t.count},
                    {"complex", static_cast<std::int64_t>(t.is_complex)},
                    {"inverse", static_cast<std::int64_t>(t.is_inverse)}};
  const ValueId inputs[] = {rows, b.constant(roots_of_unity(t.length))};
  const ValueId y = b.add("Dft", {inputs[0], inputs[1]}, attrs);
  if (!is_decomposed) {
    b.output("y", y);
    return b.finish();
  }
  const Node node = *b.producer(y);
  b.output("y", node.op->composite().decompose(b, node, inputs).at(0));
  return b.finish();
}

TEST(Dft, DecomposesIntoMatmuls) {
  const Transform cases[] = {{60, 60, 60, true, false},       {256, 256, 256, true, false},
                             {320, 300, 320, true, true},     {384, 400, 100, false, false},
                             {1024, 1024, 513, false, false}, {257, 257, 257, true, false},
                             {514, 514, 514, true, true}};
  for (const Transform& t : cases) {
    SCOPED_TRACE(t.length);
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    Ints shape{2, 3, t.given};
    if (t.is_complex) shape.push_back(2);
    std::vector<double> values(static_cast<std::size_t>(6 * t.given * (t.is_complex ? 2 : 1)));
    for (double& value : values) value = normal(random);
    const Tensor x = Tensor::from_doubles(DType::kFloat32, shape, values);
    const Tensor expected = evaluate(transform_of(t, false), std::vector{x})[0],
                 made = evaluate(transform_of(t, true), std::vector{x})[0];
    ASSERT_EQ(made.shape(), expected.shape());
    double largest = 0, error = 0;
    for (std::int64_t i = 0; i < expected.element_count(); ++i) {
      largest = std::max(largest, std::abs(expected.at(i)));
      error = std::max(error, std::abs(expected.at(i) - made.at(i)));
    }
    EXPECT_LE(error, 1e-5 * largest);
  }
}

/// Long transforms do not multiply by a matrix of their own length.
TEST(Dft, LongOnesTakeTwoSteps) {
  const Graph graph = transform_of({1024, 1024, 1024, true, false}, true);
  for (const auto& node : graph.nodes())
    for (const ValueId input : node.inputs)
      if (graph.is_constant(input)) {
        EXPECT_LE(graph.value(input).constant->element_count(), 4096);
      }
}

}  // namespace
}  // namespace sinter::ir
