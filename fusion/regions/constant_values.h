// SPDX-License-Identifier: Apache-2.0
// Values that depend on no input, computed on demand.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

class ConstantValues {
 public:
  explicit ConstantValues(const Graph& graph);

  /// True if `value` depends only on constants and generators, and its sizes are known.
  bool knows(ValueId value) const { return known_[value.position()]; }
  /// The contents of such a value; computed once.
  const Tensor& tensor(ValueId value);

 private:
  const Graph& graph_;
  std::vector<bool> known_;
  std::map<ValueId, Tensor> computed_;
};

/// The transposed matrix, computed when it is read. Elements are whole bytes.
Tensor transposed(const Tensor& matrix);

/// Transposes a matrix with elements of `size` bytes; rows of `to` are `pitch` elements apart.
void write_transposed(std::span<const std::byte> from, std::size_t rows, std::size_t columns,
                      std::size_t size, std::byte* to, std::size_t pitch);

}  // namespace sinter::fusion
