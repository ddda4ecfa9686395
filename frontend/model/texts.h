// SPDX-License-Identifier: Apache-2.0
// Strings, which no tensor here holds: integers stand for them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/model/imported_model.h"

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace sinter::frontend {

/// What the integers of a value stand for; null: it holds numbers.
using TextPtr = std::shared_ptr<const BindingText>;

/// True if both are null or stand for the same strings.
bool same_text(const TextPtr& a, const TextPtr& b);

/// The strings that a model's nodes compare with or make, and what its inputs of strings become.
class ModelTexts {
 public:
  explicit ModelTexts(const onnx::ModelProto& model) : model_(model) {}

  /// All strings of the model's attributes and constants, in their order: what an input's integers
  /// stand for, so that inputs, constants and results of lookups compare with each other.
  const TextPtr& all();
  /// The integer of `text` in all(), which must have it.
  std::int64_t code(const std::string& text);
  /// The codes of a tensor of strings, int64.
  ir::Tensor codes_of(const onnx::TensorProto& tensor);

  /// What input `name`, of strings, stands for: a hash if nodes hash it, else all().
  TextPtr of_input(const std::string& name);
  /// Its type: int64, or the hash's.
  DType type_of_input(const std::string& name);

 private:
  void read();

  const onnx::ModelProto& model_;
  bool is_read_ = false;
  TextPtr all_;
  std::unordered_map<std::string, std::int64_t> places_;
  std::map<std::string, std::pair<TextPtr, DType>> hashed_;  // by input
};

}  // namespace sinter::frontend
