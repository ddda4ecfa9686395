// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/config/architectures.h"

#include <algorithm>
#include <array>

namespace sinter::frontend {
namespace {

// "{}" stands for the number of an expert, whose tensor that is; else it is one of all experts.
constexpr TensorName kLlamaNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"cls_output", "score"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.{}.gate_proj"},
    {"ffn_up_exps", "mlp.experts.{}.up_proj"},
    {"ffn_down_exps", "mlp.experts.{}.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};
constexpr TensorName kMixtralNames[] = {
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
};
constexpr TensorName kGraniteMoeNames[] = {
    {"ffn_gate_inp", "block_sparse_moe.router.layer"},
    {"ffn_up_exps", "block_sparse_moe.input_linear"},
    {"ffn_down_exps", "block_sparse_moe.output_linear"},
};
constexpr TensorName kGptOssNames[] = {
    {"attn_sinks.weight", "self_attn.sinks"},
    {"ffn_gate_inp", "mlp.router"},
    {"ffn_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_up_exps.bias", "mlp.experts.gate_up_proj_bias"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj"},
    {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
};
constexpr TensorName kDeepseekNames[] = {
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
};
constexpr ExpertKeys kExperts = {}, kNormalisedExperts = {.normalises = true},
                     kLocalExperts = {.count = "num_local_experts", .normalises = true},
                     kLlamaExperts = {.count = "num_local_experts",
                                      .normalises = true,
                                      .gguf_alone = true},
                     kClampedExperts = {.count = "num_local_experts",
                                        .normalises = true,
                                        .is_clamped = true},
                     kGroupedExperts = {
                         .count = "n_routed_experts", .normalises = true, .has_groups = true};

constexpr TensorName kPostNormNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr TensorName kPhi3Names[] = {{"ffn_up", "mlp.gate_up_proj"}};
constexpr TensorName kStableLmNames[] = {
    {"attn_q_norm", "self_attn.q_layernorm.norms"},
    {"attn_k_norm", "self_attn.k_layernorm.norms"},
};
constexpr TensorName kStarcoder2Names[] = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};
constexpr TensorName kNeoXNames[] = {
    {"token_embd", "gpt_neox.embed_in"},
    {"output_norm", "gpt_neox.final_layer_norm"},
    {"output", "embed_out"},
    {"attn_qkv", "attention.query_key_value"},
    {"attn_output", "attention.dense"},
    {"ffn_up", "mlp.dense_h_to_4h"},
    {"ffn_down", "mlp.dense_4h_to_h"},
};

constexpr TensorName kModernBertNames[] = {
    {"token_embd", "model.embeddings.tok_embeddings"},
    {"token_embd_norm", "model.embeddings.norm"},
    {"output_norm", "model.final_norm"},
    {"attn_norm", "attn_norm"},
    {"attn_qkv", "attn.Wqkv"},
    {"attn_output", "attn.Wo"},
    {"ffn_norm", "mlp_norm"},
    {"ffn_up", "mlp.Wi"},
    {"ffn_down", "mlp.Wo"},
    {"cls", "head.dense"},
    {"cls_norm", "head.norm"},
    {"cls_output", "classifier"},
};
constexpr TensorName kModernBertKeys[] = {
    {"rope_theta", "global_rope_theta"},   {"rope_local_base_freq", "local_rope_theta"},
    {"sliding_window", "local_attention"}, {"sliding_window_pattern", "global_attn_every_n_layers"},
    {"hidden_act", "hidden_activation"},
};

constexpr std::string_view kAttentionBias = "attention_bias", kMlpBias = "mlp_bias",
                           kUseBias = "use_bias";
constexpr std::string_view kLayerNormKey = "layer_norm_eps";

constexpr Architecture kArchitectures[] = {
    {.name = "llama",
     .gguf = "llama",
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .mlp_bias_key = kMlpBias,
     .rotates_neighbours = true,
     .experts = &kLlamaExperts},
    // GGUF files of Mixtral say that they are of Llama.
    {.name = "mixtral",
     .gguf = "",
     .windows = Windows::kAll,
     .experts = &kLocalExperts,
     .names = kMixtralNames},
    // GGUF files of Mistral say that they are of Llama.
    {.name = "mistral", .gguf = "", .windows = Windows::kAll},
    {.name = "qwen2", .gguf = "qwen2", .windows = Windows::kUpper},
    {.name = "qwen3",
     .gguf = "qwen3",
     .head_norms = HeadNorms::kEach,
     .windows = Windows::kUpper,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias},
    {.name = "qwen2_moe", .gguf = "qwen2moe", .windows = Windows::kUpper, .experts = &kExperts},
    {.name = "qwen3_moe",
     .gguf = "qwen3moe",
     .head_norms = HeadNorms::kEach,
     .windows = Windows::kUpper,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .experts = &kNormalisedExperts},
    {.name = "gemma",
     .gguf = "gemma",
     .norm = NormKind::kRmsPlusOne,
     .is_tied = true,
     .scales_embedding = true,
     .activation = Activation::kGeluTanh,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias},
    {.name = "gemma2",
     .gguf = "gemma2",
     .norm = NormKind::kRmsPlusOne,
     .residual = Residual::kSandwich,
     .windows = Windows::kPeriod,
     .window_period = 2,
     .is_tied = true,
     .scales_embedding = true,
     .activation_key = "hidden_activation",
     .activation = Activation::kGeluTanh,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .has_caps = true,
     .names = kPostNormNames},
    {.name = "gemma3_text",
     .gguf = "gemma3",
     .norm = NormKind::kRmsPlusOne,
     .residual = Residual::kSandwich,
     .head_norms = HeadNorms::kEach,
     .windows = Windows::kPeriod,
     .window_period = 6,
     .is_tied = true,
     .scales_embedding = true,
     .activation_key = "hidden_activation",
     .activation = Activation::kGeluTanh,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .has_caps = true,
     .has_local_base = true,
     .names = kPostNormNames},
    {.name = "phi3", .gguf = "phi3", .windows = Windows::kAll, .names = kPhi3Names},
    {.name = "smollm3",
     .gguf = "smollm3",
     .windows = Windows::kUpper,
     .is_tied = true,
     .plain_period = 4,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .mlp_bias_key = kMlpBias,
     .rotates_neighbours = true},
    {.name = "granite",
     .gguf = "granite",
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .mlp_bias_key = kMlpBias,
     .has_multipliers = true,
     .rotates_neighbours = true},
    {.name = "granitemoe",
     .gguf = "granitemoe",
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .has_multipliers = true,
     .rotates_neighbours = true,
     .experts = &kLocalExperts,
     .names = kGraniteMoeNames},
    {.name = "olmo",
     .gguf = "olmo",
     .norm = NormKind::kPlainLayer,
     .epsilon = 1e-5,
     .epsilon_key = kLayerNormKey,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .may_clip = true,
     .rotates_neighbours = true},
    {.name = "olmo2",
     .gguf = "olmo2",
     .residual = Residual::kPost,
     .head_norms = HeadNorms::kWidth,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .names = kPostNormNames},
    {.name = "olmoe",
     .gguf = "olmoe",
     .head_norms = HeadNorms::kWidth,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .may_clip = true,
     .experts = &kExperts},
    {.name = "gpt_oss",
     .gguf = "gpt-oss",
     .windows = Windows::kPeriod,
     .window_period = 2,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .has_sinks = true,
     .truncates_yarn = false,
     .experts = &kClampedExperts,
     .names = kGptOssNames},
    {.name = "deepseek_v3",
     .gguf = "deepseek2",
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .is_latent = true,
     .experts = &kGroupedExperts,
     .names = kDeepseekNames},
    {.name = "stablelm",
     .gguf = "stablelm",
     .norm = NormKind::kLayer,
     .rotated = 0.25,
     .epsilon_key = kLayerNormKey,
     .qkv_bias_key = "use_qkv_bias",
     .may_be_parallel = true,
     .may_norm_heads = true,
     .names = kStableLmNames},
    {.name = "starcoder2",
     .gguf = "starcoder2",
     .norm = NormKind::kLayer,
     .windows = Windows::kAll,
     .is_gated = false,
     .is_tied = true,
     .epsilon_key = "norm_epsilon",
     .activation = Activation::kGeluTanh,
     .qkv_bias_key = kUseBias,
     .output_bias_key = kUseBias,
     .mlp_bias_key = kUseBias,
     .names = kStarcoder2Names},
    {.name = "gpt_neox",
     .gguf = "gptneox",
     .norm = NormKind::kLayer,
     .residual = Residual::kParallel,
     .is_gated = false,
     .rotated = 0.25,
     .epsilon_key = kLayerNormKey,
     .activation = Activation::kGelu,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .may_be_parallel = true,
     .mixes_heads = true,
     .layer_prefix = "gpt_neox.layers.",
     .names = kNeoXNames},
    {.name = "modernbert",
     .gguf = "",
     .norm = NormKind::kLayer,
     .windows = Windows::kPeriodFromFirst,
     .window_period = 3,
     .epsilon = 1e-5,
     .epsilon_key = "norm_eps",
     .activation_key = "hidden_activation",
     .activation = Activation::kGelu,
     .qkv_bias_key = kAttentionBias,
     .output_bias_key = kAttentionBias,
     .mlp_bias_key = kMlpBias,
     .has_local_base = true,
     .norms_embedding = true,
     .is_encoder = true,
     .names = kModernBertNames,
     .keys = kModernBertKeys},
};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture* find_architecture(std::string_view name, bool is_gguf) {
  const auto* row =
      std::ranges::find(kArchitectures, name, is_gguf ? &Architecture::gguf : &Architecture::name);
  return row == std::end(kArchitectures) || name.empty() ? nullptr : row;
}

std::string folder_name(const Architecture& architecture, std::string_view name) {
  const std::size_t dot = name.rfind('.');
  for (const std::span<const TensorName> names :
       {architecture.names, std::span<const TensorName>(kLlamaNames)})
    for (const auto& [gguf, folder] : names) {
      if (gguf == name) return std::string(folder);
      if (gguf == name.substr(0, dot)) return std::string(folder) + std::string(name.substr(dot));
    }
  return std::string(name);
}

}  // namespace sinter::frontend
