// Values that no input has a part in, computed when they are asked for.
#pragma once

#include <map>
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

/// A matrix the other way round. Its elements are whole bytes.
ir::Tensor transposed(const ir::Tensor& matrix);

}  // namespace sinter::fusion
