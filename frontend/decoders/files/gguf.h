// SPDX-License-Identifier: Apache-2.0
// GGUF, versions 2 and 3: metadata, then tensors in ggml's blocks.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/decoders/files/tensor_file.h"

namespace sinter::frontend {

/// A value of the metadata. Integers of all widths are int64, floats are double. Texts lie in the
/// file: they are valid as long as the GgufFile.
using GgufValue =
    std::variant<bool, std::int64_t, double, std::string_view, std::vector<bool>,
                 std::vector<std::int64_t>, std::vector<double>, std::vector<std::string_view>>;

/// One GGUF file. Blocks are read as a ScaledTensor with the numbers that ggml defines.
class GgufFile : public TensorFile {
 public:
  /// Throws Error(kInvalidModel) naming the field of the header that is wrong; Error(kUnsupported)
  /// for other versions, big-endian files, nested arrays, parts of a split file, and types of
  /// blocks that are unknown.
  static std::shared_ptr<const GgufFile> open(const std::filesystem::path& path);
  /// The same for bytes that `owner` keeps alive; errors call them `what`.
  static std::shared_ptr<const GgufFile> parse(std::span<const std::byte> bytes,
                                               std::shared_ptr<const void> owner,
                                               const std::string& what);

  /// The metadata's keys, sorted.
  virtual std::vector<std::string_view> keys() const = 0;
  /// The value of `key`, decoded in time linear in its size; nothing if there is none. Throws
  /// Error(kInvalidModel) for truth values but 0 and 1 and integers beyond 63 bits.
  virtual std::optional<GgufValue> find(std::string_view key) const = 0;

  /// The same as one type: nothing if there is none; throws Error(kInvalidModel) naming the key if
  /// its type is another. Integers are numbers, too.
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;

  /// "general.architecture"; throws Error(kInvalidModel) if it is missing.
  std::string_view architecture() const;
};

/// True if the file begins as GGUF. Throws Error(kUsage) if it cannot be opened.
bool is_gguf(const std::filesystem::path& path);

}  // namespace sinter::frontend
