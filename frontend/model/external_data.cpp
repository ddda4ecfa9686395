// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/external_data.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include <onnx.pb.h>
#include <sinter/file_error.h>

#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const onnx::TensorProto& tensor, std::string_view why) {
  throw invalid_model_error("external data of tensor '{}': {}", tensor.name(), why);
}

/// Throws the error for an unreadable file of weights.
[[noreturn]] void refuse(const onnx::TensorProto& tensor, const fs::path& path, int number,
                         std::string_view why) {
  throw FileError(ErrorCode::kInvalidModel,
                  fmt::format("external data of tensor '{}': {}", tensor.name(), why),
                  path.string(), number);
}

std::optional<std::string> entry(const onnx::TensorProto& tensor, std::string_view key) {
  std::optional<std::string> found;
  for (const auto& pair : tensor.external_data()) {
    if (pair.key() != key) continue;
    if (found) refuse(tensor, fmt::format("'{}' is given twice", key));
    found = pair.value();
  }
  return found;
}

std::optional<std::uint64_t> number(const onnx::TensorProto& tensor, std::string_view key) {
  const auto text = entry(tensor, key);
  if (!text) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size())
    refuse(tensor, fmt::format("{} '{}' is not a non-negative number of bytes", key, *text));
  return value;
}

/// True if the resolved path `inner` is a descendant of the resolved folder `outer`.
bool lies_inside(const fs::path& outer, const fs::path& inner) {
  const auto [o, i] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return o == outer.end() && i != inner.end();
}

}  // namespace

ExternalData::ExternalData(const fs::path& folder) {
  if (folder.empty()) return;
  std::error_code error;
  folder_ = fs::canonical(folder, error);
  if (error)
    throw FileError(
        ErrorCode::kUsage,
        fmt::format("cannot resolve the model's folder '{}': {}", folder.string(), error.message()),
        folder.string(), error.value());
}

ExternalData::Slice ExternalData::find(const onnx::TensorProto& tensor,
                                       std::size_t expected_bytes) {
  const std::string location = entry(tensor, "location").value_or("");
  if (location.empty()) refuse(tensor, "no 'location' is given");
  if (location.find('\0') != std::string::npos) refuse(tensor, "its location has a zero byte");
  if (folder_.empty())
    refuse(tensor, fmt::format("'{}' cannot be found: the model was given as bytes, without the "
                               "folder of its external data; give that, or the model's path",
                               location));
  // Some exporters write Windows separators. On this system a backslash is part of a name, but
  // '..\\..' must not pass the check.
  std::string unified = location;
  std::ranges::replace(unified, '\\', '/');
  const fs::path relative(unified);
  if (relative.is_absolute() || (unified.size() > 1 && unified[1] == ':'))
    refuse(tensor,
           fmt::format("location '{}' is absolute; it must be relative to the model's folder",
                       location));
  for (const fs::path& part : relative)
    if (part == "..")
      refuse(tensor, fmt::format("location '{}' has a '..'; it must stay inside the model's folder",
                                 location));
  auto& file = files_[location];
  if (!file) {
    std::error_code error;
    // canonical resolves every symbolic link, also those of intermediate folders.
    const fs::path resolved = fs::canonical(folder_ / relative, error);
    if (error)
      refuse(tensor, folder_ / relative, error.value(),
             fmt::format("'{}' in '{}': {}", location, folder_.string(), error.message()));
    if (!lies_inside(folder_, resolved))
      refuse(tensor,
             fmt::format("location '{}' leaves the model's folder '{}' through a symbolic link",
                         location, folder_.string()));
    try {
      file = MappedFile::open(resolved);
    } catch (const FileError& cause) {
      refuse(tensor, cause.path(), cause.number(), cause.what());
    }
    paths_.push_back(resolved.string());
  }
  const std::uint64_t size = file->bytes().size();
  const std::uint64_t offset = number(tensor, "offset").value_or(0);
  if (offset > size)
    refuse(tensor,
           fmt::format("offset {} lies behind the end of '{}' ({} bytes)", offset, location, size));
  const std::uint64_t length = number(tensor, "length").value_or(expected_bytes);
  if (length != expected_bytes)
    refuse(tensor, fmt::format("length {} differs from the {} bytes that its type and shape need",
                               length, expected_bytes));
  if (length > size - offset)
    refuse(tensor, fmt::format("{} bytes at offset {} do not fit into '{}' ({} bytes)", length,
                               offset, location, size));
  return {file->bytes().subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length)),
          file};
}

}  // namespace sinter::frontend
