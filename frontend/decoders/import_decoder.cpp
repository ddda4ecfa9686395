// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/import_decoder.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "frontend/decoders/known_models.h"

#define XXH_INLINE_ALL
#include <sinter/file_error.h>
#include <xxhash.h>

#include "frontend/decoders/config/read_config.h"
#include "frontend/decoders/config/text_use.h"
#include "frontend/decoders/decoder_graph.h"
#include "frontend/decoders/encoder_graph.h"
#include "frontend/decoders/files/ct2.h"
#include "frontend/decoders/speech_graph.h"
#include "frontend/model/model_file.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::frontend {
namespace {

namespace fs = std::filesystem;

std::string read_config_text(const fs::path& path) {
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  if (bytes.size() > tools::kMostConfigBytes)
    throw invalid_model_error("config.json has {} bytes: expected at most {}", bytes.size(),
                              tools::kMostConfigBytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// XXH3 of the contents of all files, one after the other.
std::uint64_t hash_of(const std::vector<fs::path>& paths) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const fs::path& path : paths) {
    const auto file = MappedFile::open(path);
    const std::uint64_t size = file->bytes().size();
    XXH3_64bits_update(state.get(), &size, sizeof size);
    ModelBytes{file->bytes(), file.get()}.for_each_block([&](std::span<const std::byte> block) {
      XXH3_64bits_update(state.get(), block.data(), block.size());
    });
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace

bool is_decoder_source(const std::string& path) {
  std::error_code none;  // what cannot be read is refused where it is opened
  if (!fs::is_directory(path, none)) return is_gguf(path);
  if (!fs::exists(fs::path(path) / "config.json", none) && !is_ct2(path))
    throw FileError(ErrorCode::kUsage,
                    fmt::format("'{}' is a folder without config.json: a model's folder has that "
                                "and *.safetensors",
                                path),
                    path, EISDIR);
  return true;
}

ImportedModel import_decoder(const std::string& path, std::shared_ptr<ir::ReadLog> reads,
                             bool wants_encoder) {
  return with_context(fmt::format("model '{}'", path), [&] {
    const bool is_folder = fs::is_directory(path);
    std::shared_ptr<const TensorFile> file;
    std::unique_ptr<ConfigKeys> keys;
    std::vector<fs::path> paths;
    std::string config;
    const bool is_converted = is_folder && is_ct2(path);
    if (is_converted) {
      Ct2Model model = open_ct2(path);
      keys = keys_of_json(model.config);
      file = std::move(model.file);
    } else if (is_folder) {
      paths.push_back(fs::path(path) / "config.json");
      config = read_config_text(paths.front());
      keys = keys_of_json(config);
    } else {
      auto gguf = GgufFile::open(path);
      keys = keys_of_gguf(*gguf);
      file = std::move(gguf);
    }
    const EncoderRow* encoder =
        is_folder ? find_encoder(keys->text("model_type").value_or("")) : nullptr;
    const bool is_speech = is_folder && keys->text("model_type") == kSpeechModel;
    const Architecture* row = encoder == nullptr && !is_speech ? &architecture_of(*keys) : nullptr;
    if (wants_encoder && !is_speech)
      throw usage_error("--decoder is of models of an encoder and a decoder, and it is of one");
    if (is_folder && !is_converted) file = open_safetensors(path);
    const auto more = file->paths();
    paths.insert(paths.end(), more.begin(), more.end());
    // Blocks are no tensors that other files could replace, nor are parts of tensors.
    if (!is_folder || is_converted) reads = nullptr;
    ImportedModel result;
    if (is_speech) {
      result.graph = speech_graph(*keys, file, reads, wants_encoder, is_converted, result.warnings);
    } else if (encoder != nullptr) {
      EncoderConfig read = read_encoder_config(*encoder, *keys);
      result.graph = encoder_graph(*encoder, read, file, reads);
      result.warnings = std::move(read.notes);
    } else {
      if (is_folder) keys->spell(row->keys);
      TextConfig text;
      if (is_folder && !is_converted) {
        text = text_use(path, *row, *keys);
        const auto deciding = text_use_files(path);
        paths.insert(paths.end(), deciding.begin(), deciding.end());
      }
      DecoderConfig read = read_config(*row, *keys, *file, text);
      DecoderWeights weights(*row, file, !is_folder, reads);
      result.graph = decoder_graph(read, weights, weights.activation_type());
      weights.refuse_others(read.left_out);
      result.warnings = std::move(read.notes);
    }
    result.hash = hash_of(paths) + (wants_encoder ? 1 : 0);
    result.node_count = result.graph.nodes().size();
    result.producer = is_converted ? "CTranslate2" : is_folder ? "Hugging Face folder" : "GGUF";
    result.reads = reads;
    result.structure = XXH3_64bits(config.data(), config.size());
    for (const fs::path& each : paths) result.files.push_back(each.string());
    return result;
  });
}

}  // namespace sinter::frontend
