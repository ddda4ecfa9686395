// SPDX-License-Identifier: Apache-2.0
// Layers with states: one operator each, for any length, and errors that name what does not fit.
// What they compute is in tests/conformance/peer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::HasSubstr;

struct Input {
  std::vector<ModelDim> dims;
  DType dtype = DType::kFloat32;
};

ModelBuilder layer(const std::string& op, const std::vector<Input>& inputs,
                   const std::vector<Attribute>& attributes) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    names.push_back(inputs[i].dims.empty() ? "" : "in" + std::to_string(i));
  ModelBuilder model = microsoft(op, names, attributes);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!names[i].empty()) model.input(names[i], inputs[i].dtype, inputs[i].dims);
  return model;
}

/// The gated delta rule of two heads with keys of 4 and values of 3.
ModelBuilder gated_delta(std::vector<Attribute> attributes, std::vector<ModelDim> decay = {2, 5, 2},
                         std::vector<ModelDim> state = {}) {
  attributes.push_back(attr("q_num_heads", 2));
  attributes.push_back(attr("kv_num_heads", 2));
  return layer("LinearAttention",
               {{{2, 5, 8}}, {{2, 5, 8}}, {{2, 5, 6}}, {state}, {decay}, {{2, 5, 1}}}, attributes);
}

std::string invalid(const ModelBuilder& model) {
  return model.import_error(ErrorCode::kInvalidModel);
}
std::string unsupported(const ModelBuilder& model) {
  return model.import_error(ErrorCode::kUnsupported);
}

TEST(LinearAttention, InputsThatDoNotFitAreErrors) {
  EXPECT_THAT(invalid(gated_delta({attr("update_rule", "delta_gated")})),
              HasSubstr("attribute 'update_rule' has the unknown value 'delta_gated'"));
  EXPECT_THAT(invalid(gated_delta({}, {2, 5, 3})), HasSubstr("is not [batch, length, 2 heads"));
  EXPECT_THAT(invalid(gated_delta({}, {2, 5, 6})),
              HasSubstr("neither by head nor by channel of 2 keys of 4"));
  EXPECT_THAT(invalid(gated_delta({}, {2, 5, 2}, {2, 2, 3, 4})),
              HasSubstr("the state must be [2, 2, 4, 3]"));
  EXPECT_THAT(invalid(gated_delta({attr("state_window", 9)})),
              HasSubstr("attribute 'state_window' is 9; it must be 0 to 8"));
}

TEST(CausalConvWithState, MoreDimensionsAreRefused) {
  EXPECT_THAT(unsupported(layer("CausalConvWithState", {{{1, 2, 4, 4}}, {{2, 1, 3, 3}}},
                                {attr("ndim", 2)})),
              HasSubstr("a convolution over 2 dimensions"));
}

TEST(CausalConvWithState, ExtensionsOfGpusAreRefused) {
  for (const char* const name : {"state_update_capacity", "input_channels", "state_length"})
    EXPECT_THAT(
        unsupported(layer("CausalConvWithState", {{{1, 2, 4}}, {{2, 1, 3}}}, {attr(name, 2)})),
        HasSubstr(name));
}

TEST(VarlenCausalConvWithState, InputsThatDoNotFitAreErrors) {
  const auto conv = [](std::vector<ModelDim> state, std::vector<Attribute> attributes = {},
                       std::vector<Input> more = {}) {
    std::vector<Input> inputs = {
        {{10, 4}}, {{4, 1, 3}}, {{3}, DType::kInt32}, {{4}}, {std::move(state)}};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return layer("VarlenCausalConvWithState", inputs, attributes);
  };
  EXPECT_THAT(invalid(conv({2, 4, 3})), HasSubstr("initial_state"));
  EXPECT_THAT(invalid(conv({3, 4, 2})), HasSubstr("initial_state"));
  EXPECT_THAT(invalid(conv({2, 4, 2}, {attr("dilation", 0)})), HasSubstr("'dilation' is 0"));
  EXPECT_THAT(invalid(conv({2, 4, 2}, {attr("state_update_capacity", 9)})),
              HasSubstr("it must be 0 to 8"));
  EXPECT_THAT(invalid(conv({2, 4, 2}, {attr("state_update_capacity", 2)})),
              HasSubstr("capture_count"));
  EXPECT_THAT(unsupported(conv({2, 4, 2}, {}, {{}, {{10, 2, 2}}, {{10, 1}}})),
              HasSubstr("kernel_delta"));
}

TEST(GatedDeltaNet, SequencesEndToEnd) {
  const std::vector<Input> inputs = {{{10, 2, 8}},         {{10, 2, 8}}, {{10, 2, 4}},
                                     {{3}, DType::kInt32}, {{10, 2}},    {{10, 2}},
                                     {{2, 2, 4, 8}}};
  EXPECT_EQ(layer("GatedDeltaNet", inputs, {})
                .import()
                .graph.type(layer("GatedDeltaNet", inputs, {}).import().graph.outputs()[0])
                .shape,
            (ir::Shape{10, 2, 4}));
  std::vector<Input> other = inputs;
  other[3] = {{4}, DType::kInt32};
  EXPECT_THAT(invalid(layer("GatedDeltaNet", other, {})), HasSubstr("cu_seqlens"));
  EXPECT_THAT(unsupported(layer("GatedDeltaNet", inputs, {attr("state_update_capacity", 2)})),
              HasSubstr("state_update_capacity"));
}

}  // namespace
}  // namespace sinter::frontend
