// SPDX-License-Identifier: Apache-2.0
// Other ranges and values of a graph's symbols.
#include "fusion/narrow_dims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"

namespace sinter::fusion::test {
namespace {

TEST(NarrowDims, ReachesTheBodiesOfNodes) {
  const ir::Graph model = ir::parse_graph(R"(
graph @main(%x: f32[n, 4], %h: f32[4]) ranges {n: 1..64} {
  %first = const i64[] {0}
  %last = While(%first, %h, %x) {trips = [n], states = 1} body(%i, %s, %x) {
    %sum = ReduceSum(%x) {axes = [0], keepdims = 0}
    %next = Add(%s, %sum)
    return next = %next
  }
  return last = %last
}
)");
  ir::Range three;
  three.min = three.max = 3;
  const ir::Graph narrowed = narrow_dims(model, {{"n", three}});
  ir::verify(narrowed);
  EXPECT_EQ(ir::print(narrowed).find("[n"), std::string::npos) << ir::print(narrowed);
  const std::vector<ir::Tensor> inputs = {
      ir::Tensor::from_doubles(DType::kFloat32, {3, 4}, std::vector<double>(12, 1.0)),
      ir::Tensor::from_doubles(DType::kFloat32, {4}, std::vector<double>(4, 0.5))};
  EXPECT_EQ(ir::evaluate(narrowed, inputs)[0], ir::evaluate(model, inputs)[0]);
  EXPECT_EQ(ir::evaluate(narrowed, inputs)[0].at(0), 9.5);
}

TEST(NarrowDims, RefusesWhatIsNoPartOfTheRange) {
  const ir::Graph model = ir::parse_graph(
      "graph @main(%x: f32[n]) ranges {n: 1..8} {\n  %y = Relu(%x)\n  return y = %y\n}\n");
  ir::Range large;
  large.min = 4, large.max = 16;
  EXPECT_THROW(narrow_dims(model, {{"n", large}}), Error);
  EXPECT_THROW(narrow_dims(model, {{"m", large}}), Error);
}

}  // namespace
}  // namespace sinter::fusion::test
