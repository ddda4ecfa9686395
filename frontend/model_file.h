// Files: mapping them, and parsing an ONNX model out of bytes that nobody vouches for.
#pragma once

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

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Parses a ModelProto. `name` is what messages call the bytes. Throws Error(kInvalidModel) that
/// says whether the bytes are something else, an ONNX model cut short (how many bytes are there and
/// how many were announced), or damaged.
std::shared_ptr<const onnx::ModelProto> parse_model(std::span<const std::byte> bytes,
                                                    const std::string& name);

/// Parses one TensorProto, likewise.
std::shared_ptr<const onnx::TensorProto> parse_tensor(std::span<const std::byte> bytes,
                                                      const std::string& name);

}  // namespace sinter::frontend
