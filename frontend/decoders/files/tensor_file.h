// SPDX-License-Identifier: Apache-2.0
// Files of named tensors: weights that come without a graph.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/scale_format.h"
#include "ir/tensor.h"

namespace sinter::frontend {

/// How to go on with a model that is refused.
inline constexpr std::string_view kOtherWay =
    "exporters know more: `pip install 'pysinter[export]'`, then "
    "`python -m pysinter.export MODEL -o FOLDER` writes a folder to take instead";

struct StoredTensor {
  /// Row-major, as PyTorch names it. Rows of a ScaledTensor are all dimensions but the last.
  std::vector<std::int64_t> shape;
  std::variant<ir::Tensor, ir::ScaledTensor> value;
};

/// Named tensors, read from the bytes of untrusted files that stay mapped. Opening reads headers
/// only. Tensors are borrowed from the files, or computed from them when read, and outlive the
/// TensorFile. Thread-safe.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  /// All names, sorted.
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(std::string_view name) const = 0;
  /// The others throw Error(kInvalidModel), which names similar ones, for a name that the file
  /// lacks.
  virtual std::vector<std::int64_t> shape(std::string_view name) const = 0;
  /// How the file stores it, in its own terms: "BF16", "Q4_K".
  virtual std::string_view type(std::string_view name) const = 0;
  virtual StoredTensor read(std::string_view name) const = 0;
  /// The files, absolute.
  virtual std::vector<std::filesystem::path> paths() const = 0;

 protected:
  TensorFile() = default;
};

/// `path`: a file of safetensors, an index of such (model.safetensors.index.json), or a folder that
/// contains one of both. Throws Error(kInvalidModel) for damaged or missing files; files of an
/// index must lie in its folder.
std::shared_ptr<const TensorFile> open_safetensors(const std::filesystem::path& path);

}  // namespace sinter::frontend
