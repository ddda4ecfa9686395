// SPDX-License-Identifier: Apache-2.0
// A file of weights that is not there.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frontend/decoders/files/tensor_file.h"

namespace sinter::frontend {

/// Tensors of zeros.
class Zeros : public TensorFile {
 public:
  explicit Zeros(std::map<std::string, ir::Ints, std::less<>> shapes, DType type = DType::kFloat32)
      : shapes_(std::move(shapes)), type_(type) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, shape] : shapes_) names.push_back(name);
    return names;
  }
  bool has(std::string_view name) const override { return shapes_.contains(name); }
  std::vector<std::int64_t> shape(std::string_view name) const override {
    return shapes_.find(name)->second;
  }
  std::string_view type(std::string_view) const override {
    return type_ == DType::kBFloat16 ? "BF16" : "F32";
  }
  StoredTensor read(std::string_view name) const override {
    const ir::Ints own = shape(name);
    std::int64_t count = 1;
    for (const std::int64_t size : own) count *= size;
    return {own, ir::Tensor::from_doubles(type_, own,
                                          std::vector<double>(static_cast<std::size_t>(count)))};
  }
  std::vector<std::filesystem::path> paths() const override { return {}; }

  std::map<std::string, ir::Ints, std::less<>> shapes_;

 private:
  DType type_;
};

}  // namespace sinter::frontend
