// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/files/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "frontend/decoders/files/tensor_file.h"
#include "ir/text/shown.h"
#include "ir/text/similar.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::frontend {
namespace {

using nlohmann::json;

// A header's entries take memory: far more than any file has, and little.
constexpr std::uint64_t kMostHeader = std::uint64_t{1} << 23, kMostIndex = std::uint64_t{1} << 25;
constexpr std::size_t kMostHeaderTensors = 1 << 16, kMostHeaderName = 1024;
/// Of one tensor.
constexpr tools::JsonLimits kEntryLimits = {.depth = 4, .values = 64, .numbers = 64};

const std::map<std::string, DType>& dtypes() {
  static const std::map<std::string, DType> types = {
      {"BOOL", DType::kBool},         {"U8", DType::kUInt8},
      {"I8", DType::kInt8},           {"I16", DType::kInt16},
      {"U16", DType::kUInt16},        {"F16", DType::kFloat16},
      {"BF16", DType::kBFloat16},     {"I32", DType::kInt32},
      {"U32", DType::kUInt32},        {"F32", DType::kFloat32},
      {"F64", DType::kFloat64},       {"I64", DType::kInt64},
      {"U64", DType::kUInt64},        {"F8_E4M3", DType::kFloat8E4M3FN},
      {"F8_E5M2", DType::kFloat8E5M2}};
  return types;
}

struct Entry {
  std::string_view name;
  std::uint64_t begin = 0, end = 0;
};

}  // namespace

std::shared_ptr<const ir::Buffer> bytes_in_file(DType type, std::span<const std::byte> part,
                                                const std::shared_ptr<const MappedFile>& file) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(part.data()) % size_of(type) == 0;
  if (is_aligned && type != DType::kBool)
    return ir::Buffer::borrow(
        part, file, file ? [file, part] { file->forget(part); } : std::function<void()>());
  return ir::Buffer::derived(part.size(), [type, part, file] {
    std::vector<std::byte> bytes(part.begin(), part.end());
    if (type == DType::kBool)
      for (std::byte& each : bytes) each = each == std::byte{0} ? std::byte{0} : std::byte{1};
    return bytes;
  });
}

std::map<std::string, ir::Tensor> parse_safetensors(std::span<const std::byte> bytes,
                                                    const std::shared_ptr<const MappedFile>& file,
                                                    const std::string& what) {
  std::uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size)
    throw usage_error("'{}' is no safetensors file: it has {} bytes", what, bytes.size());
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (header_size > bytes.size() - sizeof header_size)
    throw usage_error(
        "'{}' is no safetensors file, or is cut short: its header would have {} bytes, the file "
        "has {}",
        what, header_size, bytes.size());
  if (header_size > kMostHeader)
    throw usage_error("the header of '{}' has {} bytes, more than {}", what, header_size,
                      kMostHeader);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof header_size,
                              static_cast<std::size_t>(header_size));
  const auto data = bytes.subspan(sizeof header_size + static_cast<std::size_t>(header_size));
  std::map<std::string, ir::Tensor> tensors;
  std::vector<Entry> entries;
  const auto add = [&](std::string name, const json& value) {
    if (name.size() > kMostHeaderName)
      throw usage_error("'{}': a tensor's name has {} bytes", what, name.size());
    const std::string label = fmt::format("'{}': tensor '{}'", what, ir::shown(name));
    if (entries.size() == kMostHeaderTensors)
      throw usage_error("'{}' has more than {} tensors", what, kMostHeaderTensors);
    std::string type;
    ir::Ints shape;
    Entry entry;
    try {
      type = value.at("dtype").get<std::string>();
      for (const json& dim : value.at("shape")) {
        if (!dim.is_number_unsigned()) throw usage_error("{}: a dimension is no number", label);
        shape.push_back(static_cast<std::int64_t>(
            std::min<std::uint64_t>(dim.get<std::uint64_t>(), INT64_MAX)));
      }
      const json& offsets = value.at("data_offsets");
      if (offsets.size() != 2 || !offsets.at(0).is_number_unsigned() ||
          !offsets.at(1).is_number_unsigned())
        throw usage_error("{}: its offsets are not two numbers", label);
      entry.begin = offsets.at(0).get<std::uint64_t>();
      entry.end = offsets.at(1).get<std::uint64_t>();
    } catch (const json::exception&) {
      throw usage_error("{} lacks its dtype, shape or data_offsets", label);
    }
    const auto dtype = dtypes().find(type);
    if (dtype == dtypes().end())
      throw usage_error("{} has type '{}', which Sinter does not have", label, ir::shown(type));
    if (entry.begin > entry.end || entry.end > data.size())
      throw usage_error("{} lies at bytes {} to {} of {}: the file is cut short or damaged", label,
                        entry.begin, entry.end, data.size());
    const auto part = data.subspan(static_cast<std::size_t>(entry.begin),
                                   static_cast<std::size_t>(entry.end - entry.begin));
    const auto [at, is_new] = [&] {
      try {
        return tensors.try_emplace(std::move(name), dtype->second, std::move(shape),
                                   bytes_in_file(dtype->second, part, file));
      } catch (const Error& error) {
        throw usage_error("{}: {}", label, error.what());
      }
    }();
    if (!is_new) throw usage_error("{} is there twice", label);
    entry.name = at->first;
    entries.push_back(entry);
  };
  if (!tools::read_json_members(text, fmt::format("the header of '{}'", what), kEntryLimits, "",
                                "__metadata__", add))
    throw usage_error("'{}' is no safetensors file: its header is no JSON object", what);
  std::ranges::sort(entries, {},
                    [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end)
      throw usage_error("'{}': tensor '{}' begins at byte {}, but the one in front ends at {}",
                        what, ir::shown(entry.name), entry.begin, end);
    end = entry.end;
  }
  if (end != data.size())
    throw usage_error("'{}' has {} bytes behind its last tensor", what, data.size() - end);
  return tensors;
}

bool is_safetensors(const std::string& path) {
  const auto file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  std::uint64_t header_size = 0;
  if (bytes.size() <= sizeof header_size) return false;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  return header_size <= kMostHeader && bytes[sizeof header_size] == std::byte{'{'};
}

std::map<std::string, ir::Tensor> read_safetensors(const std::string& path) {
  const auto file = MappedFile::open(path);
  return parse_safetensors(file->bytes(), file, path);
}

namespace {

namespace fs = std::filesystem;

/// The errors of a model, not of an option.
template <typename Read>
auto as_model(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw invalid_model_error("{}", error.what());
  }
}

class Safetensors final : public TensorFile {
 public:
  void add_file(const fs::path& path) {
    paths_.push_back(fs::absolute(path));
    for (auto& [name, tensor] : as_model([&] { return read_safetensors(path.string()); }))
      tensors_.emplace(name, std::move(tensor));
  }

  /// The files that an index names.
  void add_index(const fs::path& path) {
    const auto file = MappedFile::open(path);
    const std::span<const std::byte> bytes = file->bytes();
    const std::string what = fmt::format("'{}'", path.string());
    if (bytes.size() > kMostIndex)
      throw invalid_model_error("{} has {} bytes: an index has {} at most", what, bytes.size(),
                                kMostIndex);
    std::map<std::string, std::map<std::string, ir::Tensor>> files;
    const auto add = [&](const std::string& name, const json& shard) {
      if (name.size() > kMostHeaderName)
        throw invalid_model_error("{}: a tensor's name has {} bytes", what, name.size());
      const auto* const text = shard.get_ptr<const std::string*>();
      if (text == nullptr || text->empty() || fs::path(*text).filename() != *text || *text == "." ||
          *text == "..")
        throw invalid_model_error(
            "{}: 'weight_map' has {} for tensor '{}'; it must be the name of a file beside it",
            what,
            text == nullptr ? "no text" : "'" + ir::shown(text->substr(0, kMostHeaderName)) + "'",
            ir::shown(name));
      const auto [at, is_new] = files.try_emplace(*text);
      if (is_new) {
        const fs::path own = path.parent_path() / *text;
        at->second = as_model([&] { return read_safetensors(own.string()); });
        paths_.push_back(fs::absolute(own));
      }
      const auto tensor = at->second.find(name);
      if (tensor == at->second.end())
        throw invalid_model_error("{}: tensor '{}' is not in '{}'", what, ir::shown(name),
                                  ir::shown(*text));
      if (!tensors_.emplace(name, tensor->second).second)
        throw invalid_model_error("{} has tensor '{}' twice", what, ir::shown(name));
    };
    const bool has_map = as_model([&] {
      return tools::read_json_members({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                      what, kEntryLimits, "weight_map", "", add);
    });
    if (!has_map || tensors_.empty())
      throw invalid_model_error("{} has no 'weight_map' that names files", what);
    paths_.push_back(fs::absolute(path));
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }
  bool has(std::string_view name) const override { return tensors_.contains(name); }
  std::vector<std::int64_t> shape(std::string_view name) const override {
    return tensor(name).shape();
  }
  std::string_view type(std::string_view name) const override {
    const DType own = tensor(name).dtype();
    return std::ranges::find(dtypes(), own, [](const auto& row) { return row.second; })->first;
  }
  StoredTensor read(std::string_view name) const override {
    const ir::Tensor& found = tensor(name);
    return {found.shape(), found};
  }
  std::vector<fs::path> paths() const override { return paths_; }

 private:
  const ir::Tensor& tensor(std::string_view name) const {
    if (const auto at = tensors_.find(name); at != tensors_.end()) return at->second;
    throw invalid_model_error("'{}' has no tensor '{}'{}", paths_.back().string(), ir::shown(name),
                              ir::did_you_mean(name, names()));
  }

  std::map<std::string, ir::Tensor, std::less<>> tensors_;
  std::vector<fs::path> paths_;
};

/// The index or the only file in `folder`.
fs::path file_in(const fs::path& folder) {
  const fs::path index = folder / "model.safetensors.index.json",
                 whole = folder / "model.safetensors";
  for (const fs::path& path : {index, whole})
    if (fs::exists(path)) return path;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
  if (found.size() != 1)
    throw invalid_model_error(
        "'{}' has {} files '*.safetensors' and no 'model.safetensors.index.json'", folder.string(),
        found.size());
  return found[0];
}

}  // namespace

std::shared_ptr<const TensorFile> open_safetensors(const fs::path& path) {
  const fs::path file = fs::is_directory(path) ? file_in(path) : path;
  auto result = std::make_shared<Safetensors>();
  if (file.extension() == ".json")
    result->add_index(file);
  else
    result->add_file(file);
  return result;
}

}  // namespace sinter::frontend
