// SPDX-License-Identifier: Apache-2.0
// Weights kept in files next to the model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frontend/model/model_file.h"

namespace onnx {
class TensorProto;
}

namespace sinter::frontend {

/// Resolves external data inside one folder and nowhere else: a model is data from a stranger, and
/// must not be able to read files that its user did not hand over with it.
class ExternalData {
 public:
  /// `folder` holds the model. An empty path refuses every external tensor.
  explicit ExternalData(const std::filesystem::path& folder);

  struct Slice {
    std::span<const std::byte> bytes;
    std::shared_ptr<const MappedFile> owner;
  };
  /// The bytes of `tensor`, which must be `expected_bytes` long. Throws Error(kInvalidModel) naming
  /// the tensor if its location is absolute, has a '..', leaves the folder through a symbolic link,
  /// does not exist, or if offset and length do not lie inside the file.
  Slice find(const onnx::TensorProto& tensor, std::size_t expected_bytes);
  /// The files that were read.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::filesystem::path folder_;                                    // resolved, or empty
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;  // by location
  std::vector<std::string> paths_;
};

}  // namespace sinter::frontend
