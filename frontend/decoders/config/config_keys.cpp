// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/config/config_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "ir/text/shown.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::frontend {
namespace {

using nlohmann::json;

class JsonKeys : public ConfigKeys {
 public:
  explicit JsonKeys(const std::string& text) {
    try {
      config_ = tools::read_json(with_finite(text), "config.json", tools::kConfigLimits);
    } catch (const Error& error) {
      throw invalid_model_error("{}", error.what());
    }
    if (!config_.is_object()) throw invalid_model_error("config.json is no JSON object");
    spell_as_before();
    spell_infinities();
  }

  std::string spelled(std::string_view key) const override { return std::string(key); }
  bool is_gguf() const override { return false; }

  std::vector<std::string> unread() const override {
    std::vector<std::string> keys;
    for (const auto& [key, value] : config_.items()) {
      const bool is_neutral = value.is_null() || value == false || value == 0 || value == 1 ||
                              ((value.is_array() || value.is_object()) && value.empty());
      if (!read_.contains(key) && !is_neutral) keys.push_back(key);
    }
    return keys;
  }

 protected:
  std::optional<Value> find(std::string_view key) const override {
    const json* at = &config_;
    for (std::string_view rest = key; !rest.empty();) {
      const std::size_t dot = std::min(rest.find('.'), rest.size());
      const auto member = at->is_object() ? at->find(rest.substr(0, dot)) : at->end();
      if (!at->is_object() || member == at->end()) return std::nullopt;
      at = &*member;
      rest.remove_prefix(std::min(dot + 1, rest.size()));
    }
    return value_of(*at);
  }

 private:
  /// Python writes Infinity, which JSON does not have: as the largest number.
  static std::string with_finite(const std::string& text) {
    constexpr std::string_view kInfinity = "Infinity", kLargest = "1.7976931348623157e308";
    if (text.find(kInfinity) == std::string::npos) return text;
    std::string result;
    bool is_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (!is_string && text.compare(i, kInfinity.size(), kInfinity) == 0) {
        result += kLargest;
        i += kInfinity.size() - 1;
        continue;
      }
      if (text[i] == '"') is_string = !is_string;
      result += text[i];
      if (is_string && text[i] == '\\' && i + 1 < text.size()) result += text[++i];
    }
    return result;
  }

  /// transformers 5 has "rope_parameters", for all layers or for each kind of them, in place of
  /// "rope_scaling", "rope_theta", "partial_rotary_factor" and "rope_local_base_freq".
  void spell_as_before() {
    const auto found = config_.find("rope_parameters");
    if (found == config_.end() || !found->is_object()) return;
    json all = *found;
    config_.erase(found);
    if (const auto local = all.find("sliding_attention"); local != all.end() && local->is_object())
      if (const auto base = local->find("rope_theta"); base != local->end())
        config_["rope_local_base_freq"] = *base;
    if (const auto global = all.find("full_attention"); global != all.end()) {
      json own = *global;
      all = std::move(own);
    }
    for (const char* key :
         {"rope_theta", "partial_rotary_factor", "original_max_position_embeddings"})
      if (all.is_object() && all.contains(key) && !config_.contains(key) &&
          (key != std::string_view("original_max_position_embeddings") ||
           all.value("rope_type", "") == "longrope"))
        config_[key] = all[key];
    config_["rope_scaling"] = std::move(all);
  }

  /// transformers 5 writes what JSON has no number for as {"__float__": "Infinity"}.
  void spell_infinities() {
    const auto limits = config_.find("time_step_limit");
    if (limits == config_.end() || !limits->is_array()) return;
    for (json& each : *limits)
      if (each.is_object() && each.value("__float__", "") == "Infinity")
        each = std::numeric_limits<double>::max();
  }

  /// What is an object is there.
  static std::optional<Value> value_of(const json& value) {
    if (value.is_null()) return std::nullopt;
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)
      return value.get<double>();
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return "{..}";
    const auto all = [&](auto is) { return std::ranges::all_of(value, is); };
    if (all([](const json& each) { return each.is_number(); }))
      return value.get<std::vector<double>>();
    if (all([](const json& each) { return each.is_string(); }))
      return value.get<std::vector<std::string>>();
    return "[..]";
  }

  json config_;
};

/// config.json's name, and GGUF's behind the architecture.
constexpr std::array<std::pair<std::string_view, std::string_view>, 61> kGgufNames = {{
    {"hidden_size", "embedding_length"},
    {"num_hidden_layers", "block_count"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"value_head_dim", "attention.value_length"},
    {"intermediate_size", "feed_forward_length"},
    {"vocab_size", "vocab_size"},
    {"max_position_embeddings", "context_length"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"layer_norm_eps", "attention.layer_norm_epsilon"},
    {"norm_epsilon", "attention.layer_norm_epsilon"},
    {"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"},
    {"norm_eps", "attention.layer_norm_rms_epsilon"},
    {"rope_theta", "rope.freq_base"},
    {"rotary_emb_base", "rope.freq_base"},
    {"rope_local_base_freq", "rope.freq_base_swa"},
    {"rotary_dimensions", "rope.dimension_count"},
    {"rope_scaling.rope_type", "rope.scaling.type"},
    {"rope_scaling.factor", "rope.scaling.factor"},
    {"rope_scaling.original_max_position_embeddings", "rope.scaling.original_context_length"},
    {"rope_scaling.attention_factor", "rope.scaling.attn_factor"},
    {"rope_scaling.beta_fast", "rope.scaling.yarn_beta_fast"},
    {"rope_scaling.beta_slow", "rope.scaling.yarn_beta_slow"},
    {"sliding_window", "attention.sliding_window"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"embedding_multiplier", "embedding_scale"},
    {"residual_multiplier", "residual_scale"},
    {"logits_scaling", "logit_scale"},
    {"attention_multiplier", "attention.scale"},
    {"clip_qkv", "attention.clamp_kqv"},
    {"use_parallel_residual", "use_parallel_residual"},
    {"num_experts", "expert_count"},
    {"num_local_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"full_attention_interval", "full_attention_interval"},
    {"conv_L_cache", "shortconv.l_cache"},
    {"mamba_d_conv", "ssm.conv_kernel"},
    {"mamba_inner", "ssm.inner_size"},
    {"mamba_d_state", "ssm.state_size"},
    {"mamba_n_heads", "ssm.time_step_rank"},
    {"mamba_dt_rank", "ssm.time_step_rank"},
    {"mamba_n_groups", "ssm.group_count"},
    {"mamba_norms_operands", "ssm.dt_b_c_rms"},
    {"has_positions", "rope.scaling.finetuned"},
    {"n_routed_experts", "expert_count"},
    {"n_shared_experts", "expert_shared_count"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"norm_topk_prob", "expert_weights_norm"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"scoring_func", "expert_gating_func"},
    {"q_lora_rank", "attention.q_lora_rank"},
    {"kv_lora_rank", "attention.kv_lora_rank"},
    {"qk_rope_head_dim", "rope.dimension_count"},
    {"qk_head_dim", "attention.key_length_mla"},
    {"v_head_dim", "attention.value_length_mla"},
    {"rope_scaling.mscale_all_dim", "rope.scaling.yarn_log_multiplier"},
}};

class GgufKeys : public ConfigKeys {
 public:
  explicit GgufKeys(const GgufFile& file) : file_(file), prefix_(std::string(file.architecture())) {
    prefix_ += ".";
  }

  std::string spelled(std::string_view key) const override {
    const auto name =
        std::ranges::find(kGgufNames, key, [](const auto& pair) { return pair.first; });
    return name == kGgufNames.end() ? std::string(key) : prefix_ + std::string(name->second);
  }
  bool is_gguf() const override { return true; }

  /// Keys of the architecture: others are of the tokenizer or say who made the file.
  std::vector<std::string> unread() const override {
    std::vector<std::string> keys;
    for (const std::string_view key : file_.keys()) {
      if (!key.starts_with(prefix_) || read_.contains(key)) continue;
      const auto value = file_.find(key);
      const bool is_neutral = value == GgufValue(false) || value == GgufValue(std::int64_t{0}) ||
                              value == GgufValue(0.0) || value == GgufValue(1.0);
      if (!is_neutral) keys.emplace_back(key);
    }
    return keys;
  }

 protected:
  std::optional<Value> find(std::string_view key) const override {
    if (key == "model_type") return std::string(file_.architecture());
    if (key == "general.name") {  // for people
      const auto name = file_.find(key);
      const auto* const text = name ? std::get_if<std::string_view>(&*name) : nullptr;
      return text == nullptr ? std::nullopt : std::optional<Value>(std::string(*text));
    }
    const std::string name = spelled(key);
    if (name == key) return std::nullopt;  // GGUF has no such key
    read_.insert(name);
    const auto value = file_.find(name);
    if (!value) return std::nullopt;
    return std::visit(
        [](const auto& each) -> Value {
          using T = std::decay_t<decltype(each)>;
          if constexpr (std::is_same_v<T, std::string_view>)
            return std::string(each);
          else if constexpr (std::is_same_v<T, std::vector<std::string_view>>)
            return std::vector<std::string>(each.begin(), each.end());
          else if constexpr (std::is_same_v<T, std::vector<std::int64_t>> ||
                             std::is_same_v<T, std::vector<bool>>)
            return std::vector<double>(each.begin(), each.end());
          else
            return each;
        },
        *value);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace

std::optional<ConfigKeys::Value> ConfigKeys::get(std::string_view key) const {
  for (const auto& [ours, own] : names_) {
    if (ours != key) continue;
    read_.insert(std::string(own));
    if (auto value = find(own)) return value;
  }
  read_.insert(std::string(key.substr(0, key.find('.'))));
  return find(key);
}

void ConfigKeys::refuse(std::string_view key, std::string_view wanted) const {
  throw invalid_model_error("'{}' is not {}", ir::shown(spelled(key)), wanted);
}

std::optional<bool> ConfigKeys::flag(std::string_view key) const {
  const auto value = get(key);
  if (!value) return std::nullopt;
  if (const bool* is = std::get_if<bool>(&*value)) return *is;
  refuse(key, "true or false");
}

std::optional<std::int64_t> ConfigKeys::integer(std::string_view key) const {
  const auto value = get(key);
  if (!value) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&*value)) return *whole;
  constexpr double kLargest = 9e15;
  if (const auto* real = std::get_if<double>(&*value);
      real != nullptr && std::abs(*real) <= kLargest && *real == std::floor(*real))
    return static_cast<std::int64_t>(*real);
  refuse(key, "an integer");
}

std::optional<std::int64_t> ConfigKeys::largest(std::string_view key) const {
  const auto value = get(key);
  if (!value || !std::holds_alternative<std::vector<double>>(*value)) return integer(key);
  double largest = 0;
  for (const double each : std::get<std::vector<double>>(*value)) {
    if (each == 0) continue;
    if (largest != 0 && each != largest) refuse(key, "the same number for all layers that have it");
    largest = each;
  }
  if (largest < 0 || largest > static_cast<double>(kMostSize)) refuse(key, "a list of sizes");
  return static_cast<std::int64_t>(largest);
}

std::optional<double> ConfigKeys::number(std::string_view key) const {
  const auto value = get(key);
  if (!value) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&*value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&*value); real != nullptr && std::isfinite(*real))
    return *real;
  refuse(key, "a number");
}

std::optional<std::string> ConfigKeys::text(std::string_view key) const {
  const auto value = get(key);
  if (!value) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&*value)) return *text;
  refuse(key, "a text");
}

std::optional<std::vector<double>> ConfigKeys::numbers(std::string_view key) const {
  const auto value = get(key);
  if (!value) return std::nullopt;
  if (const auto* all = std::get_if<std::vector<double>>(&*value)) return *all;
  refuse(key, "a list of numbers");
}

std::optional<std::vector<std::string>> ConfigKeys::texts(std::string_view key) const {
  const auto value = get(key);
  if (!value) return std::nullopt;
  if (const auto* all = std::get_if<std::vector<std::string>>(&*value)) return *all;
  if (const auto* none = std::get_if<std::vector<double>>(&*value);
      none != nullptr && none->empty())
    return std::vector<std::string>();
  refuse(key, "a list of texts");
}

std::int64_t ConfigKeys::size(std::string_view key, std::int64_t most) const {
  const auto value = integer(key);
  if (!value) throw invalid_model_error("'{}' is missing", spelled(key));
  if (*value < 1 || *value > most)
    throw invalid_model_error("'{}' is {}: expected 1 to {}", spelled(key), *value, most);
  return *value;
}

std::int64_t ConfigKeys::size_or(std::string_view key, std::int64_t fallback,
                                 std::int64_t most) const {
  return integer(key) ? size(key, most) : fallback;
}

std::unique_ptr<ConfigKeys> keys_of_json(const std::string& text) {
  return std::make_unique<JsonKeys>(text);
}

std::unique_ptr<ConfigKeys> keys_of_gguf(const GgufFile& file) {
  return std::make_unique<GgufKeys>(file);
}

}  // namespace sinter::frontend
