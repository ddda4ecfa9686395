// SPDX-License-Identifier: Apache-2.0
// Configurations of decoders, and what is refused. tests/models/check_decoders.py compares what
// they compute with transformers.
#include <cmath>
#include <map>

#include "frontend/decoders/config/read_config.h"
#include "frontend/decoders/config/rotary.h"
#include "frontend/decoders/decoder_graph.h"
#include "frontend/decoders/import_decoder.h"
#include "frontend/decoders/known_models.h"
#include "tests/frontend/decoders/zeros.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Members of a config.json of a small decoder; `more` come on top.
std::string config(const std::string& type, const std::string& more = "") {
  return R"({"model_type":")" + type +
         R"(","hidden_size":8,"intermediate_size":12,"num_hidden_layers":2,"num_attention_heads":2,
         "vocab_size":10,"max_position_embeddings":64,"rms_norm_eps":1e-5)" +
         (more.empty() ? "" : "," + more) + "}";
}

DecoderConfig read(const std::string& text, const TensorFile& weights = Zeros({})) {
  const auto keys = keys_of_json(text);
  return read_config(architecture_of(*keys), *keys, weights);
}

std::string refused_config(const std::string& text, ErrorCode code) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "it was read";
}

std::map<std::string, ir::Ints, std::less<>> llama_shapes() {
  std::map<std::string, ir::Ints, std::less<>> shapes{{"model.embed_tokens.weight", {10, 8}},
                                                      {"model.norm.weight", {8}},
                                                      {"lm_head.weight", {10, 8}}};
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string own(layer);
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
      shapes[own + "self_attn." + name + ".weight"] = {8, 8};
    shapes[own + "mlp.gate_proj.weight"] = shapes[own + "mlp.up_proj.weight"] = {12, 8};
    shapes[own + "mlp.down_proj.weight"] = {8, 12};
    shapes[own + "input_layernorm.weight"] = shapes[own + "post_attention_layernorm.weight"] = {8};
  }
  return shapes;
}

ir::Graph graph_of(const std::string& text, std::shared_ptr<const TensorFile> file) {
  const auto keys = keys_of_json(text);
  const Architecture& row = architecture_of(*keys);
  const DecoderConfig read = read_config(row, *keys, *file);
  DecoderWeights weights(row, file, false, nullptr);
  ir::Graph graph = decoder_graph(read, weights, weights.activation_type());
  weights.refuse_others();
  return graph;
}

std::string refused_weights(const std::map<std::string, ir::Ints, std::less<>>& shapes,
                            const std::string& text = config("llama")) {
  try {
    graph_of(text, std::make_shared<Zeros>(shapes));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("pysinter[export]"));
    return error.what();
  }
  return "it was read";
}

TEST(DecoderConfig, ReadsLlama) {
  const auto c = read(config("llama", R"("num_key_value_heads":1,"rope_theta":100)"));
  EXPECT_EQ(c.kv_heads, 1);
  EXPECT_EQ(c.head_size, 4);
  EXPECT_EQ(c.positions, 64);
  EXPECT_FALSE(c.is_tied);
  EXPECT_DOUBLE_EQ(c.score_scale, 0.5);
  EXPECT_THAT(c.rotaries.at(0).frequencies, ElementsAre(1.0F, 0.1F));
  EXPECT_THAT(c.notes, IsEmpty());
}

TEST(DecoderConfig, WindowsOfLayers) {
  const auto windows = [](const std::string& text) {
    std::vector<std::int64_t> windows;
    for (const DecoderLayer& layer : read(text).layers) windows.push_back(layer.window);
    return windows;
  };
  EXPECT_THAT(windows(config("mistral", R"("sliding_window":7)")), ElementsAre(7, 7));
  EXPECT_THAT(windows(config("mistral", R"("sliding_window":null)")), ElementsAre(0, 0));
  EXPECT_THAT(windows(config("gemma2", R"("sliding_window":7)")), ElementsAre(7, 0));
  EXPECT_THAT(windows(config("qwen2", R"("sliding_window":7,"max_window_layers":1)")),
              ElementsAre(0, 0));
  EXPECT_THAT(windows(config("qwen2", R"("sliding_window":7,"max_window_layers":1,
                                         "use_sliding_window":true)")),
              ElementsAre(0, 7));
  EXPECT_THAT(windows(config("gemma2", R"("sliding_window":7,
                              "layer_types":["full_attention","sliding_attention"])")),
              ElementsAre(0, 7));
}

TEST(DecoderConfig, BasesAndLayersWithoutPositions) {
  const auto gemma = read(config("gemma3_text", R"("sliding_window":7,
      "rope_theta":1e6,"rope_local_base_freq":100,
      "layer_types":["full_attention","sliding_attention"])"));
  EXPECT_EQ(gemma.layers[0].rotary, 0);
  EXPECT_EQ(gemma.layers[1].rotary, 1);
  EXPECT_THAT(gemma.rotaries.at(1).frequencies, ElementsAre(1.0F, 0.1F));
  const auto smol = read(config("smollm3", R"("no_rope_layers":[0,1])"));
  EXPECT_EQ(smol.layers[0].rotary, std::nullopt);
  EXPECT_EQ(smol.layers[1].rotary, 0);
}

/// transformers 5 spells positions otherwise.
TEST(DecoderConfig, RopeParameters) {
  const auto c = read(config("llama", R"("rope_parameters":{"rope_theta":100,"rope_type":"linear",
                                         "factor":2})"));
  EXPECT_THAT(c.rotaries.at(0).frequencies, ElementsAre(0.5F, 0.05F));
  const auto gemma = read(config("gemma3_text", R"("sliding_window":7,"rope_parameters":{
      "full_attention":{"rope_theta":1e4,"rope_type":"default"},
      "sliding_attention":{"rope_theta":100,"rope_type":"default"}})"));
  EXPECT_THAT(gemma.rotaries.at(0).frequencies, ElementsAre(1.0F, 0.01F));
  EXPECT_THAT(gemma.rotaries.at(1).frequencies, ElementsAre(1.0F, 0.1F));
}

TEST(DecoderConfig, ScalesLongTexts) {
  const auto c = read(config("phi3", R"("original_max_position_embeddings":16,
      "rope_scaling":{"type":"longrope","short_factor":[1,2],"long_factor":[4,8]},"rope_theta":100)"));
  const Rotary& rotary = c.rotaries.at(0);
  EXPECT_THAT(rotary.frequencies, ElementsAre(1.0F, 0.05F));
  EXPECT_THAT(rotary.long_frequencies, ElementsAre(0.25F, 0.0125F));
  EXPECT_NEAR(rotary.factor, std::sqrt(1.5), 1e-9);
}

TEST(DecoderConfig, RefusesByName) {
  const auto unsupported = [](const std::string& text) {
    return refused_config(text, ErrorCode::kUnsupported);
  };
  EXPECT_THAT(
      unsupported(config("deepseek_v2")),
      AllOf(HasSubstr("'deepseek_v2'"), HasSubstr("gemma2"), HasSubstr("pysinter[export]")));
  EXPECT_THAT(unsupported(config("llama", R"("num_local_experts":8)")),
              HasSubstr("'num_local_experts'"));
  EXPECT_THAT(unsupported(config("llama", R"("quantization_config":{"bits":4})")),
              HasSubstr("'quantization_config'"));
  EXPECT_THAT(unsupported(config("llama", R"("attn_logit_softcapping":50.0)")),
              HasSubstr("'attn_logit_softcapping'"));
  EXPECT_THAT(unsupported(config("llama", R"("rope_scaling":{"type":"dynamic","factor":2})")),
              AllOf(HasSubstr("'dynamic'"), HasSubstr("yarn")));
  EXPECT_THAT(unsupported(config("llama", R"("layer_types":["full_attention","mamba"])")),
              HasSubstr("'mamba'"));
  EXPECT_THAT(unsupported(config("llama", R"("hidden_act":"xielu")")), HasSubstr("'xielu'"));
}

TEST(DecoderConfig, RefusesDamaged) {
  const auto invalid = [](const std::string& text) {
    return refused_config(text, ErrorCode::kInvalidModel);
  };
  EXPECT_THAT(invalid("{"), HasSubstr("config.json"));
  EXPECT_THAT(invalid("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(invalid("{}"), HasSubstr("'model_type'"));
  EXPECT_THAT(invalid(R"({"model_type":"llama"})"), HasSubstr("'hidden_size' is missing"));
  EXPECT_THAT(invalid(config("llama", R"("head_dim":"4")")), HasSubstr("'head_dim'"));
  EXPECT_THAT(invalid(config("llama", R"("head_dim":1152921504606846976)")),
              HasSubstr("'head_dim' is 1152921504606846976"));
  EXPECT_THAT(invalid(config("llama", R"("head_dim":1048576)")), HasSubstr("2 heads of 1048576"));
  EXPECT_THAT(invalid(config("llama", R"("head_dim":3)")), HasSubstr("even"));
  EXPECT_THAT(invalid(config("llama", R"("num_key_value_heads":3)")), HasSubstr("divide"));
  EXPECT_THAT(invalid(config("llama", R"("rope_theta":0)")), HasSubstr("'rope_theta'"));
  EXPECT_THAT(invalid(config("llama", R"("rope_scaling":{"type":"linear","factor":0})")),
              HasSubstr("factor"));
  EXPECT_THAT(invalid(config("llama", R"("layer_types":["full_attention"])")),
              HasSubstr("1 layers of 2"));
  EXPECT_THAT(invalid(config("phi3", R"("rope_scaling":{"type":"longrope","short_factor":[1],
                                        "long_factor":[1]})")),
              HasSubstr("short_factor"));
}

/// Tables of angles are as long as a text may be.
TEST(DecoderConfig, BoundsTablesOfAngles) {
  std::string text = config("phi3", R"("original_max_position_embeddings":16,
      "rope_scaling":{"type":"longrope","short_factor":[1,2],"long_factor":[4,8]})");
  const std::string positions = R"("max_position_embeddings":64)";
  text.replace(text.find(positions), positions.size(), R"("max_position_embeddings":2000000000)");
  EXPECT_THAT(refused_config(text, ErrorCode::kUnsupported), HasSubstr("2000000000 positions"));
}

/// A list takes much more memory than its text.
TEST(DecoderConfig, BoundsLists) {
  std::string lists = R"("x":[)";
  for (int i = 0; i < 300000; ++i) lists += "[],";
  EXPECT_THAT(refused_config(config("llama", lists + "[]]"), ErrorCode::kInvalidModel),
              HasSubstr("more than 262144"));
}

TEST(DecoderConfig, NotesKeysThatItIgnores) {
  const auto c = read(config("llama", R"("foo":3,"bos_token_id":1,"use_cache":true,"bar":null)"));
  ASSERT_EQ(c.notes.size(), 1U);
  EXPECT_THAT(c.notes[0], AllOf(HasSubstr("foo"), Not(HasSubstr("bar"))));
}

TEST(DecoderGraph, HasTheInputsOfADecoder) {
  const auto graph = graph_of(config("llama"), std::make_shared<Zeros>(llama_shapes()));
  std::vector<std::string> inputs;
  for (const ir::ValueId input : graph.inputs()) inputs.push_back(graph.value(input).name);
  EXPECT_THAT(inputs, ElementsAre("input_ids", "position", "past_key_0", "past_value_0",
                                  "past_key_1", "past_value_1"));
  EXPECT_EQ(to_string(graph.type(graph.outputs()[0])), "f32[1, 10]");
  EXPECT_EQ(graph.output_names()[1], "present_key_0");
  ir::verify(graph);
}

TEST(DecoderGraph, KeepsTheWeightsType) {
  const auto graph =
      graph_of(config("llama"), std::make_shared<Zeros>(llama_shapes(), DType::kBFloat16));
  EXPECT_EQ(to_string(graph.type(graph.outputs()[0])), "bf16[1, 10]");
}

TEST(DecoderGraph, RefusesTensorsByName) {
  EXPECT_EQ(refused_weights(llama_shapes()), "it was read");
  auto shapes = llama_shapes();
  shapes.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_THAT(refused_weights(shapes), HasSubstr("'model.layers.1.mlp.up_proj.weight' is missing"));
  shapes = llama_shapes();
  shapes["lm_head.weight"] = {11, 8};
  EXPECT_THAT(refused_weights(shapes), HasSubstr("'lm_head.weight' is [11, 8]; the configuration "
                                                 "makes it [10, 8]"));
  shapes = llama_shapes();
  shapes["model.layers.0.block_sparse_moe.gate.weight"] = {4, 8};
  EXPECT_THAT(refused_weights(shapes), HasSubstr("'model.layers.0.block_sparse_moe.gate.weight'"));
  EXPECT_THAT(refused_weights(llama_shapes(), config("llama", R"("attention_bias":true)")),
              HasSubstr("'model.layers.0.self_attn.q_proj.bias' is missing"));
  shapes = llama_shapes();
  shapes["model.layers.0.self_attn.q_proj.bias"] = {8};
  EXPECT_THAT(refused_weights(shapes, config("llama", R"("attention_bias":false)")),
              HasSubstr("'model.layers.0.self_attn.q_proj.bias'"));
}

TEST(DecoderGraph, MixturesOfExperts) {
  constexpr const char* kKeys =
      R"("head_dim":4,"num_experts":3,"num_experts_per_tok":2,"moe_intermediate_size":6)";
  auto shapes = llama_shapes();
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    shapes[layer + "self_attn.q_norm.weight"] = shapes[layer + "self_attn.k_norm.weight"] = {4};
    if (layer.ends_with("1.")) continue;  // stays an MLP
    for (const char* name : {"gate", "up", "down"}) {
      shapes.erase(layer + "mlp." + name + "_proj.weight");
      for (int e = 0; e < 3; ++e)
        shapes[layer + "mlp.experts." + std::to_string(e) + "." + name + "_proj.weight"] =
            name == std::string("down") ? ir::Ints{8, 6} : ir::Ints{6, 8};
    }
    shapes[layer + "mlp.gate.weight"] = {3, 8};
  }
  const std::string text = config("qwen3_moe", kKeys);
  const auto graph = graph_of(text, std::make_shared<Zeros>(shapes));
  // Those of zeros by gate and up are one.
  EXPECT_EQ(std::ranges::count_if(
                graph.nodes(), [](const auto& node) { return node.op->name == "GroupedMatMul"; }),
            2);
  auto missing = shapes;
  missing.erase("model.layers.0.mlp.experts.2.up_proj.weight");
  EXPECT_THAT(refused_weights(missing, text),
              HasSubstr("'model.layers.0.mlp.experts.2.up_proj.weight' is missing"));
  auto wrong = shapes;
  wrong["model.layers.0.mlp.gate.weight"] = {4, 8};
  EXPECT_THAT(refused_weights(wrong, text), HasSubstr("makes it [3, 8]"));
  EXPECT_THAT(refused_config(config("qwen3_moe", R"("num_experts":3,"num_experts_per_tok":4)"),
                             ErrorCode::kInvalidModel),
              HasSubstr("'num_experts_per_tok' is 4, but there are 3 experts"));
}

/// gpt-oss's published files have matrices of experts in blocks.
TEST(DecoderGraph, ClampedExpertsInBlocks) {
  const std::string text =
      R"({"model_type":"gpt_oss","hidden_size":64,"intermediate_size":32,"num_hidden_layers":1,
          "num_attention_heads":2,"head_dim":4,"vocab_size":10,"max_position_embeddings":64,
          "rms_norm_eps":1e-5,"num_local_experts":3,"num_experts_per_tok":2,
          "quantization_config":{"quant_method":"mxfp4"}})";
  std::map<std::string, ir::Ints, std::less<>> shapes{{"model.embed_tokens.weight", {10, 64}},
                                                      {"model.norm.weight", {64}},
                                                      {"lm_head.weight", {10, 64}}};
  const std::string layer = "model.layers.0.";
  for (const char* name : {"q", "k", "v"}) {
    shapes[layer + "self_attn." + name + "_proj.weight"] = {8, 64};
    shapes[layer + "self_attn." + name + "_proj.bias"] = {8};
  }
  shapes[layer + "self_attn.o_proj.weight"] = {64, 8};
  shapes[layer + "self_attn.o_proj.bias"] = {64};
  shapes[layer + "self_attn.sinks"] = {2};
  shapes[layer + "input_layernorm.weight"] =
      shapes[layer + "post_attention_layernorm.weight"] = {64};
  shapes[layer + "mlp.router.weight"] = {3, 64};
  shapes[layer + "mlp.router.bias"] = {3};
  const std::string experts = layer + "mlp.experts.";
  shapes[experts + "gate_up_proj_bias"] = {3, 64};
  shapes[experts + "down_proj_bias"] = {3, 64};
  shapes[experts + "down_proj"] = {3, 32, 64};
  shapes[experts + "gate_up_proj"] = {3, 64, 64};
  EXPECT_EQ(refused_weights(shapes, text), "it was read");
  auto missing = shapes;
  missing.erase(layer + "self_attn.sinks");
  EXPECT_THAT(refused_weights(missing, text), HasSubstr("self_attn.sinks' is missing"));
  shapes.erase(experts + "gate_up_proj");
  shapes[experts + "gate_up_proj_blocks"] = {3, 64, 2, 15};
  shapes[experts + "gate_up_proj_scales"] = {3, 64, 2};
  EXPECT_THAT(refused_weights(shapes, text),
              HasSubstr("gate_up_proj_blocks' is [3, 64, 2, 15]; the configuration makes it [3, "
                        "64, 2, 16]"));
  shapes[experts + "gate_up_proj_blocks"] = {3, 64, 2, 16};  // of floats
  EXPECT_THAT(refused_weights(shapes, text), HasSubstr("expected u8"));
  EXPECT_THAT(refused_config(config("gpt_oss", R"("num_local_experts":3,"num_experts_per_tok":2,
                                     "swiglu_limit":-1)"),
                             ErrorCode::kInvalidModel),
              HasSubstr("'swiglu_limit' is -1"));
  EXPECT_THAT(refused_config(config("gpt_oss", R"("num_local_experts":3,"num_experts_per_tok":2,
                                     "quantization_config":{"quant_method":"awq"})"),
                             ErrorCode::kUnsupported),
              AllOf(HasSubstr("'awq'"), HasSubstr("'mxfp4'")));
}

TEST(DecoderConfig, LatentAttentionAndGroupsOfExperts) {
  const auto text = [](const std::string& more) {
    return config("deepseek_v3",
                  R"("kv_lora_rank":6,"qk_rope_head_dim":2,"qk_nope_head_dim":4,"v_head_dim":3,
                     "n_routed_experts":6,"num_experts_per_tok":3,"n_shared_experts":2,
                     "moe_intermediate_size":5,"num_nextn_predict_layers":1)" +
                      more);
  };
  const auto c = read(text(R"(,"n_group":3,"topk_group":2,"routed_scaling_factor":2.5)"));
  EXPECT_EQ(c.head_size, 6);
  EXPECT_EQ(c.value_size, 3);
  EXPECT_EQ(c.experts.shared, 10);
  EXPECT_EQ(c.experts.kept_groups, 2);
  EXPECT_EQ(c.experts.share_scale, 2.5);
  EXPECT_THAT(c.left_out, ElementsAre("model.layers.2."));
  EXPECT_THAT(refused_config(text(R"(,"n_group":4)"), ErrorCode::kInvalidModel),
              HasSubstr("'n_group' is 4"));
  EXPECT_THAT(refused_config(text(R"(,"n_group":3,"topk_group":1)"), ErrorCode::kInvalidModel),
              HasSubstr("'num_experts_per_tok' is 3, but there are 2 experts in 1 groups"));
  EXPECT_THAT(refused_config(text(R"(,"scoring_func":"softmax")"), ErrorCode::kUnsupported),
              AllOf(HasSubstr("'scoring_func'"), HasSubstr("'sigmoid'")));
  EXPECT_THAT(refused_config(text(R"(,"num_key_value_heads":1)"), ErrorCode::kUnsupported),
              HasSubstr("'num_key_value_heads' is 1 of 2 heads"));
  EXPECT_THAT(refused_config(config("deepseek_v3"), ErrorCode::kInvalidModel),
              HasSubstr("'kv_lora_rank' is missing"));
  EXPECT_THAT(refused_config(text(R"(,"quantization_config":{"quant_method":"fp8"})"),
                             ErrorCode::kUnsupported),
              HasSubstr("'fp8' in blocks of 128 x 128"));
}

/// Old checkpoints contain angles and masks.
TEST(DecoderGraph, LeavesTablesAlone) {
  auto shapes = llama_shapes();
  shapes["model.layers.0.self_attn.rotary_emb.inv_freq"] = {2};
  EXPECT_EQ(refused_weights(shapes), "it was read");
}

TEST(DecoderSource, FoldersAndFiles) {
  const TemporaryFolder folder;
  EXPECT_THROW(is_decoder_source(folder.path().string()), Error);
  folder.write("config.json", config("llama"));
  EXPECT_TRUE(is_decoder_source(folder.path().string()));
  EXPECT_FALSE(is_decoder_source((folder.path() / "config.json").string()));
  try {
    import_decoder(folder.path().string());
    ADD_FAILURE() << "there are no weights";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_THAT(error.what(), HasSubstr("safetensors"));
  }
}

}  // namespace
}  // namespace sinter::frontend
