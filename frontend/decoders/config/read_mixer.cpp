// SPDX-License-Identifier: Apache-2.0
// Layers without attention: the sizes of their states.
#include <string_view>
#include <vector>

#include "frontend/decoders/config/read_config.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

constexpr std::int64_t kMostTaps = 64;

void read_taps(const ConfigKeys& keys, std::string_view key, MixerConfig& m) {
  m.taps = keys.size(key, kMostTaps);
  if (m.taps < 2) throw invalid_model_error("'{}' is {}: expected 2 or more", keys.spelled(key), 1);
}

/// Bounds of the lengths of steps; what is beyond float32 is none.
void read_steps(const ConfigKeys& keys, MixerConfig& m) {
  constexpr double kNone = 3e38;
  const auto limits = keys.numbers("time_step_limit");
  if (!limits) return;
  if (limits->size() != 2 || !((*limits)[0] <= (*limits)[1]))
    throw invalid_model_error("'time_step_limit' is not a least and a most length");
  m.least_step = (*limits)[0] > 0 ? (*limits)[0] : 0;
  m.most_step = (*limits)[1] < kNone ? (*limits)[1] : 0;
}

void read_mamba(const Architecture& row, const ConfigKeys& keys, MixerConfig& m) {
  m.heads = keys.size("mamba_inner", kMostSize);
  m.key_heads = m.value_size = 1;
  m.key_size = keys.size("mamba_d_state", kMostSize);
  m.step_rank = keys.size("mamba_dt_rank", kMostSize);
  m.norms_operands = row.norms_operands;
  if (keys.is_gguf()) m.norms_operands = keys.flag("mamba_norms_operands").value_or(false);
  m.operand_epsilon =
      keys.number(keys.is_gguf() ? "layer_norm_epsilon" : "mixer_rms_eps").value_or(1e-6);
}

void read_states(const Architecture& row, const ConfigKeys& keys, MixerConfig& m) {
  m.heads = keys.size("mamba_n_heads", kMostHeads);
  m.key_heads = keys.size_or("mamba_n_groups", 1, kMostHeads);
  m.key_size = keys.size("mamba_d_state", kMostSize);
  if (keys.is_gguf()) {
    const std::int64_t inner = keys.size("mamba_inner", kMostSize);
    if (inner % m.heads != 0)
      throw invalid_model_error("'{}' is {}, which is no multiple of {} heads",
                                keys.spelled("mamba_inner"), inner, m.heads);
    m.value_size = inner / m.heads;
  } else {
    m.value_size = keys.size("mamba_d_head", kMostSize);
  }
  if (m.heads % m.key_heads != 0)
    throw invalid_model_error("'{}' is {}, which does not divide {} heads",
                              keys.spelled("mamba_n_groups"), m.key_heads, m.heads);
  m.norms_groups = row.norms_groups || keys.is_gguf();
  if (m.mixer == Mixer::kMamba2) read_steps(keys, m);
}

}  // namespace

void read_mixer(const Architecture& row, const ConfigKeys& keys, DecoderConfig& config) {
  MixerConfig& m = config.mixer;
  m.mixer = row.mixer;
  m.has_logarithms = !keys.is_gguf();
  m.has_bias = keys.flag("mamba_proj_bias");
  // The tensors say which layers have attention, or experts.
  keys.integer("full_attention_interval");
  keys.integer("n_routed_experts");
  keys.integer("num_experts_per_tok");
  read_taps(keys, m.mixer == Mixer::kShortConv ? "conv_L_cache" : "mamba_d_conv", m);
  switch (m.mixer) {
    case Mixer::kNone:
    case Mixer::kShortConv: return;
    case Mixer::kMamba: read_mamba(row, keys, m); break;
    case Mixer::kMamba2:
    case Mixer::kGatedDelta: read_states(row, keys, m); break;
  }
  if (m.values() > kMostSize || m.keys() > kMostSize)
    throw invalid_model_error("states of {} keys and {} values are of more than {}", m.keys(),
                              m.values(), kMostSize);
}

}  // namespace sinter::frontend
