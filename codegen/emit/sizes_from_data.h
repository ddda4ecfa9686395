// SPDX-License-Identifier: Apache-2.0
// Sizes that a kernel reads from memory, as only the run knows them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

class SizesFromData {
 public:
  /// `known(dim)`: the text of a size that the host knows, a literal or a parameter.
  SizesFromData(ExprTable& exprs, std::function<std::string(const Dim& dim)> known)
      : exprs_(exprs), known_(std::move(known)) {}

  bool empty() const { return extents_.empty(); }
  /// Adds the values that `dim` reads from memory.
  void add(const Dim& dim);
  /// `dim`, which was added, as an expression of type i64; valid after lines().
  std::string text(const Dim& dim) const;
  /// Parameters for the buffers, and their arguments.
  std::vector<std::string> parameters() const;
  std::vector<KernelArg> args() const;
  /// Statements that read the sizes, within their bounds.
  std::string lines() const;
  /// A statement that ends the blocks beyond `blocks`, the grid's size; `block` is the text of the
  /// block's index. Empty if the host knows the grid's size.
  std::string end_of_blocks(const Dim& blocks, const std::string& block);

 private:
  struct Extent {
    std::string symbol;
    std::uint32_t buffer = 0;
    std::string least, most;  // expressions
  };
  std::string text(const ir::DimAtom& atom) const;

  ExprTable& exprs_;
  std::function<std::string(const Dim& dim)> known_;
  std::vector<Extent> extents_;
};

}  // namespace sinter::codegen
