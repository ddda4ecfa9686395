// SPDX-License-Identifier: Apache-2.0
#include "frontend/symbols/exported_ranges.h"

#include <charconv>
#include <map>

#include <onnx.pb.h>

#include "frontend/symbols/inputs.h"

namespace sinter::frontend {

void read_metadata(const onnx::ModelProto& model, ImportOptions& options,
                   std::vector<std::string>& notes) {
  constexpr std::string_view kRange = "sinter.range.", kNote = "sinter.note.";
  for (const auto& entry : model.metadata_props()) {
    if (entry.key().starts_with(kNote)) notes.push_back(entry.value());
    if (!entry.key().starts_with(kRange)) continue;
    const std::string symbol = symbol_name(entry.key().substr(kRange.size()));
    const std::size_t dots = entry.value().find("..");
    const auto read = [&](std::string_view text, std::map<std::string, std::int64_t>& into) {
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error == std::errc() && end == text.data() + text.size() && value >= 0)
        into.emplace(symbol, value);
    };
    if (dots == std::string::npos) continue;
    const std::string_view text = entry.value();
    read(text.substr(0, dots), options.least);
    read(text.substr(dots + 2), options.most);
  }
}

}  // namespace sinter::frontend
