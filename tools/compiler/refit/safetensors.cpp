// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/refit/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "frontend/model/model_file.h"
#include "ir/text/shown.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostHeader = 100'000'000;  // as in the reference implementation

std::optional<DType> dtype_of(const std::string& name) {
  static const std::map<std::string, DType> types = {
      {"BOOL", DType::kBool},         {"U8", DType::kUInt8},
      {"I8", DType::kInt8},           {"I16", DType::kInt16},
      {"U16", DType::kUInt16},        {"F16", DType::kFloat16},
      {"BF16", DType::kBFloat16},     {"I32", DType::kInt32},
      {"U32", DType::kUInt32},        {"F32", DType::kFloat32},
      {"F64", DType::kFloat64},       {"I64", DType::kInt64},
      {"U64", DType::kUInt64},        {"F8_E4M3", DType::kFloat8E4M3FN},
      {"F8_E5M2", DType::kFloat8E5M2}};
  const auto at = types.find(name);
  return at == types.end() ? std::nullopt : std::optional(at->second);
}

struct Entry {
  std::string name;
  std::uint64_t begin = 0, end = 0;
};

}  // namespace

std::map<std::string, ir::Tensor> parse_safetensors(std::span<const std::byte> bytes,
                                                    const std::shared_ptr<const void>& owner,
                                                    const std::string& what) {
  std::uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size)
    throw usage_error("'{}' is no safetensors file: it has {} bytes", what, bytes.size());
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (header_size > kMostHeader || header_size > bytes.size() - sizeof header_size)
    throw usage_error(
        "'{}' is no safetensors file, or is cut short: its header would have {} bytes, the file "
        "has {}",
        what, header_size, bytes.size());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof header_size,
                              static_cast<std::size_t>(header_size));
  const auto data = bytes.subspan(sizeof header_size + static_cast<std::size_t>(header_size));
  const json header =
      read_json(text, fmt::format("the header of '{}'", what), {.depth = 4, .values = 1 << 25});
  if (!header.is_object())
    throw usage_error("'{}' is no safetensors file: its header is no JSON object", what);
  std::map<std::string, ir::Tensor> tensors;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string label = fmt::format("'{}': tensor '{}'", what, ir::shown(name));
    std::string type;
    ir::Ints shape;
    Entry entry{name};
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
    const auto dtype = dtype_of(type);
    if (!dtype)
      throw usage_error("{} has type '{}', which Sinter does not have", label, ir::shown(type));
    if (entry.begin > entry.end || entry.end > data.size())
      throw usage_error("{} lies at bytes {} to {} of {}: the file is cut short or damaged", label,
                        entry.begin, entry.end, data.size());
    const auto part = data.subspan(static_cast<std::size_t>(entry.begin),
                                   static_cast<std::size_t>(entry.end - entry.begin));
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(part.data()) % size_of(*dtype) == 0;
    try {
      std::shared_ptr<const ir::Buffer> buffer;
      if (*dtype == DType::kBool) {
        std::vector<std::byte> clean(part.begin(), part.end());
        for (std::byte& each : clean) each = each == std::byte{0} ? std::byte{0} : std::byte{1};
        buffer = ir::Buffer::take(std::move(clean));
      } else {
        buffer = is_aligned ? ir::Buffer::borrow(part, owner) : ir::Buffer::copy_of(part);
      }
      tensors.emplace(name, ir::Tensor(*dtype, std::move(shape), std::move(buffer)));
    } catch (const Error& error) {
      throw usage_error("{}: {}", label, error.what());
    }
    entries.push_back(std::move(entry));
  }
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
  const auto file = frontend::MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  std::uint64_t header_size = 0;
  if (bytes.size() <= sizeof header_size) return false;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  return header_size <= kMostHeader && bytes[sizeof header_size] == std::byte{'{'};
}

std::map<std::string, ir::Tensor> read_safetensors(const std::string& path) {
  const auto file = frontend::MappedFile::open(path);
  return parse_safetensors(file->bytes(), file, path);
}

}  // namespace sinter::tools
