// SPDX-License-Identifier: Apache-2.0
// Maps files and parses ONNX models from untrusted bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace sinter::frontend {

/// A regular file mapped for reading.
class MappedFile {
 public:
  /// Throws Error(kUsage) naming `path` if it cannot be opened or is not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Releases the memory of the whole pages of `part`; later reads load them again.
  void forget(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A model's bytes and, if they are mapped, their file.
struct ModelBytes {
  std::span<const std::byte> bytes;
  const MappedFile* file = nullptr;

  /// Calls `read` block by block on all bytes. Keeps at most one block of a mapped file in memory,
  /// since models may be as large as their result.
  template <typename Read>
  void for_each_block(const Read& read) const {
    constexpr std::size_t kBlock = std::size_t{16} << 20;
    for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
      const auto block = bytes.subspan(at, std::min(kBlock, bytes.size() - at));
      read(block);
      if (file != nullptr) file->forget(block);
    }
  }
};

/// Parses a ModelProto; errors call the bytes `name`. Throws Error(kInvalidModel), which says
/// whether the bytes are another format, truncated (with the available and the announced size), or
/// damaged.
std::shared_ptr<const onnx::ModelProto> parse_model(const ModelBytes& model,
                                                    const std::string& name);

/// Parses one TensorProto in the same way.
std::shared_ptr<const onnx::TensorProto> parse_tensor(std::span<const std::byte> bytes,
                                                      const std::string& name);

}  // namespace sinter::frontend
