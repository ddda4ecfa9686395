// SPDX-License-Identifier: Apache-2.0
// Names of tensors, and of keys of config.json, that architectures have: for architectures.cpp.
#pragma once

#include <string_view>
#include <utility>

namespace sinter::frontend {

/// A tensor by its name in GGUF, and by its name in a Hugging Face folder: both without "weight" or
/// "bias", or both whole.
using TensorName = std::pair<std::string_view, std::string_view>;

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

constexpr TensorName kMambaNames[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"attn_norm", "norm"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_x", "mixer.x_proj"},
    {"ssm_dt", "mixer.dt_proj"},
    {"ssm_a", "mixer.A_log"},
    {"ssm_d", "mixer.D"},
    {"ssm_out", "mixer.out_proj"},
};
constexpr TensorName kMamba2Names[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"attn_norm", "norm"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_dt.bias", "mixer.dt_bias"},
    {"ssm_a", "mixer.A_log"},
    {"ssm_d", "mixer.D"},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
};
constexpr TensorName kMambaKeys[] = {
    {"mamba_d_conv", "conv_kernel"}, {"mamba_inner", "intermediate_size"},
    {"mamba_d_state", "state_size"}, {"mamba_dt_rank", "time_step_rank"},
    {"mamba_proj_bias", "use_bias"},
};
constexpr TensorName kMamba2Keys[] = {
    {"mamba_d_conv", "conv_kernel"}, {"mamba_n_heads", "num_heads"},
    {"mamba_d_head", "head_dim"},    {"mamba_n_groups", "n_groups"},
    {"mamba_d_state", "state_size"}, {"mamba_proj_bias", "use_bias"},
};
constexpr TensorName kNemotronNames[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"attn_norm", "norm"},
    {"attn_q", "mixer.q_proj"},
    {"attn_k", "mixer.k_proj"},
    {"attn_v", "mixer.v_proj"},
    {"attn_output", "mixer.o_proj"},
    {"ffn_up", "mixer.up_proj"},
    {"ffn_down", "mixer.down_proj"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_dt.bias", "mixer.dt_bias"},
    {"ssm_a", "mixer.A_log"},
    {"ssm_d", "mixer.D"},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
};
constexpr TensorName kNemotronKeys[] = {
    {"mamba_d_conv", "conv_kernel"},     {"mamba_n_heads", "mamba_num_heads"},
    {"mamba_d_head", "mamba_head_dim"},  {"mamba_n_groups", "n_groups"},
    {"mamba_d_state", "ssm_state_size"},
};
constexpr TensorName kGraniteHybridNames[] = {
    {"ssm_in", "mamba.in_proj"},
    {"ssm_conv1d", "mamba.conv1d"},
    {"ssm_dt.bias", "mamba.dt_bias"},
    {"ssm_a", "mamba.A_log"},
    {"ssm_d", "mamba.D"},
    {"ssm_norm", "mamba.norm"},
    {"ssm_out", "mamba.out_proj"},
    {"ffn_gate_inp", "block_sparse_moe.router.layer"},
    {"ffn_up_exps", "block_sparse_moe.input_linear"},
    {"ffn_down_exps", "block_sparse_moe.output_linear"},
    {"ffn_up", "shared_mlp.input_linear"},
    {"ffn_down", "shared_mlp.output_linear"},
    {"ffn_up_shexp", "shared_mlp.input_linear"},
    {"ffn_down_shexp", "shared_mlp.output_linear"},
};
constexpr TensorName kGraniteHybridKeys[] = {
    {"shared_expert_intermediate_size", "shared_intermediate_size"},
};
constexpr TensorName kLfm2Names[] = {
    {"output_norm", "model.embedding_norm"},  {"attn_norm", "operator_norm"},
    {"attn_output", "self_attn.out_proj"},    {"attn_q_norm", "self_attn.q_layernorm"},
    {"attn_k_norm", "self_attn.k_layernorm"}, {"ffn_norm", "ffn_norm"},
    {"ffn_gate", "feed_forward.w1"},          {"ffn_up", "feed_forward.w3"},
    {"ffn_down", "feed_forward.w2"},          {"shortconv.conv", "conv.conv"},
    {"shortconv.in_proj", "conv.in_proj"},    {"shortconv.out_proj", "conv.out_proj"},
};
constexpr TensorName kDeltaNames[] = {
    {"ssm_in", "linear_attn.in_proj_qkvz"},  {"ssm_ba", "linear_attn.in_proj_ba"},
    {"attn_qkv", "linear_attn.in_proj_qkv"}, {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_beta", "linear_attn.in_proj_b"},   {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ssm_conv1d", "linear_attn.conv1d"},    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_a", "linear_attn.A_log"},          {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
};
constexpr TensorName kDeltaKeys[] = {
    {"mamba_d_conv", "linear_conv_kernel_dim"}, {"mamba_n_heads", "linear_num_value_heads"},
    {"mamba_d_head", "linear_value_head_dim"},  {"mamba_n_groups", "linear_num_key_heads"},
    {"mamba_d_state", "linear_key_head_dim"},
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

}  // namespace sinter::frontend
