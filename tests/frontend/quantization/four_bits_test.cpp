// SPDX-License-Identifier: Apache-2.0
// Constants of 4-bit integers, and the operators of com.microsoft on weights of few bits.
#include <onnx.pb.h>

#include "ir/scaled_rows.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kUInt4 = 21, kInt4 = 22;

onnx::TensorProto& four_bits(ModelBuilder& model, const std::string& name, int type,
                             const std::vector<std::int64_t>& shape) {
  onnx::TensorProto& proto = *model.graph().add_initializer();
  proto.set_name(name);
  proto.set_data_type(type);
  for (const std::int64_t dim : shape) proto.add_dims(dim);
  return proto;
}

/// x [1, 3] times three numbers, 0xA1 and 0x0F, dequantized by 0.5.
ModelBuilder dequantized(int type, const std::function<void(onnx::TensorProto&)>& fill) {
  ModelBuilder model(21);
  model.input("x", DType::kFloat32, {1, 3}).initializer("s", floats({}, {0.5}));
  fill(four_bits(model, "w", type, {3, 1}));
  model.node("DequantizeLinear", {"w", "s"}, {"d"}).node("MatMul", {"x", "d"}, {"y"}).output("y");
  return model;
}

void raw(onnx::TensorProto& proto) { proto.set_raw_data(std::string("\xa1\x0f", 2)); }
void raw_floats(onnx::TensorProto& proto) { proto.set_raw_data(std::string("\xa1\x0f", 2)); }
void typed(onnx::TensorProto& proto) {
  proto.add_int32_data(0xa1);
  proto.add_int32_data(0x0f);
}

TEST(FourBits, LowHalvesComeFirstInEveryForm) {
  for (const auto& fill : {raw, typed}) {
    expect_tensor(dequantized(kUInt4, fill).run({floats({1, 3}, {1, 10, 100})})[0], {1, 1},
                  {(1 + 10 * 10 + 100 * 15) * 0.5});
    expect_tensor(dequantized(kInt4, fill).run({floats({1, 3}, {1, 10, 100})})[0], {1, 1},
                  {(1 - 6 * 10 - 100) * 0.5});
  }
}

TEST(FourBits, FloatsHaveThemToo) {
  // Codes 1, 10 and 15: 0.5, -1 and -6.
  expect_tensor(dequantized(23, raw_floats).run({floats({1, 3}, {1, 10, 100})})[0], {1, 1},
                {(0.5 - 10 - 600) * 0.5});
  ModelBuilder model(23);
  model.input("x", DType::kFloat32, {1, 3});
  raw_floats(four_bits(model, "w", 23, {3, 1}));
  four_bits(model, "s", 24, {}).set_raw_data(std::string("\x80", 1));  // 2
  model.node("DequantizeLinear", {"w", "s"}, {"d"}, {attr("output_dtype", 1)});
  model.node("MatMul", {"x", "d"}, {"y"}).output("y");
  expect_tensor(model.run({floats({1, 3}, {1, 10, 100})})[0], {1, 1}, {(0.5 - 10 - 600) * 2});
  const auto short_of = dequantized(23, [](auto& proto) { proto.set_raw_data("a"); });
  EXPECT_THAT(short_of.import_error(ErrorCode::kInvalidModel),
              HasSubstr("FLOAT4E2M1[3, 1] needs 2"));
}

ModelBuilder fp4_product(std::int64_t block, const Tensor& scales) {
  auto model = microsoft("MatMulBlockQuantizedFp4Weight", {"a", "b", "s", "g", "", "c"},
                         {attr("block_size", static_cast<int>(block))});
  model.input("a", DType::kFloat32, {"m", 16});
  model.initializer(
      "b", Tensor::of(DType::kUInt8, {2, 8},
                      std::vector<std::uint8_t>{0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22,
                                                0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0xc4}));
  model.initializer("s", scales).initializer("g", floats({1}, {0.5}));
  model.initializer("c", floats({2}, {1, 2}));
  return model;
}

TEST(MatMulBlockQuantizedFp4Weight, ScalesAreCodesOfEightBits) {
  const Tensor codes = Tensor::of(DType::kUInt8, {2, 1}, std::vector<std::uint8_t>{0x38, 0x40});
  const auto model = fp4_product(16, codes);
  const ir::Graph graph = model.import().graph;
  EXPECT_EQ(graph.nodes()[0].attrs.get_string("w"), "f4e2m1 * f8e4m3fn group 16 * f32 row");
  expect_tensor(model.run({floats({1, 16}, std::vector<double>(16, 1))})[0], {1, 2},
                {16 * 0.5 + 1, (14 * 2.0 + 2 - 2) * 2 * 0.5 + 2});
  EXPECT_THAT(fp4_product(24, codes).import_error(ErrorCode::kUnsupported),
              HasSubstr("block_size 24"));
  EXPECT_THAT(fp4_product(16, floats({2, 1}, {1, 2})).import_error(ErrorCode::kInvalidModel),
              HasSubstr("weight_scale"));
}

TEST(FourBits, SizesThatContradictAreErrors) {
  const auto model = dequantized(kInt4, [](auto& proto) { proto.set_raw_data("a"); });
  EXPECT_THAT(
      model.import_error(ErrorCode::kInvalidModel),
      AllOf(HasSubstr("tensor 'w'"), HasSubstr("1 bytes"), HasSubstr("INT4[3, 1] needs 2")));
}

TEST(FourBits, ViewsAndCastsReadThemToo) {
  ModelBuilder model(21);
  model.input("x", DType::kFloat32, {3});
  raw(four_bits(model, "w", kInt4, {3, 1}));
  model.node("Transpose", {"w"}, {"t"}).node("Cast", {"t"}, {"f"}, {attr("to", 1)});
  model.node("Add", {"x", "f"}, {"y"}).output("y");
  expect_tensor(model.run({floats({3}, {0, 0, 0})})[0], {1, 3}, {1, -6, -1});
}

TEST(FourBits, RoundingSaturatesAtTheirBounds) {
  const Tensor x = floats({4}, {-100, -3, 3, 100});
  for (const auto& [type, expected] : {std::pair(kInt4, std::vector<double>{-4, -3, 3, 3.5}),
                                       std::pair(kUInt4, std::vector<double>{0, 0, 3, 7.5})}) {
    ModelBuilder stated(21);
    stated.input("x", DType::kFloat32, {4}).initializer("s", floats({}, {0.5}));
    stated.node("QuantizeLinear", {"x", "s"}, {"q"}, {attr("output_dtype", type)});
    stated.node("DequantizeLinear", {"q", "s"}, {"y"}).output("y");
    expect_tensor(stated.run({x})[0], {4}, expected);
  }
  // Zero points of -1, 1, 0 and -1.
  ModelBuilder model(21);
  model.input("x", DType::kFloat32, {4}).initializer("s", floats({4}, {1, 1, 1, 1}));
  four_bits(model, "z", kInt4, {4}).set_raw_data(std::string("\x1f\xf0", 2));
  model.node("QuantizeLinear", {"x", "s", "z"}, {"q"}, {attr("axis", 0)});
  model.node("DequantizeLinear", {"q", "s", "z"}, {"y"}, {attr("axis", 0)}).output("y");
  expect_tensor(model.run({x})[0], {4}, {-7, -3, 3, 8});
}

TEST(FourBits, ConstantNodesHoldThem) {
  auto model = dequantized(kInt4, raw);
  auto& graph = model.graph();
  auto* node = graph.add_node();
  node->set_op_type("Constant");
  node->add_output("w");
  auto* value = node->add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  *value->mutable_t() = graph.initializer(1);
  graph.mutable_initializer()->RemoveLast();
  graph.mutable_node()->SwapElements(0, 2);
  graph.mutable_node()->SwapElements(1, 2);
  expect_tensor(model.run({floats({1, 3}, {1, 10, 100})})[0], {1, 1}, {(1 - 6 * 10 - 100) * 0.5});
}

TEST(FourBits, StayWhatTheyAreThroughViews) {
  // Bytes would be two numbers each here.
  const auto gathered = [](const std::string& view, const std::vector<Attribute>& attributes) {
    auto model = microsoft("GatherBlockQuantized", {"v", "i", "s"}, {attr("block_size", 16)});
    model.input("i", DType::kInt64, {1}).initializer("s", floats({2, 1}, {1, 10}));
    four_bits(model, "w", kInt4, {2, 2}).set_raw_data(std::string("\x21\xf3", 2));
    model.node(view, {"w"}, {"v"}, attributes);
    model.graph().mutable_node()->SwapElements(0, 1);
    return model.run({Tensor::from_ints(DType::kInt64, {1}, std::vector<std::int64_t>{1})})[0];
  };
  expect_tensor(gathered("Identity", {}), {1, 2}, {30, -10});
  expect_tensor(gathered("Transpose", {attr("perm", std::vector<std::int64_t>{1, 0})}), {1, 2},
                {20, -10});
  expect_tensor(gathered("Flatten", {attr("axis", 1)}), {1, 2}, {30, -10});
}

TEST(FourBits, WhatWouldLoseTheirMeaningIsRefusedByName) {
  const auto rounded = [](int type) {
    ModelBuilder model(21);
    model.input("x", DType::kFloat32, {3}).initializer("s", floats({}, {0.5}));
    model.node("QuantizeLinear", {"x", "s"}, {"q"}, {attr("output_dtype", type)});
    return model;
  };
  auto sum = rounded(kInt4);
  sum.node("Add", {"q", "q"}, {"y"}).output("y");
  EXPECT_THAT(sum.import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("Add"), HasSubstr("input 'q' has element type INT4")));
  auto shown = rounded(kUInt4);
  shown.output("q");
  EXPECT_THAT(shown.import_error(ErrorCode::kUnsupported),
              HasSubstr("output 'q' has element type UINT4"));
}

TEST(MatMulNBits, KeepsItsBits) {
  auto model = microsoft("MatMulNBits", {"a", "b", "s", "z"},
                         {attr("K", 16), attr("N", 1), attr("block_size", 16), attr("bits", 4)});
  model.input("a", DType::kFloat32, {"m", 16}).initializer("s", floats({1}, {0.5}));
  model.initializer("b", Tensor::from_ints(DType::kUInt8, {1, 1, 8},
                                           std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  model.initializer("z", Tensor::from_ints(DType::kUInt8, {1, 1}, std::vector<std::int64_t>{3}));
  const ir::Graph graph = model.import().graph;
  ASSERT_EQ(graph.nodes().size(), 1U);
  const ir::Node& node = graph.nodes()[0];
  EXPECT_EQ(node.op->name, "MatMul");
  EXPECT_EQ(node.attrs.get_string("w"), "(i4 - i8) * f32 row");
  EXPECT_EQ(graph.type(node.inputs[1]).shape, (ir::Shape{1, 8}));
  EXPECT_EQ(graph.value(node.inputs[3]).constant->to_ints(), (std::vector<std::int64_t>{-5}));
}

TEST(MatMulNBits, AccuracyLevelFourLetsRowsBeRounded) {
  for (const int level : {0, 1, 2, 3, 4}) {
    auto model = microsoft("MatMulNBits", {"a", "b", "s"},
                           {attr("K", 16), attr("N", 1), attr("block_size", 16), attr("bits", 4),
                            attr("accuracy_level", level)});
    model.input("a", DType::kFloat32, {"m", 16}).initializer("s", floats({1}, {0.5}));
    model.initializer("b", Tensor::from_ints(DType::kUInt8, {1, 1, 8},
                                             std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
    const ir::Graph graph = model.import().graph;
    EXPECT_EQ(ir::may_round(graph.nodes().at(0).attrs), level == 4) << level;
  }
}

TEST(MatMulNBits, NamesWhatItDoesNotTake) {
  const auto error = [](const std::vector<Attribute>& more, ErrorCode code) {
    std::vector<Attribute> attributes{attr("K", 16), attr("N", 1)};
    attributes.insert(attributes.end(), more.begin(), more.end());
    auto model = microsoft("MatMulNBits", {"a", "b", "s"}, attributes);
    model.input("a", DType::kFloat32, {1, 16}).initializer("s", floats({1}, {0.5}));
    model.initializer("b", Tensor::from_ints(DType::kUInt8, {1, 1, 8},
                                             std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
    return model.import_error(code);
  };
  EXPECT_THAT(error({attr("bits", 3)}, ErrorCode::kUnsupported), HasSubstr("numbers of 3 bits"));
  EXPECT_THAT(error({attr("weight_prepacked", 3)}, ErrorCode::kInvalidModel),
              HasSubstr("'weight_prepacked' is not 0 to 2"));
  EXPECT_THAT(error({attr("block_size", 12)}, ErrorCode::kInvalidModel),
              HasSubstr("block_size 12"));
  EXPECT_THAT(error({attr("block_size", 16), attr("bits", 8)}, ErrorCode::kInvalidModel),
              HasSubstr("must have 16 elements"));
}

TEST(MatMulNBits, ColumnsMayNameTheGroupsThatTheyAreIn) {
  const auto model = [](const std::vector<std::int64_t>& groups) {
    auto result = microsoft("MatMulNBits", {"a", "b", "s", "", "g"},
                            {attr("K", 16), attr("N", 1), attr("block_size", 8), attr("bits", 4)});
    result.input("a", DType::kFloat32, {1, 16}).initializer("s", floats({2}, {0.5, 2}));
    result.initializer(
        "b", Tensor::from_ints(DType::kUInt8, {1, 2, 4}, std::vector<std::int64_t>(8, 0x99)));
    result.initializer("g", Tensor::from_ints(DType::kInt32, {16}, groups));
    return result;
  };
  std::vector<std::int64_t> groups{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  expect_tensor(model(groups).run({floats({1, 16}, std::vector<double>(16, 1))})[0], {1, 1}, {20});
  std::swap(groups[3], groups[12]);
  expect_tensor(model(groups).run({ramp({1, 16})})[0], {1, 1}, {0.5 * 37 + 2 * 83});
  groups[12] = 1;
  EXPECT_THAT(model(groups).import_error(ErrorCode::kUnsupported),
              HasSubstr("g_idx puts column 3 into group 1"));
}

TEST(GatherBlockQuantized, NamesWhatItDoesNotTake) {
  const auto error = [](const std::vector<Attribute>& attributes, ErrorCode code) {
    auto model = microsoft("GatherBlockQuantized", {"w", "i", "s"}, attributes);
    model.input("i", DType::kInt64, {2}).initializer("s", floats({2, 1}, {0.5, 1}));
    model.initializer(
        "w", Tensor::from_ints(DType::kUInt8, {2, 2}, std::vector<std::int64_t>{1, 2, 3, 4}));
    return model.import_error(code);
  };
  EXPECT_THAT(error({attr("bits", 5)}, ErrorCode::kUnsupported), HasSubstr("numbers of 5 bits"));
  EXPECT_THAT(error({attr("block_size", 2)}, ErrorCode::kInvalidModel), HasSubstr("need [2, 2]"));
  EXPECT_THAT(error({attr("quantize_axis", 0)}, ErrorCode::kUnsupported),
              HasSubstr("along the axis of its blocks"));
  EXPECT_THAT(error({attr("gather_axis", 1), attr("quantize_axis", 0)}, ErrorCode::kUnsupported),
              HasSubstr("not packed along the axis of its blocks"));
}

}  // namespace
}  // namespace sinter::frontend
