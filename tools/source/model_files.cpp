// SPDX-License-Identifier: Apache-2.0
#include "tools/source/model_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include <fmt/ranges.h>

#include "frontend/decoders/config/text_use.h"
#include "frontend/decoders/files/ct2.h"
#include "frontend/decoders/files/gguf.h"
#include "frontend/decoders/speech_graph.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/compiler/inspect/plan_report.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace fs = std::filesystem;

namespace {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kExport =
    "`pip install 'pysinter[export]'`, then `python -m pysinter.export {} -o FOLDER`, makes one";

bool is_file(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

/// The first of `names` in `folder` that exists.
std::string first_of(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (is_file(folder / name)) return (folder / name).string();
  return "";
}

/// What keeps a folder from being a model's, behind a semicolon: links to nothing, downloads that
/// have not ended, and what an index names.
std::string unusable_in(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (!has(".safetensors") && !has(".gguf") && !has(".onnx") && name != "config.json") continue;
    if (name.ends_with(".incomplete") || name.ends_with(".part"))
      found.push_back(fmt::format("'{}' is a download that has not ended", name));
    else if (entry.is_symlink(none) && !fs::exists(entry.path(), none))
      found.push_back(fmt::format("'{}' is a link to nothing", name));
    else if (name.ends_with(".index.json"))
      found.push_back(fmt::format("the files that '{}' names are not there", name));
    else if (!is_file(entry.path()))
      found.push_back(fmt::format("'{}' is no regular file", name));
  }
  std::ranges::sort(found);
  constexpr std::size_t kShown = 3;
  found.resize(std::min(found.size(), kShown));
  return found.empty() ? "" : fmt::format("; {}", fmt::join(found, ", "));
}

/// Whether all files are parts of one GGUF model: "x-00001-of-00003.gguf".
bool are_parts(const std::vector<std::string>& ggufs) {
  constexpr std::size_t kEnd = std::string_view("-00001-of-00003.gguf").size();
  return std::ranges::all_of(ggufs, [&](const std::string& file) {
    return file.size() > kEnd && file.substr(file.size() - kEnd + 6, 4) == "-of-" &&
           file.compare(0, file.size() - kEnd, ggufs[0], 0, ggufs[0].size() - kEnd) == 0;
  });
}

std::vector<std::string> files_with(const fs::path& folder, std::string_view ending) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error))
    if (file.path().string().ends_with(ending) && is_file(file.path()))
      found.push_back(file.path().string());
  if (error) throw usage_error("'{}' cannot be read: {}", folder.string(), error.message());
  std::ranges::sort(found);
  return found;
}

/// tokenizer.json beside a file, or above it where it lies in the folder `onnx`.
std::string tokenizer_of(const fs::path& file) {
  const fs::path folder = fs::absolute(file).parent_path();
  if (std::string own = first_of(folder, {kTokenizer}); !own.empty()) return own;
  return folder.filename() == "onnx" ? first_of(folder.parent_path(), {kTokenizer}) : "";
}

/// What config.json says of the kind of a model.
struct Kind {
  bool has_config = false, generates = false, is_pair = false;
  bool is_speech = false;  // of the pairs that are made of weights
  bool sees = false;       // images, too
};

Kind kind_of(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  Kind kind;
  if (!is_file(path)) return kind;
  const nlohmann::json config = read_json(files::read_file(path.string(), "", kMostConfigBytes),
                                          fmt::format("'{}'", path.string()), kConfigLimits);
  if (!config.is_object()) throw usage_error("'{}' is no JSON object", path.string());
  kind.has_config = true;
  if (const auto pair = config.find("is_encoder_decoder");
      pair != config.end() && pair->is_boolean())
    kind.is_pair = pair->get<bool>();
  kind.sees = config.contains("vision_config");
  if (const auto type = config.find("model_type"); type != config.end() && type->is_string())
    kind.is_speech = type->get_ref<const std::string&>() == frontend::kSpeechModel;
  const auto names = config.find("architectures");
  if (names != config.end() && names->is_array())
    for (const auto& name : *names)
      if (name.is_string())
        for (const char* ending : {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel"})
          kind.generates |= name.get_ref<const std::string&>().ends_with(ending);
  return kind;
}

void take_gguf(const fs::path& file, ModelFiles& found) {
  found.model = file.string();
  found.is_gguf = true;
  found.sources = {found.model};
}

void take_onnx(const std::string& file, ModelFiles& found) {
  found.model = file;
  found.sources = {file};
}

void take_weights(const fs::path& folder, const std::vector<std::string>& weights,
                  ModelFiles& found) {
  found.model = folder.string();
  found.sources = weights;
  for (const char* name : {"config.json", "model.safetensors.index.json"})
    if (is_file(folder / name)) found.sources.push_back((folder / name).string());
  for (const std::string& file : frontend::text_use_files(folder)) found.sources.push_back(file);
}

/// NeMo's spelling (onnx-asr), or sherpa-onnx's, also with 8-bit weights. False for other folders.
bool take_transducer(const fs::path& folder, ModelFiles& found) {
  for (const char* ending : {".onnx", ".int8.onnx", ".fp16.onnx"}) {
    const auto file = [&](const char* name) {
      return first_of(folder, {(name + std::string(ending)).c_str()});
    };
    std::string encoder = file("encoder-model");
    std::vector<std::string> networks = {file("decoder_joint-model")};
    if (encoder.empty()) {
      encoder = file("encoder");
      networks = {file("decoder"), file("joiner")};
    }
    if (encoder.empty() || std::ranges::any_of(networks, &std::string::empty)) continue;
    found.tokenizer = first_of(folder, {"vocab.txt", "tokens.txt"});
    if (found.tokenizer.empty())
      throw usage_error("'{}' is a transducer, and has neither vocab.txt nor tokens.txt",
                        folder.string());
    take_onnx(encoder, found);
    found.networks = networks[0];
    found.sources.insert(found.sources.end(), networks.begin(), networks.end());
    return true;
  }
  return false;
}

ModelFiles find_in_folder(const fs::path& folder, ModelUse use) {
  ModelFiles found;
  found.folder = folder.string();
  found.tokenizer = first_of(folder, {kTokenizer});
  const Kind kind = kind_of(folder);
  if (found.plan = first_of(folder, {"model.plan"}); !found.plan.empty()) return found;
  if (frontend::is_ct2(folder)) {
    take_weights(folder, {(folder / "model.bin").string()}, found);
    found.encoder = found.model;
    found.features = first_of(folder, {"preprocessor_config.json"});
    return found;
  }
  const auto part_of = [&](const char* name) {
    return first_of(folder, {name, ("onnx/" + std::string(name)).c_str()});
  };
  if (found.encoder = kind.sees ? part_of("vision_encoder.onnx") : ""; !found.encoder.empty()) {
    const auto part = [&](const char* name) {
      std::string file = part_of(name);
      if (file.empty())
        throw usage_error(
            "'{}' is a model of images and texts, and has no {}: it is taken as "
            "vision_encoder.onnx, "
            "embed_tokens.onnx and decoder_model_merged.onnx, beside preprocessor_config.json",
            folder.string(), name);
      return file;
    };
    found.embeddings = part("embed_tokens.onnx");
    take_onnx(part("decoder_model_merged.onnx"), found);
    found.sources.push_back(found.embeddings);
    found.features = first_of(folder, {"preprocessor_config.json"});
    if (found.features.empty())
      throw usage_error("'{}' has no preprocessor_config.json, which says what its images are",
                        folder.string());
    return found;
  }
  if (take_transducer(folder, found)) return found;
  if (kind.is_pair) {
    found.encoder = first_of(folder, {"encoder_model.onnx", "onnx/encoder_model.onnx"});
    const std::string decoder =
        first_of(folder, {"decoder_model_merged.onnx", "onnx/decoder_model_merged.onnx"});
    if (const auto weights = files_with(folder, ".safetensors");
        (found.encoder.empty() || decoder.empty()) && kind.is_speech && !weights.empty()) {
      take_weights(folder, weights, found);
      found.encoder = found.model;
      found.features = first_of(folder, {"preprocessor_config.json"});
      return found;
    }
    if (found.encoder.empty() || decoder.empty())
      throw usage_error(
          "'{0}' is a model of an encoder and a decoder, and has no encoder_model.onnx and "
          "decoder_model_merged.onnx, as Optimum writes them: {1}",
          folder.string(), fmt::format(fmt::runtime(kExport), folder.string()));
    take_onnx(decoder, found);
    found.features = first_of(folder, {"preprocessor_config.json"});
    return found;
  }
  const std::vector<std::string> weights = files_with(folder, ".safetensors");
  const std::vector<std::string> ggufs = files_with(folder, ".gguf");
  const std::string onnx =
      first_of(folder, {"model.onnx", "onnx/model.onnx", "decoder_model_merged.onnx",
                        "onnx/decoder_model_merged.onnx"});
  const bool from_weights = kind.generates && use != ModelUse::kVectors;
  if (from_weights && !weights.empty() && !is_file(folder / "genai_config.json")) {
    take_weights(folder, weights, found);
  } else if (!onnx.empty()) {
    take_onnx(onnx, found);
  } else if (kind.has_config && !weights.empty()) {
    take_weights(folder, weights, found);
  } else if (ggufs.size() == 1 || (ggufs.size() > 1 && are_parts(ggufs))) {
    // Parts are refused where they are read, which says how they are joined.
    take_gguf(ggufs.front(), found);
  } else if (ggufs.size() > 1) {
    std::vector<std::string> names;
    for (const std::string& file : ggufs) names.push_back(fs::path(file).filename().string());
    throw usage_error("'{}' has {} GGUF files: name one of {}", folder.string(), ggufs.size(),
                      fmt::join(names, ", "));
  } else {
    throw usage_error(
        "'{}' has no weights: a model's folder has config.json with *.safetensors, a GGUF file, or "
        "model.onnx{}",
        folder.string(), unusable_in(folder));
  }
  return found;
}

}  // namespace

const std::vector<std::string>& text_file_names() {
  static const std::vector<std::string> names = {
      kTokenizer,           "tokenizer_config.json",   "chat_template.jinja",
      "chat_template.json", "special_tokens_map.json", "generation_config.json"};
  return names;
}

ModelFiles find_model(const std::string& text, ModelUse use, const HubOptions& hub,
                      const std::function<void(std::string_view)>& note) {
  std::string path = text;
  const auto name = HubName::parse(text);
  if (name)
    path = find_in_hub(*name, hub, note);
  else if (hub.download || !hub.revision.empty())
    throw usage_error("{} is of names of the hub, such as org/name, and '{}' is a path",
                      hub.download ? "--download" : "--revision", text);
  std::error_code none;
  fs::path place(path);
  if (!place.has_filename()) place = place.parent_path();  // "folder/"
  ModelFiles found;
  if (fs::is_directory(place, none)) {
    found = find_in_folder(place, use);
    found.name = name ? fs::path(name->repository).filename().string()
                      : fs::absolute(place).lexically_normal().filename().string();
    return found;
  }
  // Throws for what cannot be opened. What is called a plan and is none is refused as one.
  if (is_plan_file(path) || path.ends_with(".plan")) {
    found.plan = path;
    const fs::path encoder = fs::path(path).replace_extension(".encoder.plan");
    if (is_file(encoder)) found.encoder = encoder.string();
  } else if (frontend::is_gguf(path)) {
    take_gguf(path, found);
  } else {
    take_onnx(path, found);
  }
  found.name = place.stem().string();
  if (!found.is_gguf) found.tokenizer = tokenizer_of(place);
  found.folder = found.tokenizer.empty() ? fs::absolute(place).parent_path().string()
                                         : fs::path(found.tokenizer).parent_path().string();
  return found;
}

}  // namespace sinter::tools
