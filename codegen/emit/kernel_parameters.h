// SPDX-License-Identifier: Apache-2.0
// Parameters of a hand-written kernel: buffers, then 64-bit sizes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/emit/sizes_from_data.h"

namespace sinter::codegen {

class KernelParameters {
 public:
  explicit KernelParameters(ExprTable& exprs)
      : exprs_(exprs), data_(exprs, [this](const ir::Dim& dim) { return known(dim); }) {}
  KernelParameters(const KernelParameters&) = delete;
  KernelParameters& operator=(const KernelParameters&) = delete;

  /// A pointer, declared as `text`, to the plan's buffer.
  void buffer(const std::string& text, std::uint32_t buffer);
  /// A constant in which kernels of the same text differ.
  void number(const std::string& name, std::int64_t value);
  /// A size in the kernel's text: a literal, a parameter, or a value read from memory.
  std::string dim(const ir::Dim& dim);
  /// Statements before the first use of sizes; `end_of_blocks` as in SizesFromData.
  std::string lines() const { return data_.lines(); }
  std::string end_of_blocks(const ir::Dim& blocks, const std::string& block) {
    return data_.end_of_blocks(blocks, block);
  }

  /// All parameters in order: their declarations, and the launch's arguments.
  std::vector<std::string> texts() const;
  std::vector<KernelArg> args() const;

 private:
  std::string known(const ir::Dim& dim);

  ExprTable& exprs_;
  SizesFromData data_;
  std::vector<std::string> texts_;
  std::vector<KernelArg> args_;
  std::map<std::uint32_t, std::string> names_;  // of sizes, by expression
};

}  // namespace sinter::codegen
