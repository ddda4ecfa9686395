// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/known_models.h"

#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "frontend/decoders/config/encoder_config.h"
#include "frontend/decoders/speech_graph.h"
#include "ir/text/shown.h"
#include "runtime/format_error.h"

namespace sinter::frontend {

const Architecture& architecture_of(const ConfigKeys& keys) {
  const auto name = keys.text("model_type");
  if (!name)
    throw invalid_model_error("config.json has no 'model_type', which names the architecture");
  if (const Architecture* row = find_architecture(*name, keys.is_gguf())) return *row;
  std::vector<std::string_view> known;
  for (const Architecture& row : architectures())
    if (const auto own = keys.is_gguf() ? row.gguf : row.name; !own.empty()) known.push_back(own);
  if (!keys.is_gguf())
    for (const EncoderRow& row : encoder_rows()) known.push_back(row.name);
  if (!keys.is_gguf()) known.push_back(kSpeechModel);
  throw unsupported_error("architecture '{}' is not known; known are {}. {}",
                          ir::shown(name->substr(0, 100)), fmt::join(known, ", "), kOtherWay);
}

}  // namespace sinter::frontend
