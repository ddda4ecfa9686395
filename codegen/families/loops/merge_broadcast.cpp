// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/merge_broadcast.h"

#include <algorithm>
#include <numeric>

namespace sinter::codegen {

using plan::fb::ExprOp;
using plan::fb::IndexNode;
using plan::fb::InstrKind;

namespace {

constexpr std::int64_t kLongestVector = 8;
constexpr int kMostLoads = 4;  // one for each element of a vector

class Merge {
 public:
  Merge(LoopProgramT& program, ExprTable& exprs)
      : program_(program), exprs_(exprs), inner_(program.extents.size() - 1) {}

  bool helps() const {
    const Dim length = exprs_.dim(program_.extents[inner_]),
              outer = exprs_.dim(program_.extents[inner_ - 1]);
    if (!length.is_constant() || !outer.is_constant()) return false;
    const auto vector = [](std::int64_t count) { return std::gcd(count, kLongestVector); };
    return length.value() > 1 && vector(length.value() * outer.value()) > vector(length.value());
  }

  bool is_possible() const {
    for (const auto& instr : program_.instrs) {
      const bool plain = instr->kind == InstrKind::Op || instr->kind == InstrKind::Constant ||
                         instr->kind == InstrKind::Size || instr->kind == InstrKind::Load ||
                         instr->kind == InstrKind::Store ||
                         (instr->kind == InstrKind::Index && instr->dim + 1 < inner_);
      if (!plain) return false;
    }
    for (const IndexNode& node : program_.index_nodes)
      if (node.op() == ExprOp::Symbol && node.a() + 1 >= inner_) return false;
    int divided = 0;
    for (std::size_t a = 0; a < program_.accesses.size(); ++a) {
      if (divides(a)) {
        if (++divided > kMostLoads || is_stored(a)) return false;
      } else if (outer_stride(a) != stride(a) * exprs_.dim(program_.extents[inner_])) {
        return false;
      }
    }
    return divided > 0;
  }

  void apply() {
    const Dim length = exprs_.dim(program_.extents[inner_]);
    const auto push = [&](ExprOp op, std::uint32_t a, std::uint32_t b) {
      program_.index_nodes.emplace_back(op, a, b);
      return static_cast<std::uint32_t>(program_.index_nodes.size() - 1);
    };
    const auto number = [&](const Dim& value) {
      return push(ExprOp::Constant, exprs_.intern(value), 0);
    };
    std::uint32_t quotient = 0;
    for (std::size_t a = 0; a < program_.accesses.size(); ++a) {
      auto& access = *program_.accesses[a];
      if (divides(a)) {
        if (quotient == 0) {
          const auto merged = push(ExprOp::Symbol, static_cast<std::uint32_t>(inner_ - 1), 0);
          quotient = push(ExprOp::FloorDiv, merged, number(length));
        }
        const Dim step = outer_stride(a);
        access.nonaffine.push_back(step == Dim(1) ? quotient
                                                  : push(ExprOp::Mul, quotient, number(step)));
      }
      access.strides[inner_ - 1] = access.strides[inner_];
      access.strides.pop_back();
    }
    program_.extents.pop_back();
    program_.extents.back() = exprs_.intern(exprs_.dim(program_.extents.back()) * length);
  }

 private:
  Dim stride(std::size_t access) const {
    return exprs_.dim(program_.accesses[access]->strides[inner_]);
  }
  Dim outer_stride(std::size_t access) const {
    return exprs_.dim(program_.accesses[access]->strides[inner_ - 1]);
  }
  /// True if it varies only with the outer of the two loops.
  bool divides(std::size_t access) const {
    return stride(access) == Dim(0) && outer_stride(access) != Dim(0);
  }
  bool is_stored(std::size_t access) const {
    return std::ranges::any_of(program_.instrs, [&](const auto& instr) {
      return instr->kind == InstrKind::Store && instr->access == access;
    });
  }

  LoopProgramT& program_;
  ExprTable& exprs_;
  std::size_t inner_;  // the innermost loop
};

}  // namespace

void merge_broadcast_loops(LoopProgramT& program, ExprTable& exprs) {
  if (program.inner_dims != 0 || program.extents.size() < 2) return;
  Merge merge(program, exprs);
  if (merge.helps() && merge.is_possible()) merge.apply();
}

}  // namespace sinter::codegen
