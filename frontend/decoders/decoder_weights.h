// SPDX-License-Identifier: Apache-2.0
// A model's tensors, checked against its configuration; a decoder's by GGUF's names.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/decoders/config/architectures.h"
#include "frontend/decoders/files/tensor_file.h"
#include "ir/constants/recipe.h"

namespace sinter::frontend {

class CheckedWeights {
 public:
  /// `architecture`: a name for people. `reads`: receives reads of values of plain tensors; null:
  /// they are not traced.
  CheckedWeights(std::string_view architecture, std::shared_ptr<const TensorFile> file,
                 bool is_gguf, std::shared_ptr<ir::ReadLog> reads);

  bool has(const std::string& name) const { return file_->has(name); }
  ir::Ints shape(const std::string& name) const { return file_->shape(name); }
  /// Throws Error(kUnsupported) that names the tensor if it is missing or of another shape.
  StoredTensor take(const std::string& name, const ir::Ints& shape);
  /// The same, but a plain tensor.
  ir::Tensor take_plain(const std::string& name, const ir::Ints& shape, const ir::Ints& order = {});
  /// Like take(), with row i of the result row order[i] of the file's; in its order if that is
  /// empty.
  StoredTensor take_rows(const std::string& name, const ir::Ints& shape, const ir::Ints& order);
  /// A tensor [count, rows, columns] of this name, in blocks if has_blocks(); or, if the name has
  /// "{}", of a matrix for each number.
  StoredTensor take_matrices(const std::string& name, std::int64_t count, std::int64_t rows,
                             std::int64_t columns);
  /// Whether a folder has the tensor as MXFP4, "_blocks" and "_scales".
  bool has_blocks(const std::string& name) const;
  /// The type of activations: f32 of GGUF, which says how weights are stored, and nothing of what
  /// is computed; that of a folder's matrices, if they share one of 16 bits, else f32.
  DType activation_type() const;
  /// Throws Error(kUnsupported) that names tensors which nobody has taken, but for tables that
  /// configurations determine, and for those whose names begin with one of `left_out`.
  void refuse_others(std::span<const std::string> left_out = {}) const;

 protected:
  bool is_gguf() const { return is_gguf_; }

 private:
  /// NVFP4's number for a whole matrix, which is a tensor beside it.
  void take_factor(const std::string& name, StoredTensor& stored);
  ir::ScaledTensor take_scaled(const std::string& name, const ir::Tensor& codes);
  StoredTensor take_blocks(const std::string& name, const ir::Ints& shape);

  std::string architecture_;
  std::shared_ptr<const TensorFile> file_;
  bool is_gguf_;
  std::shared_ptr<ir::ReadLog> reads_;
  std::set<std::string> taken_;
};

class DecoderWeights : public CheckedWeights {
 public:
  DecoderWeights(const Architecture& architecture, std::shared_ptr<const TensorFile> file,
                 bool is_gguf, std::shared_ptr<ir::ReadLog> reads);

  /// The file's name of "token_embd.weight", or of "attn_q.weight" of a layer.
  std::string name(std::string_view what, std::optional<std::size_t> layer = {}) const;

 private:
  const Architecture& row_;
  std::string_view dropped_;  // beginning of names that the file's lack
};

}  // namespace sinter::frontend
