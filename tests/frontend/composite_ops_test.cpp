// SPDX-License-Identifier: Apache-2.0
// Operators that import takes apart. Their values are checked against ONNX Runtime by the cases of
// tests/conformance/peer; here is what those cannot see: refusals, symbolic sizes, what is built.
#include <algorithm>

#include <onnx.pb.h>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::AllOf;
using testing::HasSubstr;

std::vector<std::string> operators(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(node.op->name);
  return names;
}

TEST(ConvTranspose, TurnsTheKernel) {
  const OneOp op{"ConvTranspose",
                 {floats({1, 1, 2}, {1, 2}), floats({1, 1, 3}, {1, 10, 100})},
                 {attr("strides", v({2}))}};
  expect_tensor(op.run(), {1, 1, 5}, {1, 10, 102, 20, 200});
}

TEST(ConvTranspose, SymbolicSize) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1, 1, "n"}).initializer("w", floats({1, 1, 2}, {1, 10}));
  model.node("ConvTranspose", {"x", "w"}, {"y"},
             {attr("strides", v({2})), attr("pads", v({1, 0}))});
  model.output("y");
  EXPECT_EQ(ir::to_string(model.import().graph.type(model.import().graph.outputs()[0])),
            "f32[1, 1, 2*n - 1]");
  expect_tensor(model.run({floats({1, 1, 3}, {1, 2, 3})})[0], {1, 1, 5}, {10, 2, 20, 3, 30});
}

/// Every contribution put where it belongs, for one sample.
std::vector<double> transposed_by_hand(const std::vector<double>& x, const std::vector<double>& w,
                                       std::int64_t n, std::int64_t channels, std::int64_t outputs,
                                       std::int64_t kernel, std::int64_t group, std::int64_t stride,
                                       std::int64_t dilation, std::int64_t begin,
                                       std::int64_t size) {
  const std::int64_t in = channels / group, out = outputs / group;
  std::vector<double> y(static_cast<std::size_t>(outputs * size), 0);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t m = 0; m < out; ++m)
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < kernel; ++k) {
          const std::int64_t at = i * stride + k * dilation - begin;
          if (at < 0 || at >= size) continue;
          y[static_cast<std::size_t>((c / in * out + m) * size + at)] +=
              x[static_cast<std::size_t>(c * n + i)] *
              w[static_cast<std::size_t>((c * out + m) * kernel + k)];
        }
  return y;
}

TEST(ConvTranspose, EveryCombinationAddsUp) {
  constexpr std::int64_t kChannels = 4, kOutputs = 6;
  int combinations = 0;
  for (const std::int64_t n : {1, 4})
    for (const std::int64_t kernel : {1, 2, 3, 5})
      for (const std::int64_t stride : {1, 2, 3, 4})
        for (const std::int64_t dilation : {1, 2, 3})
          for (const std::int64_t group : {1, 2})
            for (const auto& [begin, end] : {std::pair{0, 0}, {1, 0}, {2, 1}, {5, 3}})
              for (std::int64_t more = 0; more < std::max(stride, dilation); more += 2) {
                const std::int64_t size =
                    stride * (n - 1) + more + (kernel - 1) * dilation + 1 - begin - end;
                if (size < 1) continue;
                ++combinations;
                std::vector<double> x, w;
                for (std::int64_t i = 0; i < kChannels * n; ++i)
                  x.push_back(static_cast<double>(i * 5 % 11) - 4);
                for (std::int64_t i = 0; i < kChannels * kOutputs / group * kernel; ++i)
                  w.push_back(static_cast<double>(i * 7 % 13) - 6);
                const OneOp op{
                    "ConvTranspose",
                    {floats({1, kChannels, n}, x),
                     floats({kChannels, kOutputs / group, kernel}, w)},
                    {attr("strides", v({stride})), attr("dilations", v({dilation})),
                     attr("pads", v({begin, end})), attr("group", static_cast<int>(group)),
                     attr("output_padding", v({more}))}};
                const auto expected = transposed_by_hand(x, w, n, kChannels, kOutputs, kernel,
                                                         group, stride, dilation, begin, size);
                expect_tensor(op.run(), {1, kOutputs, size}, expected);
                if (testing::Test::HasFailure())
                  FAIL() << "n " << n << " kernel " << kernel << " stride " << stride
                         << " dilation " << dilation << " group " << group << " pads " << begin
                         << " " << end << " output padding " << more;
              }
  EXPECT_GT(combinations, 500);
}

TEST(ConvTranspose, NoZerosGoBetweenElementsUnlessDilatedTapsOverlap) {
  const auto pads_of = [](std::int64_t dilation) {
    ModelBuilder model;
    model.input("x", DType::kFloat32, {1, 3, "h", 20})
        .initializer("w", ramp({3, 5, 4, 4}))
        .initializer("b", ramp({5}));
    model.node("ConvTranspose", {"x", "w", "b"}, {"y"},
               {attr("strides", v({2, 2})), attr("pads", v({1, 1, 1, 1})),
                attr("dilations", v({dilation, dilation}))});
    model.output("y");
    int pads = 0;
    const auto imported = model.import();
    for (const auto& node : imported.graph.nodes()) {
      pads += node.op->name == "Pad" ? 1 : 0;
      if (node.op->name == "Conv" && dilation == 1) {
        EXPECT_EQ(ir::to_string(imported.graph.type(node.inputs[1])), "f32[20, 3, 2, 2]");
      }
    }
    return pads;
  };
  EXPECT_EQ(pads_of(1), 0);
  EXPECT_EQ(pads_of(3), 1);
}

TEST(ConvTranspose, ABiasIsAVector) {
  EXPECT_THAT(OneOp({"ConvTranspose",
                     {floats({1, 1, 2}, {1, 2}), floats({1, 1, 3}, {1, 10, 100}), floats({}, {1})}})
                  .model()
                  .import_error(ErrorCode::kInvalidModel),
              HasSubstr("the bias must be a vector"));
}

TEST(DynamicQuantizeLSTM, RefusesWhatHasNoScale) {
  const auto lstm = [](ir::Tensor weights, const ir::Tensor& scale) {
    ModelBuilder model = microsoft("DynamicQuantizeLSTM",
                                   {"x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"},
                                   {attr("hidden_size", 1)});
    model.input("x", DType::kFloat32, {2, 1, 1}).initializer("w", weights);
    model.initializer("r", weights).initializer("ws", scale).initializer("rs", scale);
    const ir::Tensor zero = ir::Tensor::from_ints(DType::kUInt8, {1}, {{128}});
    model.initializer("wz", zero).initializer("rz", zero);
    return model;
  };
  const ir::Tensor bytes = ir::Tensor::from_ints(DType::kUInt8, {1, 1, 4}, {{1, 2, 3, 4}});
  EXPECT_THAT(lstm(bytes, floats({}, {0.5})).import_error(ErrorCode::kInvalidModel),
              HasSubstr("(W_scale) is f32[]; it must be [1, 4]"));
  EXPECT_THAT(
      lstm(ramp({1, 1, 4}), floats({1}, {0.5})).import_error(ErrorCode::kInvalidModel),
      HasSubstr("its inputs 1 ('W') f32[1, 1, 4] and 9 ('W_zero_point') u8[1] must have one"));
}

TEST(DynamicQuantizeLSTM, ItsLoopHoldsTheWeights) {
  ModelBuilder model =
      microsoft("DynamicQuantizeLSTM", {"x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"},
                {attr("hidden_size", 4)});
  const ir::Tensor scale = floats({1}, {0.5}),
                   zero = ir::Tensor::from_ints(DType::kUInt8, {1}, {{128}});
  std::vector<std::int64_t> bytes;
  for (std::int64_t i = 0; i < 64; ++i) bytes.push_back(i * 37 % 256);
  const ir::Tensor weights = ir::Tensor::from_ints(DType::kUInt8, {1, 4, 16}, bytes);
  model.input("x", DType::kFloat32, {40, 1, 4}).initializer("w", weights);
  model.initializer("r", weights).initializer("ws", scale).initializer("rs", scale);
  model.initializer("wz", zero).initializer("rz", zero);
  const auto imported = model.import();
  int loops = 0;
  for (const auto& node : imported.graph.nodes()) {
    if (node.op->name != "While") continue;
    ++loops;
    // As int32 they would be packed in each iteration.
    for (const ir::ValueId input : node.inputs)
      EXPECT_NE(imported.graph.type(input).dtype, DType::kInt32);
  }
  EXPECT_EQ(loops, 1);
}

TEST(Conv, SamePaddingOfASymbolicSize) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1, 1, "n"}).initializer("w", floats({1, 1, 3}, {1, 10, 100}));
  model.node("Conv", {"x", "w"}, {"y"}, {attr("strides", v({2})), attr("auto_pad", "SAME_UPPER")});
  model.output("y");
  expect_tensor(model.run({ramp({1, 1, 4}, 1)})[0], {1, 1, 2}, {321, 43});
  expect_tensor(model.run({ramp({1, 1, 5}, 1)})[0], {1, 1, 3}, {210, 432, 54});
}

TEST(MaxPool, IndicesOfTheFirstLargest) {
  const OneOp op{"MaxPool",
                 {floats({1, 2, 4}, {1, 5, 5, 2, 7, 7, 0, 1})},
                 {attr("kernel_shape", v({2})), attr("strides", v({2}))},
                 12,
                 {},
                 2};
  const auto outputs = op.run_all();
  expect_tensor(outputs[0], {1, 2, 2}, {5, 5, 7, 1});
  expect_tensor(outputs[1], {1, 2, 2}, {1, 2, 4, 7});
}

TEST(MaxPool, CeilModeOfASymbolicSize) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1, 1, "n"});
  model.node("MaxPool", {"x"}, {"y"},
             {attr("kernel_shape", v({2})), attr("strides", v({2})), attr("ceil_mode", 1)});
  model.output("y");
  expect_tensor(model.run({ramp({1, 1, 5})})[0], {1, 1, 3}, {1, 3, 4});
  expect_tensor(model.run({ramp({1, 1, 4})})[0], {1, 1, 2}, {1, 3});
}

TEST(Recurrent, ReadsAllStepsInOneProduct) {
  const OneOp op{"LSTM", {ramp({5, 1, 2}), ramp({1, 12, 2}), ramp({1, 12, 3})}};
  const ImportedModel imported = op.model().import();
  const auto names = operators(imported.graph);
  EXPECT_EQ(std::count(names.begin(), names.end(), "MatMul"), 1);
  const auto layer =
      std::ranges::find(imported.graph.nodes(), "Recurrent",
                        [](const ir::Node& node) -> const std::string& { return node.op->name; });
  ASSERT_NE(layer, imported.graph.nodes().end());
  EXPECT_EQ(layer->attrs.get_string("special"), "");
  const auto inner = operators(*layer->body);
  EXPECT_EQ(std::count(inner.begin(), inner.end(), "MatMul"), 5);
}

TEST(Recurrent, SaysWhatIsSpecialAboutALayer) {
  const auto special = [](const char* op, std::int64_t gates, std::vector<Attribute> attributes,
                          bool peepholes = false) {
    ModelBuilder model;
    std::vector<std::string> inputs{"x", "w", "r"};
    model.input("x", DType::kFloat32, {2, 1, 2});
    model.initializer("w", ramp({1, 3 * gates, 2}));
    model.initializer("r", ramp({1, 3 * gates, 3}));
    if (peepholes) {
      inputs.insert(inputs.end(), {"", "", "", "", "p"});
      model.initializer("p", ramp({1, 9}));
    }
    model.node(op, inputs, {"y"}, attributes);
    model.output("y");
    const ImportedModel imported = model.import();
    for (const ir::Node& node : imported.graph.nodes())
      if (node.op->name == "Recurrent") return node.attrs.get_string("special");
    return std::string("no layer");
  };
  EXPECT_EQ(special("LSTM", 4, {}), "");
  EXPECT_EQ(special("GRU", 3, {attr("linear_before_reset", 1)}), "");
  EXPECT_THAT(special("LSTM", 4, {attr("clip", 3.0f)}), HasSubstr("clips at 3"));
  EXPECT_THAT(special("LSTM", 4, {attr("input_forget", 1)}), HasSubstr("forget gate"));
  EXPECT_THAT(special("LSTM", 4, {}, true), HasSubstr("peepholes"));
}

TEST(Recurrent, RefusalsSayWhatToDo) {
  EXPECT_THAT(
      (OneOp{"RNN", {ramp({2, 1, 2}), ramp({1, 3, 2}), ramp({1, 3, 3})}, {attr("hidden_size", 4)}})
          .model()
          .import_error(ErrorCode::kInvalidModel),
      HasSubstr("attribute 'hidden_size' is 4"));
}

TEST(MatMulNBits, PackingMustFit) {
  auto model =
      microsoft("MatMulNBits", {"a", "b", "s"},
                {attr("K", 16), attr("N", 1), attr("block_size", 16), attr("weight_prepacked", 1)});
  model.input("a", DType::kFloat32, {1, 16}).initializer("s", floats({1}, {0.5}));
  model.initializer("b", Tensor::from_ints(DType::kUInt8, {1, 1, 8}, v({0, 0, 0, 0, 0, 0, 0, 0})));
  EXPECT_THAT(model.import_error(ErrorCode::kInvalidModel),
              HasSubstr("[1, 16] of 4 bits cannot have the packing"));
}

TEST(MatMulNBits, UnpacksLowBitsFirst) {
  auto model = microsoft("MatMulNBits", {"a", "b", "s"},
                         {attr("K", 2), attr("N", 1), attr("block_size", 16), attr("bits", 4)});
  model.input("a", DType::kFloat32, {1, 2}).initializer("s", floats({1}, {0.5}));
  model.initializer("b",
                    Tensor::from_ints(DType::kUInt8, {1, 1, 8}, v({0xa9, 0, 0, 0, 0, 0, 0, 0})));
  // (9 - 8) * 0.5 and (10 - 8) * 0.5.
  expect_tensor(model.run({floats({1, 2}, {1, 100})})[0], {1, 1}, {100.5});
}

TEST(MultiHeadAttention, PackedQueriesKeysAndValues) {
  // One token attends to itself: its value comes out.
  auto model = microsoft("MultiHeadAttention", {"qkv"}, {attr("num_heads", 2)});
  model.input("qkv", DType::kFloat32, {1, 1, 2, 3, 2});
  expect_tensor(model.run({ramp({1, 1, 2, 3, 2})})[0], {1, 1, 4}, {4, 5, 10, 11});
}

TEST(GroupQueryAttention, MasksBySeqlensGivenAtRunTime) {
  auto model = microsoft("GroupQueryAttention", {"q", "k", "v", "", "", "last", "total"},
                         {attr("num_heads", 2), attr("kv_num_heads", 1), attr("scale", 1.0f)});
  model.input("q", DType::kFloat32, {1, "n", 4}).input("k", DType::kFloat32, {1, "n", 2});
  model.input("v", DType::kFloat32, {1, "n", 2}).input("last", DType::kInt32, {1});
  model.initializer("total", Tensor::from_ints(DType::kInt32, {}, v({2})));
  const Tensor q = floats({1, 2, 4}, {0, 0, 0, 0, 0, 0, 0, 0}), k = ramp({1, 2, 2});
  const Tensor values = floats({1, 2, 2}, {1, 2, 3, 4});
  const auto run = [&](std::int64_t last) {
    return model.run({q, k, values, Tensor::from_ints(DType::kInt32, {1}, v({last}))})[0];
  };
  expect_tensor(run(1), {1, 2, 4}, {1, 2, 1, 2, 2, 3, 2, 3});
  expect_tensor(run(0), {1, 2, 4}, {1, 2, 1, 2, 1, 2, 1, 2});
}

TEST(Attention, SharesKeysWithoutCopies) {
  const OneOp op{"Attention",
                 {ramp({1, 4, 2, 2}), ramp({1, 2, 3, 2}), ramp({1, 2, 3, 2})},
                 {attr("is_causal", 1)},
                 23};
  const ImportedModel imported = op.model().import();
  const auto names = operators(imported.graph);
  EXPECT_EQ(std::count(names.begin(), names.end(), "Expand"), 0);
  EXPECT_EQ(op.run().shape(), v({1, 4, 2, 2}));
}

}  // namespace
}  // namespace sinter::frontend
