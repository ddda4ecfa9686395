// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/config/text_use.h"

#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "ir/text/shown.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::frontend {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModules = "modules.json";

/// Null if there is no such file.
json read(const fs::path& path) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return nullptr;
  if (fs::file_size(path, none) > tools::kMostConfigBytes)
    throw invalid_model_error("'{}' has more than {} bytes", path.string(),
                              tools::kMostConfigBytes);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return tools::read_json(text, fmt::format("'{}'", path.string()), tools::kConfigLimits);
  } catch (const Error& error) {
    throw invalid_model_error("{}", error.what());
  }
}

struct Module {
  std::string kind;  // the last part of its class
  fs::path folder;
};

std::vector<Module> modules_of(const fs::path& folder) {
  std::vector<Module> found;
  const json modules = read(folder / kModules);
  if (!modules.is_array()) return found;
  const auto text = [](const json& module, const char* key) {
    const auto at = module.find(key);
    return at != module.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  for (const json& module : modules) {
    if (!module.is_object()) continue;
    const std::string type = text(module, "type");
    found.push_back({type.substr(type.rfind('.') + 1), folder / text(module, "path")});
  }
  return found;
}

std::int64_t token(const json& config, const char* key, std::int64_t otherwise,
                   const fs::path& path) {
  const auto at = config.find(key);
  if (at == config.end() || at->is_null()) return otherwise;
  if (!at->is_number_unsigned() || *at >= kMostTokens)
    throw invalid_model_error("'{}' has the '{}' {}, which is no token", path.string(), key,
                              ir::shown(at->dump()));
  return at->get<std::int64_t>();
}

}  // namespace

std::vector<std::string> text_use_files(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code none;
  const auto add = [&](const fs::path& path) {
    if (fs::is_regular_file(path, none)) files.push_back(path.string());
  };
  add(folder / kModules);
  for (const Module& module : modules_of(folder))
    if (module.kind == "LogitScore") add(module.folder / "config.json");
  return files;
}

TextConfig text_use(const fs::path& folder, const Architecture& row, const ConfigKeys& keys) {
  TextConfig text;
  const auto names = keys.texts("architectures").value_or(std::vector<std::string>());
  const std::string name = names.empty() ? "" : names.front();
  if (name.ends_with("ForSequenceClassification")) {
    text.use = TextUse::kLabels;
    return text;
  }
  if (row.is_encoder || name.ends_with("Model")) text.use = TextUse::kVectors;
  for (const Module& module : modules_of(folder)) {
    if (module.kind == "Pooling") text.use = TextUse::kVectors;
    if (module.kind != "LogitScore") continue;
    const fs::path path = module.folder / "config.json";
    const json config = read(path);
    if (!config.is_object()) throw invalid_model_error("'{}' is missing", path.string());
    text.use = TextUse::kAnswer;
    text.yes = token(config, "true_token_id", -1, path);
    text.no = token(config, "false_token_id", -1, path);
    if (text.yes < 0) throw invalid_model_error("'{}' has no 'true_token_id'", path.string());
  }
  return text;
}

void read_text(const Architecture& row, const ConfigKeys& keys, DecoderConfig& config) {
  TextConfig& text = config.text;
  config.norms_embedding = row.norms_embedding;
  if (text.use == TextUse::kNextToken) return;
  text.is_bidirectional =
      row.is_encoder || keys.flag("use_bidirectional_attention").value_or(false);
  if (text.use != TextUse::kAnswer) config.left_out.emplace_back("lm_head.");
  if (!row.is_encoder) return;
  config.left_out.emplace_back("decoder.");  // of training
  if (text.use != TextUse::kLabels) {
    config.left_out.emplace_back("head.");
    return;
  }
  const auto choose = [&](const char* key, std::string_view first, std::string_view second) {
    const std::string own = keys.text(key).value_or(std::string(first));
    if (own != first && own != second)
      throw unsupported_error("'{}' is '{}', which is not known. {}", key, ir::shown(own),
                              kOtherWay);
    return own == first;
  };
  text.has_dense = true;
  text.pooling =
      choose("classifier_pooling", "cls", "mean") ? TextPooling::kFirst : TextPooling::kMean;
  choose("classifier_activation", "gelu", "gelu");
}

}  // namespace sinter::frontend
