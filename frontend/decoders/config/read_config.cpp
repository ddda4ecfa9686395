// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/config/read_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <fmt/ranges.h>

#include "frontend/decoders/config/rotary.h"
#include "frontend/decoders/config/text_use.h"
#include "ir/text/shown.h"
#include "runtime/format_error.h"

namespace sinter::frontend {

namespace {

class ConfigReader {
 public:
  ConfigReader(const Architecture& row, const ConfigKeys& keys, const TensorFile& weights,
               const TextConfig& text)
      : row_(row), keys_(keys), weights_(weights) {
    config_.text = text;
  }

  DecoderConfig read() {
    config_.architecture = row_.name;
    read_text(row_, keys_, config_);
    read_sizes();
    if (row_.mixer != Mixer::kNone) read_mixer(row_, keys_, config_);
    read_norms();
    read_scales();
    if (row_.attends) read_positions();
    read_biases();
    read_experts();
    if (!keys_.is_gguf()) read_quantization();
    config_.is_gated = row_.is_gated;
    config_.mixes_heads = row_.mixes_heads && !keys_.is_gguf();
    config_.is_tied = keys_.is_gguf() ? !weights_.has("output.weight")
                                      : keys_.flag("tie_word_embeddings").value_or(row_.is_tied);
    config_.activation = activation();
    if (keys_.is_gguf()) note_windows();
    check_unread(keys_, row_.name, config_.notes);
    return std::move(config_);
  }

 private:
  void read_sizes() {
    DecoderConfig& c = config_;
    c.hidden = keys_.size("hidden_size", kMostSize);
    const auto blocks = keys_.texts("layers_block_type");
    const std::int64_t count = blocks && !keys_.has("num_hidden_layers")
                                   ? std::ssize(*blocks)
                                   : keys_.size("num_hidden_layers", kMostLayers);
    if (count > kMostLayers)
      throw invalid_model_error("{} layers are more than {}", count, kMostLayers);
    c.layers.resize(static_cast<std::size_t>(count));
    if (row_.attends) read_heads();
    c.has_sinks = row_.has_sinks;
    c.gates_attention = row_.gates_attention;
    read_intermediate();
    if (keys_.is_gguf() && !keys_.integer("vocab_size")) {
      const auto shape = weights_.shape("token_embd.weight");
      c.vocabulary = shape.empty() ? 0 : shape[0];
    } else {
      c.vocabulary = keys_.size("vocab_size", kMostTokens);
    }
    // States know no limit.
    constexpr std::int64_t kMostOfStates = 1 << 20;
    c.positions = row_.attends
                      ? keys_.size("max_position_embeddings", kMostPositions)
                      : keys_.size_or("max_position_embeddings", kMostOfStates, kMostPositions);
  }

  void read_intermediate() {
    std::int64_t& size = config_.intermediate;
    if (!row_.attends) return;  // nor is there an MLP
    if (row_.has_shared_mlp && keys_.integer("shared_expert_intermediate_size").value_or(0) > 0 &&
        keys_.integer(row_.experts->count).value_or(0) == 0) {
      size = keys_.size("shared_expert_intermediate_size", kMostSize);
      keys_.integer("intermediate_size");  // of no expert
      return;
    }
    const auto of_layers = keys_.largest("intermediate_size");
    if (of_layers && *of_layers > 0 && *of_layers <= kMostSize)
      size = *of_layers;
    else
      size = keys_.size("intermediate_size", kMostSize);  // says what is wrong
    if (!row_.adjusts_mlp || keys_.is_gguf() ||
        !keys_.flag("block_auto_adjust_ff_dim").value_or(true))
      return;
    // LFM2's: two thirds, a multiple of a number.
    size = static_cast<std::int64_t>(keys_.number("block_ffn_dim_multiplier").value_or(1) *
                                     static_cast<double>(2 * size / 3));
    const std::int64_t multiple = keys_.size_or("block_multiple_of", 256, kMostSize);
    size = (std::max<std::int64_t>(size, 1) + multiple - 1) / multiple * multiple;
    if (size > kMostSize) throw invalid_model_error("its MLP has {} elements", size);
  }

  void read_heads() {
    DecoderConfig& c = config_;
    c.heads = keys_.size("num_attention_heads", kMostHeads);
    c.kv_heads = keys_.largest("num_key_value_heads").value_or(c.heads);
    if (c.kv_heads < 1 || c.kv_heads > kMostHeads)
      throw invalid_model_error("'{}' is {}: expected 1 to {}",
                                keys_.spelled("num_key_value_heads"), c.kv_heads, kMostHeads);
    if (c.heads % c.kv_heads != 0)
      throw invalid_model_error("'{}' is {}, which does not divide {} heads",
                                keys_.spelled("num_key_value_heads"), c.kv_heads, c.heads);
    c.head_size = keys_.size_or("head_dim", c.hidden / c.heads, kMostSize);
    if (row_.is_latent) read_latent();
    if (c.heads * c.head_size > kMostSize)
      throw invalid_model_error("{} heads of {} elements are more than {}", c.heads, c.head_size,
                                kMostSize);
    if (c.head_size < 1)
      throw invalid_model_error("{} heads are more than the hidden size {}", c.heads, c.hidden);
    if (!row_.is_latent) c.value_size = c.head_size;
    if (keys_.is_gguf() && !row_.is_latent &&
        keys_.size_or("value_head_dim", c.head_size, kMostSize) != c.head_size)
      throw unsupported_error("'{}' differs from the size of keys. {}",
                              keys_.spelled("value_head_dim"), kOtherWay);
  }

  void read_latent() {
    DecoderConfig& c = config_;
    c.latent.rank = keys_.size("kv_lora_rank", kMostSize);
    c.latent.query_rank = keys_.size_or("q_lora_rank", 0, kMostSize);
    c.latent.turned = keys_.size("qk_rope_head_dim", kMostSize);
    if (keys_.is_gguf()) return read_latent_heads();
    c.head_size = c.latent.turned + keys_.size("qk_nope_head_dim", kMostSize);
    c.value_size = keys_.size("v_head_dim", kMostSize);
    if (c.kv_heads != c.heads)
      throw unsupported_error("'{}' is {} of {} heads, which latent attention does not have. {}",
                              keys_.spelled("num_key_value_heads"), c.kv_heads, c.heads, kOtherWay);
    // Layers behind the last, which guess further tokens.
    const std::int64_t more = keys_.size_or("num_nextn_predict_layers", 0, kMostLayers),
                       count = keys_.size("num_hidden_layers", kMostLayers);
    for (std::int64_t i = 0; i < more; ++i)
      c.left_out.push_back(fmt::format("{}{}.", row_.layer_prefix, count + i));
  }

  /// Newer files say sizes of heads beside those of what llama.cpp's caches hold, which has one
  /// head.
  void read_latent_heads() {
    DecoderConfig& c = config_;
    const bool is_newer = keys_.integer("qk_head_dim").has_value();
    const std::string_view key = is_newer ? "qk_head_dim" : "head_dim";
    c.head_size = keys_.size(key, kMostSize);
    c.value_size = keys_.size(is_newer ? "v_head_dim" : "value_head_dim", kMostSize);
    c.kv_heads = c.heads;
    if (c.head_size <= c.latent.turned)
      throw invalid_model_error("'{}' is {}, of which {} elements are rotated", keys_.spelled(key),
                                c.head_size, c.latent.turned);
  }

  void read_norms() {
    config_.norm = row_.norm;
    // GGUF's converter has added the one.
    if (keys_.is_gguf() && row_.norm == NormKind::kRmsPlusOne) config_.norm = NormKind::kRms;
    const auto epsilon = keys_.number(row_.epsilon_key);
    if (!epsilon && row_.epsilon == 0)
      throw invalid_model_error("'{}' is missing", keys_.spelled(row_.epsilon_key));
    config_.epsilon = epsilon.value_or(row_.epsilon);
    if (config_.epsilon < 0)
      throw invalid_model_error("'{}' is negative", keys_.spelled(row_.epsilon_key));
    config_.residual = row_.residual;
    if (row_.may_be_parallel) {
      const bool is_parallel =
          keys_.flag("use_parallel_residual").value_or(row_.residual == Residual::kParallel);
      if (!is_parallel) config_.residual = Residual::kPre;
      // StableLM's has one norm, GPT-NeoX's two.
      if (is_parallel && row_.residual == Residual::kPre) config_.residual = Residual::kShared;
    }
    config_.head_norms = row_.head_norms;
    if (row_.may_norm_heads) {
      const bool has = keys_.is_gguf() ? weights_.has("blk.0.attn_q_norm.weight")
                                       : keys_.flag("qk_layernorm").value_or(false);
      if (has) config_.head_norms = HeadNorms::kOwn;
    }
  }

  void read_scales() {
    DecoderConfig& c = config_;
    const auto size = static_cast<double>(std::max<std::int64_t>(c.head_size, 1));
    c.score_scale = 1 / std::sqrt(size);
    if (row_.is_latent) c.score_scale *= scale_of_longer_texts();
    if (row_.scales_embedding) c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
    if (row_.has_caps) {
      c.score_cap = keys_.number("attn_logit_softcapping").value_or(0);
      c.logit_cap = keys_.number("final_logit_softcapping").value_or(0);
      if (keys_.is_gguf()) {
        // As llama.cpp: the largest of each is recognised by its layers.
        const bool is_largest = c.layers.size() == (row_.has_local_base ? 62 : 46);
        if (is_largest)
          c.score_scale =
              1 / std::sqrt(static_cast<double>(c.hidden) / static_cast<double>(c.heads));
        if (const auto scale = keys_.number("attention_multiplier")) c.score_scale = *scale;
      } else if (const auto scalar = keys_.number("query_pre_attn_scalar")) {
        if (*scalar <= 0) throw invalid_model_error("'query_pre_attn_scalar' is {}", *scalar);
        c.score_scale = 1 / std::sqrt(*scalar);
      }
    }
    if (row_.has_multipliers) {
      c.embedding_scale = keys_.number("embedding_multiplier").value_or(1);
      c.residual_scale = keys_.number("residual_multiplier").value_or(1);
      const double divisor = keys_.number("logits_scaling").value_or(1);
      if (divisor == 0) throw invalid_model_error("'{}' is 0", keys_.spelled("logits_scaling"));
      c.logit_scale = 1 / divisor;
      const auto scale = keys_.number("attention_multiplier");
      if (!keys_.is_gguf())
        c.score_scale = scale.value_or(1);
      else if (scale && *scale != 0)
        c.score_scale = *scale;
    }
    if (row_.may_clip) c.clip = keys_.number("clip_qkv").value_or(0);
    if (c.score_cap < 0 || c.logit_cap < 0 || c.clip < 0)
      throw invalid_model_error("a cap of scores, logits or q, k, v is negative");
  }

  /// DeepSeek's scale of scores where rotary positions are stretched.
  double scale_of_longer_texts() const {
    // GGUF has a tenth of it.
    const double weight = keys_.number("rope_scaling.mscale_all_dim").value_or(0) *
                          (keys_.is_gguf() ? 10 : 1),
                 factor = keys_.number("rope_scaling.factor").value_or(1);
    if (weight == 0 || factor <= 1) return 1;
    const double magnitude = 0.1 * weight * std::log(factor) + 1;
    return magnitude * magnitude;
  }

  double base(std::string_view key, double standard) const {
    const double base = keys_.number(key).value_or(standard);
    if (base <= 1) throw invalid_model_error("'{}' is {}", keys_.spelled(key), base);
    return base;
  }

  std::int64_t rotated() const {
    if (const std::int64_t turned = config_.latent.turned; turned != 0) {
      if (turned % 2 != 0) throw invalid_model_error("'qk_rope_head_dim' is {}, not even", turned);
      return turned;
    }
    double share = row_.rotated;
    for (const char* key : {"partial_rotary_factor", "rotary_pct"})
      if (row_.rotated != 1 || key == std::string_view("partial_rotary_factor"))
        share = keys_.number(key).value_or(share);
    const auto size = static_cast<double>(config_.head_size);
    std::int64_t count = share > 0 && share <= 1 ? static_cast<std::int64_t>(size * share) : 0;
    if (keys_.is_gguf()) count = keys_.integer("rotary_dimensions").value_or(count);
    if (count < 2 || count % 2 != 0 || count > config_.head_size)
      throw invalid_model_error(
          "{} of the {} elements of a head are rotated: expected an even number", count,
          config_.head_size);
    return count;
  }

  void read_positions() {
    constexpr double kUsual = 10000;
    DecoderConfig& c = config_;
    const std::int64_t turned = rotated();
    const bool has_old_name = !keys_.number("rope_theta") && keys_.number("rotary_emb_base");
    const double theta = base(has_old_name ? "rotary_emb_base" : "rope_theta", kUsual);
    c.rotaries.push_back(
        read_rotary(keys_, weights_, theta, turned, c.positions, row_.truncates_yarn));
    if (row_.has_local_base)
      c.rotaries.push_back(
          {rotary_frequencies(base("rope_local_base_freq", kUsual), turned), {}, 0, 1});
    c.rotates_neighbours = keys_.is_gguf() && row_.rotates_neighbours;
    if (row_.is_latent) c.rotates_neighbours = keys_.flag("rope_interleave").value_or(true);
    const auto count = static_cast<std::int64_t>(c.layers.size());
    const auto types = keys_.texts("layer_types");
    const std::int64_t window = sliding_window(types.has_value());
    const std::int64_t first = keys_.integer("max_window_layers").value_or(0),
                       period = keys_.size_or("sliding_window_pattern",
                                              std::max<std::int64_t>(row_.window_period, 1),
                                              kMostLayers);
    const auto has_window = [&](std::int64_t i) {
      if (types) return (*types)[static_cast<std::size_t>(i)] == "sliding_attention";
      if (row_.windows == Windows::kUpper) return i >= first;
      if (row_.windows == Windows::kPeriodFromFirst) return i % period != 0;
      return row_.windows == Windows::kAll || (i + 1) % period != 0;
    };
    if (types) check_layer_types(*types);
    const auto plain = plain_layers();
    for (std::int64_t i = 0; i < count; ++i) {
      DecoderLayer& layer = c.layers[static_cast<std::size_t>(i)];
      if (window > 0 && has_window(i)) layer.window = window;
      if (!plain[static_cast<std::size_t>(i)])
        layer.rotary = row_.has_local_base && layer.window > 0 ? 1 : 0;
    }
  }

  std::int64_t sliding_window(bool has_types) const {
    if (row_.windows == Windows::kNone && !has_types) return 0;
    const auto window = keys_.integer("sliding_window");
    if (row_.windows == Windows::kUpper && !keys_.flag("use_sliding_window").value_or(false))
      return 0;
    if (!window || *window == 0) return 0;
    const std::int64_t size = keys_.size("sliding_window", kMostPositions);
    return config_.text.is_bidirectional ? size / 2 + 1 : size;  // it is of both sides
  }

  /// GGUF files lack the windows of some architectures, which llama.cpp does without.
  void note_windows() {
    if (std::ranges::any_of(config_.layers, [](const DecoderLayer& layer) { return layer.window; }))
      return;
    // Mistral's files are Llama's by their architecture.
    std::string name = keys_.text("general.name").value_or("");
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const Architecture& row : architectures()) {
      const bool is_named = row.name == row_.name || name.find(row.name) != std::string::npos;
      if (!is_named || row.windows == Windows::kNone || row.windows == Windows::kUpper) continue;
      config_.notes.push_back(
          fmt::format("the file has no sliding window ('{}'), which '{}' has in some versions: a "
                      "token sees all "
                      "before it, as in llama.cpp; the folder that the file was made of says which",
                      keys_.spelled("sliding_window"), row.name));
      return;
    }
  }

  void check_layer_types(const std::vector<std::string>& types) const {
    if (types.size() != config_.layers.size())
      throw invalid_model_error("'layer_types' names {} layers of {}", types.size(),
                                config_.layers.size());
    const auto is_of_states = [&](const std::string& type) {
      return row_.mixer != Mixer::kNone && (type == "linear_attention" || type == "conv" ||
                                            type == "mamba" || type == "attention");
    };
    for (const std::string& type : types)
      if (type != "full_attention" && type != "sliding_attention" && !is_of_states(type))
        throw unsupported_error(
            "'layer_types' has '{}': only attention, full or sliding, is known. {}",
            ir::shown(type), kOtherWay);
  }

  /// Whether a layer has no positions.
  std::vector<bool> plain_layers() const {
    std::vector<bool> plain(config_.layers.size());
    if (row_.mixer != Mixer::kNone) {
      // Granite's hybrids may leave order to their states.
      const std::string kind = keys_.text("position_embedding_type").value_or("rope");
      const bool has =
          row_.has_positions && kind == "rope" && keys_.flag("has_positions").value_or(true);
      if (kind != "rope" && kind != "nope")
        throw unsupported_error("'position_embedding_type' is '{}': expected 'rope' or 'nope'. {}",
                                ir::shown(kind), kOtherWay);
      plain.assign(plain.size(), !has);
    }
    if (row_.plain_period == 0) return plain;
    const auto rotated = keys_.numbers("no_rope_layers");  // 1: has positions
    if (rotated && rotated->size() != plain.size())
      throw invalid_model_error("'no_rope_layers' names {} layers of {}", rotated->size(),
                                plain.size());
    const std::int64_t period =
        keys_.size_or("no_rope_layer_interval", row_.plain_period, kMostLayers);
    for (std::size_t i = 0; i < plain.size(); ++i)
      plain[i] = rotated ? (*rotated)[i] == 0 : (static_cast<std::int64_t>(i) + 1) % period == 0;
    return plain;
  }

  void read_biases() {
    const auto bias = [&](std::string_view key) {
      return key.empty() ? std::nullopt : keys_.flag(key);
    };
    config_.qkv_bias = bias(row_.qkv_bias_key);
    config_.output_bias = bias(row_.output_bias_key);
    config_.mlp_bias = bias(row_.mlp_bias_key);
  }

  void read_quantization() const {
    if (!keys_.text("quantization_config")) return;
    const std::string method = keys_.text("quantization_config.quant_method").value_or("");
    const auto blocks = keys_.numbers("quantization_config.weight_block_size");
    if (method == "mxfp4" && row_.experts != nullptr && row_.experts->is_clamped) return;
    if (method == "fp8" && blocks == std::vector<double>{128, 128}) return;
    throw unsupported_error(
        "'quantization_config' is of '{}': known are 'fp8' in blocks of 128 x 128, and 'mxfp4' of "
        "gpt_oss. {}",
        ir::shown(method), kOtherWay);
  }

  /// A file says which layers are mixtures by the router that they have.
  void read_experts() {
    if (row_.experts == nullptr || (row_.experts->gguf_alone && !keys_.is_gguf())) return;
    const std::int64_t count = keys_.integer(row_.experts->count).value_or(0);
    if (count == 0) return;
    ExpertsConfig& e = config_.experts;
    constexpr std::int64_t kMostExperts = 4096;
    e.count = keys_.size(row_.experts->count, kMostExperts);
    e.chosen = keys_.size("num_experts_per_tok", kMostExperts);
    if (e.chosen > e.count)
      throw invalid_model_error("'{}' is {}, but there are {} experts",
                                keys_.spelled("num_experts_per_tok"), e.chosen, e.count);
    e.intermediate = keys_.size_or(row_.experts->size, config_.intermediate, kMostSize);
    e.shared = keys_.size_or("shared_expert_intermediate_size", 0, kMostSize);
    e.normalises = row_.experts->normalises;
    if (!keys_.is_gguf()) e.normalises = keys_.flag("norm_topk_prob").value_or(e.normalises);
    if (row_.has_shared_mlp) e.shared_has_share = false;
    if (row_.experts->is_clamped) read_clamped(e);
    if (row_.experts->has_groups) read_groups(e);
  }

  void read_clamped(ExpertsConfig& e) {
    constexpr double kUsual = 7;
    e.is_fused = e.by_columns = !keys_.is_gguf();
    e.limit = keys_.number("swiglu_limit").value_or(kUsual);
    if (e.limit <= 0) throw invalid_model_error("'swiglu_limit' is {}", e.limit);
  }

  void read_groups(ExpertsConfig& e) {
    const auto fixed = [&](const char* key, std::string_view only) {
      if (const auto given = keys_.text(key); given && *given != only)
        throw unsupported_error("'{}' is '{}': only '{}' is known. {}", key, ir::shown(*given),
                                only, kOtherWay);
    };
    if (keys_.is_gguf()) {
      constexpr std::int64_t kSigmoid = 2;
      if (const auto given = keys_.integer("scoring_func"); given.value_or(0) != kSigmoid)
        throw unsupported_error("'{}' is {}: only {}, sigmoids, is known. {}",
                                keys_.spelled("scoring_func"),
                                given ? std::to_string(*given) : "missing", kSigmoid, kOtherWay);
      e.normalises = keys_.flag("norm_topk_prob").value_or(false);
    } else {
      fixed("scoring_func", "sigmoid");
      fixed("topk_method", "noaux_tc");
    }
    e.is_sigmoid = e.corrects = true;
    e.shared_has_share = false;
    e.shared = keys_.size_or("n_shared_experts", 0, 64) * e.intermediate;
    e.share_scale = keys_.number("routed_scaling_factor").value_or(1);
    e.groups = keys_.size_or("n_group", 1, e.count);
    e.kept_groups = keys_.size_or("topk_group", 1, e.groups);
    const std::int64_t each = e.count / e.groups;
    if (e.count % e.groups != 0 || (e.groups > 1 && each < 2))
      throw invalid_model_error("'n_group' is {}, which does not divide {} experts into groups",
                                e.groups, e.count);
    if (e.chosen > each * e.kept_groups)
      throw invalid_model_error("'{}' is {}, but there are {} experts in {} groups",
                                keys_.spelled("num_experts_per_tok"), e.chosen,
                                each * e.kept_groups, e.kept_groups);
  }

  Activation activation() const {
    if (keys_.is_gguf()) return row_.activation;
    const auto own = keys_.text(row_.activation_key);
    const std::string name = own.value_or(keys_.text("hidden_activation").value_or(""));
    // Gemma's first files say "gelu" and mean the approximation.
    if (row_.scales_embedding && name.starts_with("gelu")) return Activation::kGeluTanh;
    return name.empty() ? row_.activation : activation_of(row_.activation_key, name);
  }

  const Architecture& row_;
  const ConfigKeys& keys_;
  const TensorFile& weights_;
  DecoderConfig config_;
};

}  // namespace

Activation activation_of(std::string_view key, std::string_view name) {
  constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
      {"gelu", Activation::kGelu},          {"gelu_new", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"relu", Activation::kRelu},          {"relu2", Activation::kSquaredRelu}};
  for (const auto& [known, kind] : kNames)
    if (known == name) return kind;
  throw unsupported_error("'{}' is '{}', which is not known. {}", key, ir::shown(name), kOtherWay);
}

DecoderConfig read_config(const Architecture& architecture, const ConfigKeys& keys,
                          const TensorFile& weights, const TextConfig& text) {
  return ConfigReader(architecture, keys, weights, text).read();
}

}  // namespace sinter::frontend
