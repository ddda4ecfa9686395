// SPDX-License-Identifier: Apache-2.0
// Decoders whose layers have states: what their files must have, and what is refused.
// tests/models/check_decoders.py compares what they compute with transformers.
#include <map>

#include "frontend/decoders/config/read_config.h"
#include "frontend/decoders/decoder_graph.h"
#include "frontend/decoders/known_models.h"
#include "tests/frontend/decoders/zeros.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Shapes = std::map<std::string, ir::Ints, std::less<>>;

std::string mamba2(const std::string& more = "") {
  return R"({"model_type":"mamba2","hidden_size":8,"num_hidden_layers":1,"vocab_size":10,
    "layer_norm_epsilon":1e-5,"num_heads":4,"head_dim":4,"n_groups":2,"state_size":6,
    "conv_kernel":4,"tie_word_embeddings":false)" +
         (more.empty() ? "" : "," + more) + "}";
}

Shapes mamba2_shapes() {
  const std::string layer = "backbone.layers.0.";
  return {{"backbone.embeddings.weight", {10, 8}},
          {"backbone.norm_f.weight", {8}},
          {"lm_head.weight", {10, 8}},
          {layer + "norm.weight", {8}},
          {layer + "mixer.in_proj.weight", {16 + 40 + 4, 8}},
          {layer + "mixer.conv1d.weight", {40, 1, 4}},
          {layer + "mixer.conv1d.bias", {40}},
          {layer + "mixer.dt_bias", {4}},
          {layer + "mixer.A_log", {4}},
          {layer + "mixer.D", {4}},
          {layer + "mixer.norm.weight", {16}},
          {layer + "mixer.out_proj.weight", {8, 16}}};
}

DecoderConfig read_with_states(const std::string& text, const TensorFile& weights = Zeros({})) {
  const auto keys = keys_of_json(text);
  const Architecture& row = architecture_of(*keys);
  keys->spell(row.keys);
  return read_config(row, *keys, weights);
}

ir::Graph graph_with_states(const std::string& text, const Shapes& shapes) {
  const auto file = std::make_shared<Zeros>(shapes);
  const auto keys = keys_of_json(text);
  const Architecture& row = architecture_of(*keys);
  keys->spell(row.keys);
  const DecoderConfig config = read_config(row, *keys, *file);
  DecoderWeights weights(row, file, false, nullptr);
  ir::Graph graph = decoder_graph(config, weights, DType::kFloat32);
  weights.refuse_others();
  return graph;
}

template <typename Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "it was taken";
}

TEST(StateDecoders, HaveStatesAsInputs) {
  const auto graph = graph_with_states(mamba2(), mamba2_shapes());
  std::vector<std::string> inputs;
  for (const ir::ValueId input : graph.inputs())
    inputs.push_back(graph.value(input).name + " " + to_string(graph.type(input)));
  EXPECT_THAT(inputs, ElementsAre("input_ids i64[1, sequence]", "past_conv_0 f32[1, 40, 3]",
                                  "past_state_0 f32[1, 4, 6, 4]"));
  EXPECT_THAT(graph.output_names(), ElementsAre("logits", "present_conv_0", "present_state_0"));
  ir::verify(graph);
}

TEST(StateDecoders, TensorsOfOtherShapesAreRefused) {
  auto shapes = mamba2_shapes();
  shapes["backbone.layers.0.mixer.A_log"] = {5};
  EXPECT_THAT(refusal_of([&] { graph_with_states(mamba2(), shapes); }),
              HasSubstr("'backbone.layers.0.mixer.A_log' is [5]; the configuration makes it [4]"));
  shapes = mamba2_shapes();
  shapes.erase("backbone.layers.0.mixer.in_proj.weight");
  EXPECT_THAT(refusal_of([&] { graph_with_states(mamba2(), shapes); }),
              HasSubstr("'backbone.layers.0.mixer.in_proj.weight' is missing"));
}

TEST(StateDecoders, SizesAreBounded) {
  const auto invalid = [](const std::string& key, const std::string& value) {
    std::string text = mamba2();
    const auto at = text.find("\"" + key + "\":") + key.size() + 3;
    text.replace(at, text.find_first_of(",}", at) - at, value);
    return refusal_of([&] { read_with_states(text); });
  };
  EXPECT_THAT(invalid("n_groups", "3"), HasSubstr("which does not divide 4 heads"));
  EXPECT_THAT(invalid("num_heads", "0"), HasSubstr("is 0: expected 1 to"));
  EXPECT_THAT(invalid("state_size", "1048577"), HasSubstr("1048577"));
  EXPECT_THAT(invalid("head_dim", "1048576"), HasSubstr("are of more than"));
  EXPECT_THAT(invalid("conv_kernel", "1"), HasSubstr("expected 2 or more"));
  EXPECT_THAT(invalid("conv_kernel", "65"), HasSubstr("65"));
}

/// Python's JSON has a number that others do not have.
TEST(StateDecoders, StepsHaveBounds) {
  for (const char* infinity : {"Infinity", R"({"__float__":"Infinity"})"}) {
    const auto c = read_with_states(
        mamba2(R"("note":"\"Infinity","time_step_limit":[0.0,)" + std::string(infinity) + "]"));
    EXPECT_EQ(c.mixer.least_step, 0);
    EXPECT_EQ(c.mixer.most_step, 0);
  }
  const auto c = read_with_states(mamba2(R"("time_step_limit":[0.25,0.5])"));
  EXPECT_EQ(c.mixer.least_step, 0.25);
  EXPECT_EQ(c.mixer.most_step, 0.5);
  EXPECT_THAT(refusal_of([] { read_with_states(mamba2(R"("time_step_limit":[0.5,0.25])")); }),
              HasSubstr("'time_step_limit'"));
}

TEST(StateDecoders, PositionsOfGranite) {
  const std::string text = R"({"model_type":"granitemoehybrid","hidden_size":8,
    "intermediate_size":12,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":10,
    "max_position_embeddings":64,"rms_norm_eps":1e-5,"mamba_n_heads":4,"mamba_d_head":4,
    "mamba_d_state":6,"mamba_d_conv":4,"num_local_experts":0,"shared_intermediate_size":20,
    "position_embedding_type":)";
  EXPECT_EQ(read_with_states(text + "\"nope\"}").layers[0].rotary, std::nullopt);
  EXPECT_EQ(read_with_states(text + "\"rope\"}").layers[0].rotary, 0);
  EXPECT_EQ(read_with_states(text + "\"rope\"}").intermediate, 20);
  EXPECT_THAT(refusal_of([&] { read_with_states(text + "\"alibi\"}"); }), HasSubstr("'alibi'"));
}

}  // namespace
}  // namespace sinter::frontend
