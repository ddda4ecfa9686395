// Sizes that a kernel reads in memory, because only the run knows them.
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
  /// Notes what `dim` reads in memory.
  void add(const Dim& dim);
  /// `dim` as an expression of type i64 behind lines(); it has been added.
  std::string text(const Dim& dim) const;
  /// Parameters for the buffers, and what they are.
  std::vector<std::string> parameters() const;
  std::vector<KernelArg> args() const;
  /// Statements that read the sizes, within their bounds.
  std::string lines() const;
  /// A statement that ends blocks which `blocks`, the size of the grid, is too few for; `block` is
  /// the text of a block's number. Empty if the host knows how many there are.
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
