// SPDX-License-Identifier: Apache-2.0
// Operators of com.microsoft whose inputs do not fit, or that ask for what is not supported: one
// error each. What they compute is in tests/conformance/peer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Dims = std::vector<ModelDim>;
constexpr DType kF32 = DType::kFloat32, kI32 = DType::kInt32;

struct Input {
  Dims dims;
  DType dtype = kF32;
};

/// A node of `op` on inputs of these types; without dimensions an input is left out.
ModelBuilder with_inputs(const std::string& op, const std::vector<Input>& inputs,
                         const std::vector<Attribute>& attributes) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    names.push_back(inputs[i].dims.empty() ? "" : "in" + std::to_string(i));
  ModelBuilder model = microsoft(op, names, attributes);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!names[i].empty()) model.input(names[i], inputs[i].dtype, inputs[i].dims);
  return model;
}

/// MultiHeadAttention of two heads of size 2: 2 samples, 3 queries, 5 keys.
ModelBuilder multi_head(std::vector<Input> rest) {
  std::vector<Input> inputs = {{{2, 3, 4}}, {{2, 5, 4}}, {{2, 5, 4}}};
  inputs.insert(inputs.end(), rest.begin(), rest.end());
  return with_inputs("MultiHeadAttention", inputs, {attr("num_heads", 2)});
}

std::string invalid(const ModelBuilder& model) {
  return model.import_error(ErrorCode::kInvalidModel);
}
std::string unsupported(const ModelBuilder& model) {
  return model.import_error(ErrorCode::kUnsupported);
}

TEST(MultiHeadAttention, InputsThatDoNotFitAreErrors) {
  const Input none;
  EXPECT_THAT(invalid(multi_head({{{11}}})), HasSubstr("bias is f32[11]; it must be [12]"));
  EXPECT_THAT(
      invalid(multi_head({{{12}, DType::kFloat16}})),
      HasSubstr("its inputs 0 ('query') f32[2, 3, 4] and 3 ('bias') f16[12] must have one"));
  EXPECT_THAT(invalid(multi_head({none, {{2, 5}}})), HasSubstr("its elements must be i32"));
  EXPECT_THAT(invalid(multi_head({none, {{2, 4}, kI32}})),
              HasSubstr("its mask is i32[2, 4]; it must be [2, 5]"));
  EXPECT_THAT(invalid(multi_head({none, {{3}, kI32}})),
              HasSubstr("its mask is i32[3]; it must be [2]"));
  EXPECT_THAT(invalid(multi_head({none, {{2, 2, 5}, kI32}})), HasSubstr("it must be [2, 3, 5]"));
  EXPECT_THAT(invalid(multi_head({none, none, {{1, 2, 3, 4}}})),
              HasSubstr("attention_bias is f32[1, 2, 3, 4]; it must be [2, 2, 3, 5]"));
  EXPECT_THAT(invalid(multi_head({none, none, none, {{2, 2, 4, 2}}})),
              HasSubstr("past_key and past_value must be given together, but past_value is left "
                        "out"));
  EXPECT_THAT(invalid(multi_head({none, none, none, {{2, 2, 4, 3}}, {{2, 2, 4, 2}}})),
              HasSubstr("past_key is f32[2, 2, 4, 3]; it must be [2, 2, 4, 2]"));
  EXPECT_THAT(invalid(multi_head({none, none, none, {{2, 2, 4, 2}}, {{2, 2, 3, 2}}})),
              HasSubstr("past_value is f32[2, 2, 3, 2]; it must be [2, 2, 4, 2]"));
}

TEST(MultiHeadAttention, FormsThatContradictAreErrors) {
  const auto of = [](const std::vector<Input>& inputs) {
    return with_inputs("MultiHeadAttention", inputs, {attr("num_heads", 2)});
  };
  const Input none;
  EXPECT_THAT(invalid(of({{{2, 3, 2, 3, 2}}, {{2, 3, 4}}})),
              HasSubstr("query holds keys and values too"));
  EXPECT_THAT(invalid(of({{{2, 3, 2, 2, 2}}})), HasSubstr("it must be [2, 3, 2, 3, 2]"));
  EXPECT_THAT(invalid(of({{{2, 3, 4}}, {{2, 3, 4}}, {{2, 2, 3, 2}}})),
              HasSubstr("must both be [batch, length, size], or a cache"));
}

TEST(MultiHeadAttention, MaskOfSymbolicLengthIsTakenAsThatOfTheKeys) {
  ModelBuilder model =
      with_inputs("MultiHeadAttention",
                  {{{"b", "s", 4}}, {{"b", "s", 4}}, {{"b", "s", 4}}, {}, {{"b", "mask"}, kI32}},
                  {attr("num_heads", 2)});
  const ImportedModel imported = model.import();
  EXPECT_THAT(imported.warnings,
              testing::Contains(HasSubstr("dimensions 'mask' and 's' are taken as equal")));
}

TEST(MultiHeadAttention, MaskOfAnotherLengthIsOfThePastAndTheNewKeys) {
  const Input past{{"b", 2, "p", 2}};
  const ModelBuilder model = with_inputs("MultiHeadAttention",
                                         {{{"b", "s", 4}},
                                          {{"b", "s", 4}},
                                          {{"b", "s", 4}},
                                          {},
                                          {{"b", "total"}, kI32},
                                          {},
                                          past,
                                          past},
                                         {attr("num_heads", 2)});
  EXPECT_THAT(model.import().warnings,
              testing::Contains(HasSubstr("dimension 'total' is taken as p + s")));
  ImportOptions options;
  options.ranges["total"] = {1, 8, nullptr};
  EXPECT_THAT(
      model.import_error(ErrorCode::kInvalidModel, options),
      AllOf(HasSubstr("its mask is i32[b, total]"), HasSubstr("numbers, or one name (--dim)"),
            HasSubstr("--dim 'total=p + s' makes the two sizes equal")));
}

TEST(Attention, InputsThatDoNotFitAreErrors) {
  const auto of = [](std::vector<Input> rest, std::vector<Attribute> attributes = {}) {
    std::vector<Input> inputs = {{{2, 3, 4}}, {{4, 12}}};
    inputs.insert(inputs.end(), rest.begin(), rest.end());
    attributes.push_back(attr("num_heads", 2));
    return with_inputs("Attention", inputs, attributes);
  };
  const Input none;
  EXPECT_THAT(invalid(of({{{1}}})), HasSubstr("bias is f32[1]; it must be [12]"));
  EXPECT_THAT(invalid(of({none, none, {{2, 2, 2, 4, 3}}})),
              HasSubstr("past is f32[2, 2, 2, 4, 3]; it must be [2, 2, 2, 4, 2]"));
  EXPECT_THAT(invalid(of({none, none, {{2, 2, 4, 2}}})), HasSubstr("past is f32[2, 2, 4, 2]"));
  EXPECT_THAT(invalid(of({none, {{2, 1, 3, 2}, kI32}})), HasSubstr("it must be [2, 1, 3, 3]"));
  EXPECT_THAT(invalid(of({none, {{2, 1, 2, 2}, kI32}})), HasSubstr("but there are 3 keys"));
  EXPECT_THAT(invalid(of({}, {attr("qkv_hidden_sizes", v({4, 2, 6}))})),
              HasSubstr("do not hold queries, keys and values of qkv_hidden_sizes [4, 2, 6]"));
  EXPECT_THAT(invalid(of({}, {attr("do_rotary", 1), attr("rotary_embedding_dim", 3)})),
              HasSubstr("'rotary_embedding_dim' is 3, which does not fit heads of 2"));
  EXPECT_THAT(unsupported(of({}, {attr("past_present_share_buffer", 1)})),
              HasSubstr("export without buffer sharing"));
}

TEST(Attention, MaskOfPackedSamplesIsRefused) {
  ModelBuilder model = microsoft("Attention", {"x", "w", "", "mask"}, {attr("num_heads", 2)});
  model.input("x", kF32, {2, 3, 4}).input("w", kF32, {4, 12});
  model.initializer("mask", ir::Tensor::from_ints(kI32, {8}, v({3, 1, 0, 3, 4, 0, 3, 4})));
  EXPECT_THAT(unsupported(model), HasSubstr("sample 2 begins at query 4 and key 4"));
}

TEST(DecoderMaskedMultiHeadAttention, IsOfOneToken) {
  const auto of = [](const std::vector<Input>& inputs, std::vector<Attribute> attributes = {}) {
    attributes.push_back(attr("num_heads", 2));
    return with_inputs("DecoderMaskedMultiHeadAttention", inputs, attributes);
  };
  EXPECT_THAT(invalid(of({{{2, 3, 4}}, {{2, 3, 4}}, {{2, 3, 4}}})),
              HasSubstr("it must be of one token"));
  EXPECT_THAT(invalid(of({{{2, 1, 4}}})), HasSubstr("[batch, 1, 3 * size]"));
}

TEST(RotaryEmbedding, InputsThatDoNotFitAreErrors) {
  const auto of = [](const Input& x, const Input& positions, const Input& cos, const Input& sin,
                     const std::vector<Attribute>& attributes = {}) {
    return with_inputs("RotaryEmbedding", {x, positions, cos, sin}, attributes);
  };
  const Input x{{2, 3, 8}}, at{{2, 3}, DType::kInt64}, table{{5, 2}};
  EXPECT_THAT(invalid(of(x, at, table, {{4, 2}})),
              HasSubstr("sin_cache is f32[4, 2]; it must be [5, 2]"));
  EXPECT_THAT(invalid(of(x, at, table, table, {attr("num_heads", 1)})),
              HasSubstr("cos_cache is f32[5, 2], which does not hold 8 / 2 angles"));
  EXPECT_THAT(invalid(of(x, {{2, 3}, kI32}, table, table)), HasSubstr("must be i64"));
  EXPECT_THAT(invalid(of(x, {{3, 3}, DType::kInt64}, table, table)),
              HasSubstr("position_ids is i64[3, 3]; it must be [2, 3]"));
  EXPECT_THAT(invalid(of(x, {{1}, DType::kInt64}, {{2, 2}}, {{2, 2}})),
              HasSubstr("cos_cache has 2 positions, but there are 3 tokens"));
  EXPECT_THAT(invalid(of(x, at, {{5, 2}, DType::kFloat16}, {{5, 2}, DType::kFloat16})),
              HasSubstr("2 ('cos_cache') f16[5, 2] must have one element type"));
  EXPECT_THAT(invalid(of(x, at, table, table, {attr("rotary_embedding_dim", 4)})),
              HasSubstr("needs 'num_heads'"));
}

TEST(Normalisation, InputsThatDoNotFitAreErrors) {
  const auto skip = [](const Input& gamma, const Input& bias) {
    return with_inputs("SkipLayerNormalization", {{{2, 3, 4}}, {{2, 3, 4}}, gamma, {}, bias}, {});
  };
  EXPECT_THAT(invalid(skip({{1}}, {})), HasSubstr("gamma is f32[1]; it must be [4]"));
  EXPECT_THAT(invalid(skip({{4}}, {{3, 4}})), HasSubstr("bias is f32[3, 4]; it must be [4]"));
  const auto group = [](const char* op, const std::vector<Input>& inputs, int groups,
                        int activation) {
    return with_inputs(op, inputs, {attr("groups", groups), attr("activation", activation)});
  };
  const Input x{{1, 2, 2, 6}}, six{{6}};
  EXPECT_THAT(invalid(group("GroupNorm", {x, six, six}, 4, 0)),
              HasSubstr("6 channels cannot be split into 4 groups"));
  EXPECT_THAT(invalid(group("GroupNorm", {x, six, six}, 2, 3)),
              HasSubstr("'activation' is 3, not 0 (none) or 1 (SiLU)"));
  EXPECT_THAT(invalid(group("SkipGroupNorm", {x, six, six, {{1, 2, 3, 6}}}, 2, 0)),
              HasSubstr("skip is f32[1, 6, 2, 3]"));
}

TEST(FusedOperators, ActivationsThatAreNotKnownAreNamed) {
  const auto gemm = [](const std::vector<Attribute>& attributes) {
    return with_inputs("FusedGemm", {{{2, 2}}, {{2, 2}}}, attributes);
  };
  EXPECT_THAT(unsupported(gemm({attr("activation", "Mystery")})),
              HasSubstr("activation 'Mystery'; supported are Relu, Tanh"));
  EXPECT_THAT(invalid(gemm({attr("activation", "LeakyRelu")})),
              HasSubstr("activation 'LeakyRelu' takes 1 numbers, but the node has 0"));
}

TEST(QAttention, TypesThatContradictAreErrors) {
  const Input byte{{}, DType::kUInt8};
  const auto of = [&](DType zero) {
    ModelBuilder model =
        microsoft("QAttention", {"x", "w", "b", "xs", "ws", "", "xz"}, {attr("num_heads", 1)});
    model.input("x", DType::kUInt8, {1, 2, 2}).input("w", DType::kInt8, {2, 6});
    model.input("b", kF32, {6}).initializer("xs", floats({}, {0.5}));
    model.initializer("ws", floats({}, {0.5}));
    model.initializer("xz", ir::Tensor::from_ints(zero, {}, v({1})));
    return model;
  };
  EXPECT_THAT(invalid(of(DType::kInt8)),
              HasSubstr("its inputs 0 ('input') u8[1, 2, 2] and 6 ('input_zero_point') i8[] must"));
  EXPECT_NO_THROW(of(DType::kUInt8).import());
}

ModelBuilder mixture(const std::vector<Input>& inputs, const std::vector<Attribute>& attributes) {
  return with_inputs("MoE", inputs, attributes);
}

TEST(MoE, InputsThatDoNotFitAreErrors) {
  const Input x{{3, 4}}, router{{3, 2}}, first{{2, 6, 4}}, second{{2, 4, 6}}, none;
  EXPECT_THAT(invalid(mixture({x, {{2, 2}}, first, none, second}, {})),
              HasSubstr("router_probs is f32[2, 2]; it must be [3, 2]"));
  EXPECT_THAT(invalid(mixture({x, router, {{2, 6, 5}}, none, second}, {})),
              HasSubstr("fc1_experts_weights is f32[2, 6, 5]; it must be [2, 6, 4]"));
  EXPECT_THAT(invalid(mixture({x, router, first, {{2, 4}}, second}, {})),
              HasSubstr("its bias is f32[2, 4]; it must be [2, 6]"));
  EXPECT_THAT(invalid(mixture({x, router, first, none, second}, {attr("k", 3)})),
              HasSubstr("'k' is 3, but there are 2 experts"));
  EXPECT_THAT(
      invalid(mixture({x, router, first, none, second}, {attr("activation_type", "swiglu")})),
      HasSubstr("needs fc3_experts_weights"));
  EXPECT_THAT(
      unsupported(mixture({x, router, first, none, second}, {attr("activation_type", "mish")})),
      HasSubstr("activation 'mish'; supported are relu"));
}

TEST(QMoE, FormatsThatAreNotSupportedAreNamed) {
  const auto of = [](const std::vector<Attribute>& attributes) {
    const Input bytes{{2, 4, 2}, DType::kUInt8};
    return with_inputs("QMoE", {{{3, 4}}, {{3, 2}}, bytes, {{2, 4}}, {}, bytes, {{2, 4}}},
                       attributes);
  };
  EXPECT_THAT(unsupported(of({attr("quant_type", "fp8")})), HasSubstr("quant_type 'fp8'"));
  EXPECT_THAT(unsupported(of({})), HasSubstr("(fc1_experts_weights) is not a constant"));
}

TEST(MatMulNBits, ComputedParametersThatDoNotFitAreErrors) {
  const auto of = [](const Input& scales, const Input& bias) {
    return with_inputs("MatMulNBits", {{{1, 32}}, {{5, 2, 8}, DType::kUInt8}, scales, {}, {}, bias},
                       {attr("K", 32), attr("N", 5), attr("block_size", 16), attr("bits", 4)});
  };
  EXPECT_THAT(invalid(of({{5, 3}}, {})), HasSubstr("scales is f32[5, 3]; it must be [5, 2]"));
  EXPECT_THAT(invalid(of({{5, 2}}, {{1, 5}})), HasSubstr("bias is f32[1, 5]; it must be [5]"));
  EXPECT_NO_THROW(of({{10}}, {{5}}).import());
}

TEST(PositionBias, InputsThatDoNotFitAreErrors) {
  const auto table = [](const Input& bias, int max_distance) {
    ModelBuilder model =
        microsoft("RelativePositionBias", {"t", "q", "k"}, {attr("max_distance", max_distance)});
    model.input("t", bias.dtype, bias.dims).ints("q", {3}).ints("k", {3});
    return model;
  };
  EXPECT_THAT(invalid(table({{8}}, 9)), HasSubstr("bias_table must be [buckets, heads]"));
  EXPECT_THAT(invalid(table({{8, 2}}, 4)), HasSubstr("'max_distance' is 4"));
  const auto gated = [](const Input& eco, const Input& offset) {
    return with_inputs("GatedRelativePositionBias",
                       {{{2, 3, 8}}, {{8}}, {{1, 2, 3, 3}}, {{4, 6}}, {{6}}, eco, offset},
                       {attr("num_heads", 2)});
  };
  EXPECT_THAT(invalid(gated({{1, 3, 1, 1}}, {})), HasSubstr("eco_a is f32[1, 3, 1, 1]"));
  EXPECT_THAT(unsupported(gated({{1, 2, 1, 1}}, {{2, 3}, kI32})), HasSubstr("export with padding"));
}

TEST(MatMulBnb4, SizesThatDoNotFitAreErrors) {
  const auto of = [](int bytes, int scales, int type) {
    return with_inputs(
        "MatMulBnb4", {{{1, 16}}, {{bytes}, DType::kUInt8}, {{scales}}},
        {attr("K", 16), attr("N", 2), attr("block_size", 16), attr("quant_type", type)});
  };
  EXPECT_THAT(invalid(of(15, 2, 0)), HasSubstr("B is u8[15]; it must be [16]"));
  EXPECT_THAT(invalid(of(16, 3, 0)), HasSubstr("absmax is f32[3]; it must be [2]"));
  EXPECT_THAT(invalid(of(16, 2, 2)), HasSubstr("'quant_type' is 2"));
}

TEST(Nchwc, OperatorsAreRefusedWithTheLevelToSaveAt) {
  ModelBuilder model = microsoft("Conv", {"x", "w"});
  model.input("x", kF32, {1, 8, 4, 4}).input("w", kF32, {8, 8, 1, 1});
  model.last_node().set_domain("com.microsoft.nchwc");
  EXPECT_THAT(unsupported(model), HasSubstr("at level ORT_ENABLE_EXTENDED"));
}

TEST(BifurcationDetector, IsRefusedByName) {
  const ModelBuilder model =
      with_inputs("BifurcationDetector",
                  {{{5}, DType::kInt64}, {{3}, DType::kInt64}, {{1}, DType::kInt64}}, {});
  EXPECT_THAT(unsupported(model), AllOf(HasSubstr("com.microsoft::BifurcationDetector-1"),
                                        HasSubstr("depends on data")));
}

}  // namespace
}  // namespace sinter::frontend
