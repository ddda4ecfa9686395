// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/models/embedding_files.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/ranges.h>

#include "frontend/decoders/files/safetensors.h"
#include "ir/text/shown.h"
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
  return read_json(files::read_file(path.string(), "", kMostConfigBytes),
                   fmt::format("'{}'", path.string()), kConfigLimits);
}

std::string text_in(const json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

/// Keeps a pooling that is chosen.
void take_pooling(const fs::path& path, EmbeddingFiles& files) {
  const json config = read(path);
  std::vector<std::string> wanted;
  if (config.is_object()) {
    if (const std::string mode = text_in(config, "pooling_mode"); !mode.empty())
      wanted.push_back(mode);
    else
      for (const auto& [key, value] : config.items())
        if (key.starts_with("pooling_mode_") && value == true) wanted.push_back(key);
    files.includes_prompt = config.value("include_prompt", json(true)) != false;
  }
  if (files.pooling) return;
  if (wanted.size() == 1)
    for (const PoolingName& name : pooling_names())
      if (wanted[0] == name.file || wanted[0] == name.flag) {
        files.pooling = name.kind;
        return;
      }
  throw usage_error("'{}' wants {}, which is not known (--pooling chooses one of {})",
                    path.string(),
                    wanted.size() == 1 ? ir::shown(wanted[0]) : "no pooling, or several",
                    fmt::join(pooling_options(), ", "));
}

std::vector<float> floats(const ir::Tensor& tensor) {
  const ir::HeldBytes held = tensor.hold();
  std::vector<float> values(tensor.byte_count() / size_of(tensor.dtype()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(
        ir::load_as_double(tensor.dtype(), held.bytes.data() + i * size_of(tensor.dtype())));
  return values;
}

DenseLayer dense_in(const fs::path& folder) {
  const fs::path config_path = folder / "config.json", weights_path = folder / "model.safetensors";
  const json config = read(config_path);
  if (!config.is_object()) throw usage_error("'{}' is missing", config_path.string());
  for (const char* key : {"module_input_name", "module_output_name"})
    if (const std::string name = text_in(config, key);
        !name.empty() && name != "sentence_embedding")
      throw usage_error("'{}' has the {} '{}': only sentence_embedding is known",
                        config_path.string(), key, ir::shown(name));
  std::error_code none;
  if (!fs::is_regular_file(weights_path, none))
    throw usage_error("'{}' is missing: weights of a Dense module are read of safetensors alone",
                      weights_path.string());
  const auto tensors = frontend::read_safetensors(weights_path.string());
  const auto matrix = [&](const char* name) -> const ir::Tensor& {
    const auto found = tensors.find(name);
    if (found == tensors.end() || found->second.shape().size() != 2 ||
        !is_arithmetic_float(found->second.dtype()))
      throw usage_error("'{}' has no matrix '{}'", weights_path.string(), name);
    return found->second;
  };
  DenseLayer layer;
  const ir::Tensor& weights = matrix("linear.weight");
  layer.outputs = static_cast<std::size_t>(weights.shape()[0]);
  layer.inputs = static_cast<std::size_t>(weights.shape()[1]);
  layer.weights = floats(weights);
  if (const auto bias = tensors.find("linear.bias"); bias != tensors.end()) {
    if (bias->second.shape() != ir::Ints{weights.shape()[0]} ||
        !is_arithmetic_float(bias->second.dtype()))
      throw usage_error("'{}' has a 'linear.bias' that does not fit", weights_path.string());
    layer.bias = floats(bias->second);
  }
  layer.has_residual = config.value("use_residual", json(false)) == true;
  if (layer.has_residual && layer.inputs != layer.outputs) {
    const ir::Tensor& residual = matrix("residual.weight");
    if (residual.shape() != weights.shape())
      throw usage_error("'{}' has a 'residual.weight' that does not fit", weights_path.string());
    layer.residual = floats(residual);
  }
  layer.activation = with_context(fmt::format("'{}'", config_path.string()), [&] {
    return dense_activation(text_in(config, "activation_function"));
  });
  return layer;
}

void take_lengths(const json& config, EmbeddingFiles& files) {
  if (!config.is_object()) return;
  if (const auto most = config.find("max_seq_length");
      most != config.end() && most->is_number_unsigned() && *most > 0)
    files.max_tokens = most->get<std::size_t>();
}

PairMessages pairs_of(const json& config) {
  PairMessages pairs;
  if (!config.is_object()) return pairs;
  const json::json_pointer format("/modality_config/message/format"),
      asks("/processing_kwargs/chat_template/add_generation_prompt");
  pairs.has_parts = config.contains(format) && config[format] == "structured";
  pairs.asks = config.contains(asks) && config[asks] == true;
  return pairs;
}

void take_prompts(const json& config, EmbeddingFiles& files) {
  if (!config.is_object()) return;
  if (const auto prompts = config.find("prompts"); prompts != config.end() && prompts->is_object())
    for (const auto& [name, text] : prompts->items())
      if (text.is_string()) files.prompts.emplace(name, text.get<std::string>());
  if (const std::string name = text_in(config, "default_prompt_name"); files.prompts.contains(name))
    files.default_prompt = name;
}

}  // namespace

EmbeddingFiles EmbeddingFiles::in(const std::string& folder, std::string_view pooling) {
  EmbeddingFiles files;
  if (!pooling.empty()) files.pooling = pooling_of(pooling);
  if (folder.empty()) return files;
  const fs::path path(folder);
  const json lengths = read(path / "sentence_bert_config.json");
  take_lengths(lengths, files);
  take_prompts(read(path / "config_sentence_transformers.json"), files);
  const json modules = read(path / "modules.json");
  if (!modules.is_array()) return files;
  files.normalizes = false;
  for (const json& module : modules) {
    if (!module.is_object()) continue;
    const std::string type = text_in(module, "type");
    const std::string kind = type.substr(type.rfind('.') + 1);
    const fs::path own = path / text_in(module, "path");
    if (kind == "Pooling")
      take_pooling(own / "config.json", files);
    else if (kind == "Normalize")
      files.normalizes = true;
    else if (kind == "Dense")
      files.dense.push_back(dense_in(own));
    else if (kind == "LogitScore")
      files.pairs = pairs_of(lengths);
    else if (kind != "Transformer")
      throw usage_error("'{}' has the module {}, which is unknown: compile it into the model",
                        (path / "modules.json").string(), ir::shown(type));
    if (files.normalizes == true && kind == "Dense")
      throw usage_error("'{}' has a Dense behind a Normalize, which is not known",
                        (path / "modules.json").string());
  }
  return files;
}

const std::string& EmbeddingFiles::prompt(const std::optional<std::string>& name) const {
  static const std::string none;
  const auto& wanted = name ? name : default_prompt;
  if (!wanted) return none;
  const auto found = prompts.find(*wanted);
  if (found != prompts.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [own, text] : prompts) names.push_back(ir::shown(own));
  throw usage_error("'{}' is no prompt of the model: {}", ir::shown(*wanted),
                    names.empty() ? "its config_sentence_transformers.json has none"
                                  : fmt::format("those of config_sentence_transformers.json are {}",
                                                fmt::join(names, ", ")));
}

std::size_t EmbeddingFiles::skipped(const Tokenizer& tokenizer, const std::string& prompt) const {
  if (includes_prompt || prompt.empty()) return 0;
  const auto ids = tokenizer.encode(prompt);
  // As sentence-transformers counts them: without a token that ends the text.
  return ids.size() - (tokenizer.is_special(ids.back()) ? 1 : 0);
}

}  // namespace sinter::tools
