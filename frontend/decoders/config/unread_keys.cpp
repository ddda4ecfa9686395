// SPDX-License-Identifier: Apache-2.0
// Keys that nobody has read: whether they may change results.
#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "frontend/decoders/config/read_config.h"
#include "ir/text/shown.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

/// Keys that change results, and that only some rows understand.
constexpr std::string_view kChanging[] = {
    "quantization_config",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "alibi",
    "use_alibi",
    "attention_bias",
    "mlp_bias",
    "use_bias",
    "use_qkv_bias",
    "partial_rotary_factor",
    "rotary_pct",
    "sliding_window",
    "attention_chunk_size",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "query_pre_attn_scalar",
    "embedding_multiplier",
    "residual_multiplier",
    "attention_multiplier",
    "logits_scaling",
    "logit_scale",
    "clip_qkv",
    "no_rope_layers",
    "qk_layernorm",
    "use_qk_norm",
    "use_parallel_residual",
    "parallel_attn",
    "use_bidirectional_attention",
    "text_config",
    "vision_config",
    "audio_config",
    "is_encoder_decoder",
    "add_cross_attention",
    "full_attention_interval",
    "kv_lora_rank",
    "q_lora_rank",
    "n_group",
    "routed_scaling_factor",
    "scoring_func",
    "swiglu_limit",
    "mamba_d_state",
    "ssm_cfg",
    "rope_local_base_freq",
    "pruned_heads",
};
/// The same of GGUF, behind the architecture.
constexpr std::string_view kChangingGguf[] = {
    "expert_count",
    "expert_used_count",
    "attention.scale",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.kv_lora_rank",
    "ssm.state_size",
    "rope.dimension_sections",
    "attention.sliding_window",
    "use_parallel_residual",
};

/// Keys without an effect on results, and beginnings of such.
constexpr std::string_view kIdle[] = {
    "A_init_range",
    "_",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "auto_map",
    "bos_token_id",
    "block_",
    "cache_",
    "chunk_size",
    "classifier_dropout",
    "cls_token_id",
    "conv_",
    "decoder_bias",
    "deterministic_flash_attn",
    "directionality",
    "dropout",
    "dtype",
    "embd_pdrop",
    "ep_size",
    "experts_per_token",
    "first_k_dense_replace",
    "initial_context_length",
    "embedding_dropout",
    "eos_token_id",
    "expand",
    "finetuning_task",
    "full_attn_idxs",
    "hidden_dropout",
    "id2label",
    "initializer_",
    "label2id",
    "mamba_chunk_size",
    "mamba_conv_bias",
    "mamba_expand",
    "max_window_layers",
    "mlp_dropout",
    "model_type",
    "moe_layer_freq",
    "name_or_path",
    "no_rope_layer_interval",
    "norm_bias",
    "norm_before_gate",
    "num_experts_per_tok",
    "num_nextn_predict_layers",
    "decoder_sparse_step",
    "mlp_only_layers",
    "router_",
    "pad_token_id",
    "pooler_",
    "pretraining_tp",
    "problem_type",
    "qa_dropout",
    "reference_compile",
    "repad_logits_with_grad",
    "resid_pdrop",
    "residual_dropout",
    "residual_in_fp32",
    "rms_norm",
    "sep_token_id",
    "seq_classif_dropout",
    "sinusoidal_pos_embds",
    "sparse_pred",
    "tie_weights_",
    "time_step_",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
    "use_conv_bias",
    "use_mambapy",
    "use_sliding_window",
    "sliding_window_pattern",
    "original_max_position_embeddings",
    "output_",
};

/// Whether key `key`, which was not read, may change results.
bool has_effect(std::string_view key, bool is_gguf) {
  const auto is_in = [&](const auto& list) {
    return std::ranges::find(list, key) != std::end(list);
  };
  if (!is_gguf) return is_in(kChanging);
  key.remove_prefix(std::min(key.find('.') + 1, key.size()));
  return is_in(kChangingGguf);
}

}  // namespace

void check_unread(const ConfigKeys& keys, std::string_view architecture,
                  std::vector<std::string>& notes) {
  std::vector<std::string> unknown;
  for (const std::string& key : keys.unread()) {
    if (has_effect(key, keys.is_gguf()))
      throw unsupported_error("'{}' changes what the model computes, and is not known of '{}'. {}",
                              ir::shown(key), architecture, kOtherWay);
    const auto is_idle = [&](std::string_view idle) { return key.starts_with(idle); };
    if (!keys.is_gguf() && std::ranges::none_of(kIdle, is_idle)) unknown.push_back(ir::shown(key));
  }
  if (!unknown.empty())
    notes.push_back(fmt::format("keys of config.json that are not known, and ignored: {}",
                                fmt::join(unknown, ", ")));
}

}  // namespace sinter::frontend
