// SPDX-License-Identifier: Apache-2.0
// What a model's authors say of how its texts are drawn: generation_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinter/engine.h>

namespace sinter::tools {

/// What the file does not say is not set.
struct GenerationConfig {
  std::optional<bool> do_sample;  // whether tokens are drawn where nobody says otherwise
  std::vector<std::pair<const SamplingRow*, double>> draws;  // SamplingRow::in_config
  std::optional<std::int64_t> max_new_tokens, decoder_start_token;
  std::vector<TokenId> stop_tokens;  // eos_token_id

  /// Of the text of the file. Throws Error(kUsage) naming a field that cannot be what it is.
  static GenerationConfig parse(const std::string& json);
  /// generation_config.json beside `file`; nothing in it if there is none.
  static GenerationConfig beside(const std::string& file);

  /// Sets what the file says of draws.
  void apply(SamplingParameters& sampling) const;
};

}  // namespace sinter::tools
