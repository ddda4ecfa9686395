// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/models/embedding_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Null if there is no such file.
json read(const fs::path& path) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return nullptr;
  return read_json(files::read_file(path.string()), fmt::format("'{}'", path.string()));
}

Pooling pooling_in(const fs::path& path) {
  const json config = read(path);
  std::string wanted;
  int count = 0;
  if (config.is_object())
    for (const auto& [key, value] : config.items())
      if (key.starts_with("pooling_mode_") && value == true) {
        wanted = key;
        ++count;
      }
  if (count == 1 && wanted == "pooling_mode_mean_tokens") return Pooling::kMean;
  if (count == 1 && wanted == "pooling_mode_cls_token") return Pooling::kFirst;
  throw usage_error("'{}' wants {}: mean and the first token's are known (--pooling chooses one)",
                    path.string(), count == 1 ? wanted : "no pooling, or several");
}

}  // namespace

EmbeddingFiles EmbeddingFiles::in(const std::string& folder) {
  EmbeddingFiles files;
  if (folder.empty()) return files;
  const fs::path path(folder);
  const json lengths = read(path / "sentence_bert_config.json");
  if (lengths.is_object() && lengths.contains("max_seq_length")) {
    const json& most = lengths["max_seq_length"];
    if (most.is_number_unsigned() && most > 0) files.max_tokens = most.get<std::size_t>();
  }
  const json modules = read(path / "modules.json");
  if (!modules.is_array()) return files;
  files.normalizes = false;
  for (const json& module : modules) {
    if (!module.is_object()) continue;
    const std::string type = module.value("type", "");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Pooling")
      files.pooling = pooling_in(path / module.value("path", "") / "config.json");
    else if (kind == "Normalize")
      files.normalizes = true;
    else if (kind != "Transformer")
      throw usage_error("'{}' has the module {}, which is unknown: compile it into the model",
                        (path / "modules.json").string(), type);
  }
  return files;
}

}  // namespace sinter::tools
