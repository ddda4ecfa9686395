// Constants of 4-bit integers, and the operators of com.microsoft on weights of few bits.
#include <onnx.pb.h>

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

/// x [1, 3] times three numbers, 0xA1 and 0x0F, dequantised by 0.5.
ModelBuilder dequantised(int type, const std::function<void(onnx::TensorProto&)>& fill) {
  ModelBuilder model(21);
  model.input("x", DType::kFloat32, {1, 3}).initializer("s", floats({}, {0.5}));
  fill(four_bits(model, "w", type, {3, 1}));
  model.node("DequantizeLinear", {"w", "s"}, {"d"}).node("MatMul", {"x", "d"}, {"y"}).output("y");
  return model;
}

void raw(onnx::TensorProto& proto) { proto.set_raw_data(std::string("\xa1\x0f", 2)); }
void typed(onnx::TensorProto& proto) {
  proto.add_int32_data(0xa1);
  proto.add_int32_data(0x0f);
}

TEST(FourBits, LowHalvesComeFirstInEveryForm) {
  for (const auto& fill : {raw, typed}) {
    expect_tensor(dequantised(kUInt4, fill).run({floats({1, 3}, {1, 10, 100})})[0], {1, 1},
                  {(1 + 10 * 10 + 100 * 15) * 0.5});
    expect_tensor(dequantised(kInt4, fill).run({floats({1, 3}, {1, 10, 100})})[0], {1, 1},
                  {(1 - 6 * 10 - 100) * 0.5});
  }
}

TEST(FourBits, SizesThatContradictAreErrors) {
  const auto model = dequantised(kInt4, [](auto& proto) { proto.set_raw_data("a"); });
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

TEST(FourBits, WhatWouldLoseTheirMeaningIsRefusedByName) {
  // Rounding saturates at the type of the zero point.
  ModelBuilder model(21);
  model.input("x", DType::kFloat32, {3}).initializer("s", floats({}, {0.5}));
  raw(four_bits(model, "z", kInt4, {3}));
  model.node("QuantizeLinear", {"x", "s", "z"}, {"y"}).output("y");
  EXPECT_THAT(model.import_error(ErrorCode::kUnsupported),
              AllOf(HasSubstr("QuantizeLinear"), HasSubstr("input 'z' has element type INT4")));
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
  EXPECT_EQ(node.op->name, "QuantMatMul");
  EXPECT_EQ(node.attrs.get_int("bits"), 4);
  EXPECT_EQ(graph.type(node.inputs[1]).shape, (ir::Shape{1, 8}));
  EXPECT_EQ(graph.value(node.inputs[3]).constant->to_ints(), (std::vector<std::int64_t>{-5}));
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
  EXPECT_THAT(error({attr("bits", 3)}, ErrorCode::kUnsupported), HasSubstr("weights of 3 bits"));
  EXPECT_THAT(error({attr("weight_prepacked", 2)}, ErrorCode::kUnsupported),
              HasSubstr("weight_prepacked=2"));
  EXPECT_THAT(error({attr("block_size", 12)}, ErrorCode::kInvalidModel),
              HasSubstr("block_size 12"));
  EXPECT_THAT(error({attr("block_size", 16), attr("bits", 8)}, ErrorCode::kInvalidModel),
              HasSubstr("must have 16 elements"));
}

TEST(GatherBlockQuantized, NamesWhatItDoesNotTake) {
  const auto error = [](const std::vector<Attribute>& attributes, ErrorCode code) {
    auto model = microsoft("GatherBlockQuantized", {"w", "i", "s"}, attributes);
    model.input("i", DType::kInt64, {2}).initializer("s", floats({2, 1}, {0.5, 1}));
    model.initializer(
        "w", Tensor::from_ints(DType::kUInt8, {2, 2}, std::vector<std::int64_t>{1, 2, 3, 4}));
    return model.import_error(code);
  };
  EXPECT_THAT(error({attr("bits", 5)}, ErrorCode::kUnsupported), HasSubstr("data of 5 bits"));
  EXPECT_THAT(error({attr("block_size", 2)}, ErrorCode::kInvalidModel), HasSubstr("need [2, 2]"));
  EXPECT_THAT(error({attr("quantize_axis", 0)}, ErrorCode::kUnsupported),
              HasSubstr("along the axis of its blocks"));
  EXPECT_THAT(error({attr("gather_axis", 1), attr("quantize_axis", 0)}, ErrorCode::kUnsupported),
              HasSubstr("not packed along the axis of its blocks"));
}

}  // namespace
}  // namespace sinter::frontend
