// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/files/ct2.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "frontend/decoders/files/safetensors.h"
#include "ir/text/shown.h"
#include "ir/text/similar.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kOldest = 4, kNewest = 6, kMostVariables = 1 << 16;
constexpr std::size_t kMostRank = 8;

/// Reads a file from its beginning.
class Ct2Cursor {
 public:
  explicit Ct2Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> take(std::size_t size) {
    if (size > bytes_.size() - at_)
      throw invalid_model_error("model.bin ends within what should have {} bytes at {}", size, at_);
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  template <typename T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto bytes = take(number<std::uint16_t>());
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text.substr(0, text.find('\0'));
  }
  bool is_done() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

struct Variable {
  DType type = DType::kFloat32;
  ir::Ints shape;
  std::span<const std::byte> bytes;
};

DType type_of(std::uint8_t type, const std::string& name) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kInt8,    DType::kInt16,
                              DType::kInt32,   DType::kFloat16, DType::kBFloat16};
  if (type >= std::size(kTypes))
    throw invalid_model_error("model.bin: '{}' is of type {}, which is not known", ir::shown(name),
                              type);
  return kTypes[type];
}

using Variables = std::map<std::string, Variable, std::less<>>;

Variables read_variables(std::span<const std::byte> bytes) {
  Ct2Cursor cursor(bytes);
  if (const auto version = cursor.number<std::uint32_t>(); version < kOldest || version > kNewest)
    throw unsupported_error("model.bin is of version {}: CTranslate2's {} to {} are read. {}",
                            version, kOldest, kNewest, kOtherWay);
  if (const std::string kind = cursor.text(); kind != "WhisperSpec")
    throw unsupported_error(
        "model.bin is of a '{}': of CTranslate2's models 'WhisperSpec' is read. {}",
        ir::shown(kind), kOtherWay);
  (void)cursor.number<std::uint32_t>();  // the revision
  const auto count = cursor.number<std::uint32_t>();
  if (count > kMostVariables) throw invalid_model_error("model.bin has {} variables", count);
  Variables variables;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string name = cursor.text();
    Variable variable;
    std::uint64_t elements = 1;
    const auto rank = cursor.number<std::uint8_t>();
    if (rank > kMostRank)
      throw invalid_model_error("model.bin: '{}' has {} dimensions", ir::shown(name), rank);
    for (std::uint8_t d = 0; d < rank; ++d) {
      const auto size = cursor.number<std::uint32_t>();
      variable.shape.push_back(size);
      elements = size != 0 && elements > bytes.size() / size ? UINT64_MAX : elements * size;
      if (elements == UINT64_MAX) break;
    }
    if (elements > bytes.size())
      throw invalid_model_error("model.bin: '{}' has more elements than the file bytes",
                                ir::shown(name));
    variable.type = type_of(cursor.number<std::uint8_t>(), name);
    const auto size = cursor.number<std::uint32_t>();
    if (size != elements * size_of(variable.type))
      throw invalid_model_error("model.bin: '{}' has {} elements in {} bytes", ir::shown(name),
                                elements, size);
    variable.bytes = cursor.take(size);
    if (!variables.emplace(name, std::move(variable)).second)
      throw invalid_model_error("model.bin has '{}' twice", ir::shown(name));
  }
  // Other names of what is there.
  const auto aliases = cursor.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < aliases; ++i) {
    (void)cursor.text();
    (void)cursor.text();
  }
  if (!cursor.is_done()) throw invalid_model_error("model.bin has bytes behind its last alias");
  return variables;
}

/// A variable, or one of several matrices that lie one below the other.
struct Place {
  std::string variable;
  std::int64_t part = 0, parts = 1;
};

class Ct2File : public TensorFile {
 public:
  /// `file` may be null.
  Ct2File(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> file,
          const fs::path& path)
      : path_(fs::absolute(path)), file_(std::move(file)), all_(read_variables(bytes)) {
    for (const auto& [name, variable] : all_)
      if (!variable.shape.empty() && !is_mapped(name)) places_[name] = {name};
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, place] : places_) names.push_back(name);
    return names;
  }
  bool has(std::string_view name) const override { return places_.contains(name); }
  std::vector<std::int64_t> shape(std::string_view name) const override {
    const Place& own = place(name);
    ir::Ints shape = all_.at(own.variable).shape;
    shape[0] /= own.parts;
    return shape;
  }
  std::string_view type(std::string_view name) const override {
    return to_string(all_.at(place(name).variable).type);
  }
  StoredTensor read(std::string_view name) const override {
    const Place& own = place(name);
    const Variable& variable = all_.at(own.variable);
    if (!is_float(variable.type))
      throw unsupported_error("'{}' is {}: convert the model with `--quantization float16`",
                              own.variable, to_string(variable.type));
    const std::size_t size = variable.bytes.size() / static_cast<std::size_t>(own.parts);
    const auto part = variable.bytes.subspan(size * static_cast<std::size_t>(own.part), size);
    ir::Ints sizes = shape(name);
    return {sizes, ir::Tensor(variable.type, sizes, bytes_in_file(variable.type, part, file_))};
  }
  std::vector<fs::path> paths() const override { return {path_}; }

  /// A scalar, such as "encoder/num_heads".
  std::optional<std::int64_t> scalar(const std::string& name) const {
    const auto found = all_.find(name);
    if (found == all_.end() || !found->second.shape.empty() || is_float(found->second.type))
      return std::nullopt;
    std::int64_t value = 0;  // little-endian, and small
    std::memcpy(&value, found->second.bytes.data(), found->second.bytes.size());
    return value;
  }

 private:
  const Place& place(std::string_view name) const {
    const auto found = places_.find(name);
    if (found == places_.end()) throw invalid_model_error("model.bin has no '{}'", ir::shown(name));
    return found->second;
  }

  /// Puts a variable where Hugging Face's names have it.
  bool is_mapped(const std::string& name) {
    const std::size_t slash = name.find('/'), last = name.rfind('/');
    const std::string side = name.substr(0, slash);
    if (slash == std::string::npos || (side != "encoder" && side != "decoder")) return false;
    const std::string what = last > slash ? name.substr(slash + 1, last - slash - 1) : "";
    std::string part = name.substr(last + 1);
    if (part == "gamma" || part == "encodings") part = "weight";
    if (part == "beta") part = "bias";
    constexpr std::pair<std::string_view, std::string_view> kWhole[] = {
        {"conv1", "conv1"},
        {"conv2", "conv2"},
        {"layer_norm", "layer_norm"},
        {"position_encodings", "embed_positions"},
        {"embeddings", "embed_tokens"}};
    for (const auto& [own, other] : kWhole)
      if (own == what) {
        places_[fmt::format("model.{}.{}.{}", side, other, part)] = {name};
        return true;
      }
    if (!what.starts_with("layer_")) return false;
    const std::size_t next = what.find('/');
    const std::string layer = fmt::format("model.{}.layers.{}.", side, what.substr(6, next - 6));
    struct Row {
      std::string_view own, other, letters;
    };
    constexpr Row kRows[] = {{"self_attention/linear_0", "self_attn", "qkv"},
                             {"self_attention/linear_1", "self_attn.out_proj", ""},
                             {"self_attention/layer_norm", "self_attn_layer_norm", ""},
                             {"attention/linear_0", "encoder_attn", "q"},
                             {"attention/linear_1", "encoder_attn", "kv"},
                             {"attention/linear_2", "encoder_attn.out_proj", ""},
                             {"attention/layer_norm", "encoder_attn_layer_norm", ""},
                             {"ffn/linear_0", "fc1", ""},
                             {"ffn/linear_1", "fc2", ""},
                             {"ffn/layer_norm", "final_layer_norm", ""}};
    if (next == std::string::npos) return false;
    for (const Row& row : kRows) {
      if (row.own != what.substr(next + 1)) continue;
      const auto parts = std::ssize(row.letters);
      if (parts == 0) places_[fmt::format("{}{}.{}", layer, row.other, part)] = {name};
      if (parts > 0 && all_.at(name).shape[0] % parts != 0)
        throw invalid_model_error("model.bin: '{}' has {} rows for {} matrices", ir::shown(name),
                                  all_.at(name).shape[0], parts);
      for (std::int64_t i = 0; i < parts; ++i)
        places_[fmt::format("{}{}.{}_proj.{}", layer, row.other,
                            row.letters[static_cast<std::size_t>(i)], part)] = {name, i, parts};
      return true;
    }
    return false;
  }

  fs::path path_;
  std::shared_ptr<const MappedFile> file_;
  Variables all_;
  std::map<std::string, Place, std::less<>> places_;
};

/// What config.json says of such weights.
std::string config_of(const Ct2File& file) {
  const auto size = [&](const std::string& name, std::size_t d) {
    const auto shape = file.shape(name);
    return d < shape.size() ? shape[d] : 0;
  };
  nlohmann::json config = {{"model_type", "whisper"}, {"is_encoder_decoder", true}};
  for (const std::string side : {"encoder", "decoder"}) {
    const std::string stem = "model." + side + ".";
    std::int64_t layers = 0;
    while (file.has(fmt::format("{}layers.{}.fc1.weight", stem, layers))) ++layers;
    config[side + "_layers"] = layers;
    if (layers > 0) config[side + "_ffn_dim"] = size(stem + "layers.0.fc1.weight", 0);
    if (const auto heads = file.scalar(side + "/num_heads"))
      config[side + "_attention_heads"] = *heads;
    config[side == "encoder" ? "max_source_positions" : "max_target_positions"] =
        size(stem + "embed_positions.weight", 0);
  }
  config["d_model"] = size("model.decoder.embed_tokens.weight", 1);
  config["vocab_size"] = size("model.decoder.embed_tokens.weight", 0);
  config["num_mel_bins"] = size("model.encoder.conv1.weight", 1);
  config["scale_embedding"] = file.scalar("decoder/scale_embeddings").value_or(0) != 0;
  return config.dump();
}

}  // namespace

bool is_ct2(const fs::path& folder) {
  const auto has = [&](const char* name) { return fs::is_regular_file(folder / name); };
  return has("model.bin") && !has("model.safetensors") && !has("model.safetensors.index.json");
}

Ct2Model parse_ct2(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> owner,
                   const fs::path& path) {
  auto file = std::make_shared<const Ct2File>(bytes, std::move(owner), path);
  std::string config = config_of(*file);
  return {std::move(file), std::move(config)};
}

Ct2Model open_ct2(const fs::path& folder) {
  auto file = MappedFile::open(folder / "model.bin");
  const auto bytes = file->bytes();
  return parse_ct2(bytes, std::move(file), folder / "model.bin");
}

}  // namespace sinter::frontend
