// SPDX-License-Identifier: Apache-2.0
// What a model's authors say of how its texts are drawn: generation_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinter/engine.h>

namespace sinter::tools {

/// What the file does not say is not set.
struct GenerationConfig {
  std::optional<bool> do_sample;  // whether tokens are drawn where nobody says otherwise
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int64_t> top_k, max_new_tokens;
  std::vector<TokenId> stop_tokens;  // eos_token_id

  /// Of the text of the file. Throws Error(kUsage) naming a field that cannot be what it is.
  static GenerationConfig parse(const std::string& json);
  /// generation_config.json beside `file`; nothing in it if there is none.
  static GenerationConfig beside(const std::string& file);

  /// Sets what the file says of draws.
  void apply(SamplingParameters& sampling) const;
};

}  // namespace sinter::tools
