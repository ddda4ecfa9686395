// SPDX-License-Identifier: Apache-2.0
// Text that all variants of an attention kernel share: its parameters, and the mapping from items
// to rows and heads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/families/attention/attention_program.h"
#include "codegen/families/attention/prologue/attention_prologue.h"
#include "codegen/families/attention/scores/attention_scores.h"

namespace sinter::codegen {

/// The kernel's parameters: its buffers, then the sizes that are not constant.
class AttentionParameters {
 public:
  AttentionParameters(const AttentionProgram& program, ExprTable& exprs, std::vector<DType> types);

  std::string buffer(std::uint32_t b) const;
  /// A literal, or a parameter added on first use. All sizes have 64 bits: a block computes only a
  /// few addresses.
  std::string dim(const Dim& dim) { return size(exprs_.intern(dim)); }
  std::string size(std::uint32_t expression);

  /// "const f16* __restrict__ x0" and "x0", for each parameter.
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<KernelArg>& args() const { return args_; }
  /// The names of parameters that are read.
  std::vector<std::string> inputs() const;

 private:
  ExprTable& exprs_;
  std::uint32_t result_;
  std::vector<std::string> texts_;
  std::vector<KernelArg> args_;
  std::map<std::uint32_t, std::string> sizes_;
  std::vector<std::string> names_;
};

/// The rows and head of an item, and the addresses of its operands.
class ProblemText {
 public:
  /// `score`: of a program of scores; null without one.
  ProblemText(const AttentionProgram& program, AttentionParameters& args,
              const ScoreText* score = nullptr)
      : p_(program), args_(args), score_(score) {}

  /// The function that returns an item's problem. `has_maps`: some schedule copies the operands by
  /// TMA.
  std::string write(bool has_maps);
  /// The prologue of an item: the block's threads compute queries and the new row; each function
  /// starts at the next whole warp. `functions`: for queries, key and value. `is_given`: no step
  /// writes the new row's index, which the text returns.
  std::string write_prologue(const std::vector<OperandFunction>& functions, bool is_given);
  /// "name(x0, x1, TO, n0, NUMBER)".
  std::string call(const OperandFunction& function, const std::string& to,
                   const std::string& number);

 private:
  void line(const std::string& text) { text_ += "  " + text + "\n"; }
  void write_coordinates();
  void write_packed_coordinates();
  void write_paged_coordinates();
  void write_head_coordinates();
  std::string address(const AttentionOperand& operand);
  std::string place_of(const Dim& offset, const std::vector<Dim>& batch);
  void operand(const char* name, const AttentionOperand& operand);

  const AttentionProgram& p_;
  AttentionParameters& args_;
  const ScoreText* score_;
  std::string text_;
};

}  // namespace sinter::codegen
