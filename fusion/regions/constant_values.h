// Values that no input has a part in, computed when they are asked for.
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

  /// True if `value` follows from constants and generators alone and its sizes are known.
  bool knows(ValueId value) const { return known_[value.position()]; }
  /// What such a value holds; computed once.
  const Tensor& tensor(ValueId value);

 private:
  const Graph& graph_;
  std::vector<bool> known_;
  std::map<ValueId, Tensor> computed_;
};

/// A matrix the other way round, made when it is read. Its elements are whole bytes.
Tensor transposed(const Tensor& matrix);

/// Writes a matrix of elements of `size` bytes, whole rows, the other way round: rows of `to` are
/// `pitch` elements apart.
void write_transposed(std::span<const std::byte> from, std::size_t rows, std::size_t columns,
                      std::size_t size, std::byte* to, std::size_t pitch);

}  // namespace sinter::fusion
