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

/// Reads external data from inside one folder only: models are untrusted, and must not be able to
/// read other files of the user.
class ExternalData {
 public:
  /// `folder` contains the model. An empty path refuses all external tensors.
  explicit ExternalData(const std::filesystem::path& folder);

  struct Slice {
    std::span<const std::byte> bytes;
    std::shared_ptr<const MappedFile> owner;
  };
  /// The bytes of `tensor`, which must be `expected_bytes` long. Throws Error(kInvalidModel) naming
  /// the tensor if its location is absolute, contains '..', leaves the folder through a symbolic
  /// link, or does not exist. Also if offset and length exceed the file.
  Slice find(const onnx::TensorProto& tensor, std::size_t expected_bytes);
  /// Paths of the files read.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::filesystem::path folder_;                                    // resolved, or empty
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;  // by location
  std::vector<std::string> paths_;
};

}  // namespace sinter::frontend
