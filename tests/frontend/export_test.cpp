// SPDX-License-Identifier: Apache-2.0
// Graphs written as ONNX models: what is ONNX's, what is ours, and that names are given once.
#include "frontend/export/export.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "ir/text/text.h"

namespace sinter::frontend {
namespace {

using ::testing::ElementsAre;

onnx::ModelProto model_of(const ExportedModel& exported) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(exported.bytes));
  return model;
}

template <typename Nodes>
std::vector<std::string> operators(const Nodes& nodes) {
  std::vector<std::string> all;
  for (const auto& node : nodes)
    all.push_back((node.domain().empty() ? "" : node.domain() + ".") + node.op_type());
  return all;
}

constexpr const char* kFused = R"(graph @g(%x: f32[n, 4]) {
  %large = const f32[1024] splat(1)
  %w = const f32[4] splat(2)
  %0 = Fused(%x, %w) {kind = "reduction"} : f32[n, 1] body @b(%a, %b) {  # from Mul_1, Sum_2
    %half = const f32[] {0.5}
    %0 = Mul(%a, %b) : f32[n, 4]  # from Mul_1
    %1 = Mul(%0, %half) : f32[n, 4]
    %2 = Square(%1) : f32[n, 4]
    %3 = ReduceSum(%2) {axes = [1], keepdims = 1} : f32[n, 1]  # from Sum_2
    return o = %3
  }
  %1 = Fused(%0, %large) {kind = "pointwise"} : f32[n, 1024] body @b(%a, %b) {
    %0 = Add(%a, %b) : f32[n, 1024]
    return o = %0
  }
  return y = %1, again = %1, same = %x
}
)";

TEST(Export, AKernelIsAFunctionAndLargeConstantsAreInputs) {
  const auto exported = export_onnx(ir::parse_graph(kFused));
  const auto model = model_of(exported);
  EXPECT_EQ(exported.kernels, 2U);
  EXPECT_THAT(operators(model.graph().node()),
              ElementsAre("sinter.kernels.reduction_0", "sinter.kernels.pointwise_1", "Identity",
                          "Identity"));
  ASSERT_EQ(model.functions_size(), 2);
  const auto& kernel = model.functions(0);
  EXPECT_EQ(kernel.domain(), "sinter.kernels");
  EXPECT_EQ(kernel.doc_string(), "from Mul_1, Sum_2");
  EXPECT_THAT(operators(kernel.node()),
              ElementsAre("Constant", "Mul", "Mul", "sinter.Square", "sinter.ReduceSum"));
  EXPECT_THAT(exported.left_out, ElementsAre("large"));
  ASSERT_EQ(model.graph().input_size(), 2);
  EXPECT_EQ(model.graph().input(1).name(), "large");
  ASSERT_EQ(model.graph().initializer_size(), 1);
  EXPECT_EQ(model.graph().initializer(0).name(), "w");
  EXPECT_EQ(model.graph().node(0).name(), "Mul_1, Sum_2");

  std::vector<std::string> outputs;
  for (const auto& output : model.graph().output()) outputs.push_back(output.name());
  EXPECT_THAT(outputs, ElementsAre("y", "again", "same"));
  const auto& shape = model.graph().output(0).type().tensor_type().shape();
  EXPECT_EQ(shape.dim(0).dim_param(), "n");
  EXPECT_EQ(shape.dim(1).dim_value(), 1024);

  const auto whole = model_of(export_onnx(ir::parse_graph(kFused), {.largest_constant = 1 << 20}));
  EXPECT_EQ(whole.graph().input_size(), 1);
  EXPECT_EQ(whole.graph().initializer_size(), 2);
}

TEST(Export, EveryNameIsGivenOnce) {
  // Values without names, a value called as others would be, and an output called as an input.
  const auto model = model_of(export_onnx(ir::parse_graph(R"(graph @g(%v1: f32[4], %y: f32[4]) {
  %0 = Relu(%v1) : f32[4]
  %1 = Abs(%0) : f32[4]
  %v1_1 = Neg(%1) : f32[4]
  %2 = Add(%v1_1, %y) : f32[4]
  return y = %2
}
)")));
  std::set<std::string> names;
  std::size_t count = 0;
  const auto add = [&](const std::string& name) {
    names.insert(name);
    ++count;
  };
  for (const auto& input : model.graph().input()) add(input.name());
  for (const auto& node : model.graph().node())
    for (const auto& output : node.output()) add(output);
  EXPECT_EQ(names.size(), count);
  ASSERT_EQ(model.graph().output_size(), 1);
  EXPECT_TRUE(names.contains(model.graph().output(0).name()));
}

TEST(Export, BodiesOfLoopsAreGraphsWithNamesOfTheirOwn) {
  const auto model =
      model_of(export_onnx(ir::parse_graph(R"(graph @g(%x: f32[2], %n: f32[n]) ranges {n: 0..8} {
  %zero = const i64[] {0}
  %power = While(%zero, %x, %n) {states = 1, trips = [n]} : f32[2] body(%i, %x, %all) {
    %twice = Add(%x, %x) : f32[2]
    return %twice
  }
  return power = %power
}
)")));
  const auto& loop = model.graph().node(0);
  EXPECT_EQ(loop.op_type(), "While");
  for (const auto& attribute : loop.attribute()) {
    if (attribute.name() != "body") continue;
    EXPECT_FALSE(attribute.g().name().empty());
    ASSERT_EQ(attribute.g().output_size(), 1);
    EXPECT_FALSE(attribute.g().output(0).name().empty());
    EXPECT_NE(attribute.g().input(1).name(), model.graph().input(0).name());
  }
}

TEST(Export, AttributesOfOursKeepSymbolsAsTexts) {
  const auto model = model_of(export_onnx(ir::parse_graph(R"(graph @g(%x: f32[n, 4]) {
  %0 = Reshape(%x) {shape = [4*n]} : f32[4*n]
  %1 = Cast(%0) {to = f16} : f16[4*n]
  return y = %1
}
)")));
  const auto& reshape = model.graph().node(0);
  EXPECT_EQ(reshape.domain(), "sinter");
  EXPECT_THAT(reshape.attribute(0).strings(), ElementsAre("4*n"));
  const auto& cast = model.graph().node(1);
  EXPECT_EQ(cast.domain(), "");
  EXPECT_EQ(cast.attribute(0).i(), onnx::TensorProto::FLOAT16);
}

}  // namespace
}  // namespace sinter::frontend
