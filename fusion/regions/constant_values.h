// Values that no input has a part in, computed when they are asked for.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace sinter::fusion {

class ConstantValues {
 public:
  explicit ConstantValues(const ir::Graph& graph);

  /// True if `value` follows from constants and generators alone and its sizes are known.
  bool knows(ir::ValueId value) const { return known_[static_cast<std::size_t>(value.index)]; }
  /// What such a value holds; computed once.
  const ir::Tensor& tensor(ir::ValueId value);

 private:
  const ir::Graph& graph_;
  std::vector<bool> known_;
  std::map<ir::ValueId, ir::Tensor> computed_;
};

/// A matrix the other way round, made when it is read. Its elements are whole bytes.
ir::Tensor transposed(const ir::Tensor& matrix);

/// Writes a matrix of elements of `size` bytes, whole rows, the other way round: rows of `to` are
/// `pitch` elements apart.
void write_transposed(std::span<const std::byte> from, std::size_t rows, std::size_t columns,
                      std::size_t size, std::byte* to, std::size_t pitch);

}  // namespace sinter::fusion
