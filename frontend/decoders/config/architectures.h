// SPDX-License-Identifier: Apache-2.0
// The architectures that a decoder may have: one row each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "frontend/decoders/config/decoder_config.h"
#include "frontend/decoders/config/tensor_names.h"

namespace sinter::frontend {

/// Where the layers with a sliding window are, unless "layer_types" says so.
enum class Windows {
  kNone,
  kAll,
  kPeriod,           // all but each `window_period`-th
  kPeriodFromFirst,  // the same, the first being one of those without
  kUpper,            // with "use_sliding_window": from layer "max_window_layers" on
};

/// How an architecture's files describe a mixture of experts.
struct ExpertKeys {
  std::string_view count = "num_experts";
  std::string_view size = "moe_intermediate_size";  // "intermediate_size" where it is absent
  bool normalises = false;  // where no "norm_topk_prob" says it, and of GGUF
  bool gguf_alone = false;  // folders say another "model_type"
  bool is_clamped = false;  // gpt-oss's gate, gate and up in one matrix of a folder, and MXFP4
  bool has_groups = false;  // DeepSeek's routing by sigmoids, biases and groups
};

/// Members are named where they differ from Llama's.
struct Architecture {
  std::string_view name;  // "model_type" of config.json
  std::string_view gguf;  // "general.architecture" of GGUF files; empty: none is known
  NormKind norm = NormKind::kRms;
  Residual residual = Residual::kPre;
  HeadNorms head_norms = HeadNorms::kNone;
  Windows windows = Windows::kNone;
  std::int64_t window_period = 0;
  bool is_gated = true;
  bool is_tied = false;           // where "tie_word_embeddings" is absent
  bool scales_embedding = false;  // by the root of the hidden size
  double rotated = 1;             // share of a head, where no key says it
  std::int64_t plain_period = 0;  // N: layers N-1, 2N-1, .. have no rotary positions, unless
                                  // "no_rope_layers" lists them; 0: all layers have
  double epsilon = 0;             // of norms, if no key says it
  std::string_view epsilon_key = "rms_norm_eps";
  std::string_view activation_key = "hidden_act";
  Activation activation = Activation::kSilu;  // of GGUF, which does not say it
  /// Keys of biases; empty: there are biases where the file has them.
  std::string_view qkv_bias_key = {}, output_bias_key = {}, mlp_bias_key = {};
  bool has_multipliers = false;  // Granite's four
  bool has_caps = false;         // of scores and logits, and "query_pre_attn_scalar"
  bool has_local_base = false;   // layers with a window have a base of their own
  bool may_clip = false, may_be_parallel = false, may_norm_heads = false;
  bool mixes_heads = false;  // see DecoderConfig; GGUF's are in order
  bool has_sinks = false, is_latent = false;
  bool truncates_yarn = true;       // where no key says it: bounds of YaRN's mixed pairs are whole
  bool rotates_neighbours = false;  // in GGUF, whose converter reorders rows of q and k
  bool norms_embedding = false;     // see DecoderConfig
  bool is_encoder = false;          // gives vectors of texts alone, a token sees all others
  const ExpertKeys* experts = nullptr;  // layers may be mixtures of experts
  std::string_view layer_prefix = "model.layers.";
  std::span<const TensorName> names = {};  // those that differ from Llama's
  std::span<const TensorName> keys = {};   // of config.json, which differ from Llama's
  Mixer mixer = Mixer::kNone;              // of layers without attention
  bool norms_groups = false;               // see MixerConfig; of GGUF all do
  bool norms_operands = false;             // see MixerConfig; GGUF has a key
  bool attends = true;                     // there are layers with attention
  bool has_positions = true;               // those have rotary positions
  bool gates_attention = false;            // see DecoderConfig
  bool adjusts_mlp = false;                // LFM2's size of its MLP, of folders
  bool has_shared_mlp = false;             // Granite's MLP for all tokens, beside experts or alone
};

std::span<const Architecture> architectures();
/// The row of a "model_type", or of GGUF's architecture; null if there is none.
const Architecture* find_architecture(std::string_view name, bool is_gguf);
/// The name, in a Hugging Face folder, of what GGUF calls `name`, such as "attn_q.weight"; without
/// the layer's prefix.
std::string folder_name(const Architecture& architecture, std::string_view name);

}  // namespace sinter::frontend
