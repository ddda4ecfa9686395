// SPDX-License-Identifier: Apache-2.0
// Files: mapping them, and parsing an ONNX model out of bytes that nobody vouches for.
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
  /// Lets go of the memory that whole pages of `part` take; they are read anew if asked for again.
  void forget(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A model's bytes, and the file that they are mapped from, if they are.
struct ModelBytes {
  std::span<const std::byte> bytes;
  const MappedFile* file = nullptr;

  /// Calls `read` with all bytes, block by block. Of a mapped file no more than a block of them is
  /// in memory at a time: models are as large as what is made of them.
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

/// Parses a ModelProto. `name` is what messages call the bytes. Throws Error(kInvalidModel) that
/// says whether the bytes are something else, an ONNX model cut short (how many bytes are there and
/// how many were announced), or damaged.
std::shared_ptr<const onnx::ModelProto> parse_model(const ModelBytes& model,
                                                    const std::string& name);

/// Parses one TensorProto, likewise.
std::shared_ptr<const onnx::TensorProto> parse_tensor(std::span<const std::byte> bytes,
                                                      const std::string& name);

}  // namespace sinter::frontend
