// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/window/overlap.h"

#include <algorithm>

#include <sinter/scalar_op.h>

namespace sinter::codegen {

using plan::fb::ExprOp;
using plan::fb::InstrKind;

namespace {

/// Dependence of a value on the two dimensions of an overlap.
struct Form {
  bool known = true;                  // false: neither of the following
  bool shared = false;                // depends nonlinearly on the overlap's sum
  std::int64_t row = 0, element = 0;  // depends linearly, with these steps
};

class FindShared {
 public:
  FindShared(const ProgramAnalysis& analysis, const Overlap& overlap)
      : analysis_(analysis), o_(overlap) {}

  std::vector<bool> find() {
    forms_.resize(analysis_.instr_count());
    std::vector<bool> shared(analysis_.instr_count(), false);
    const DimSet both = dim_bit(o_.tile_dim) | dim_bit(o_.window_dim);
    for (std::size_t i = 0; i < shared.size(); ++i) {
      forms_[i] = form(i);
      const InstrKind kind = analysis_.instr(i).kind;
      shared[i] = (kind == InstrKind::Op || kind == InstrKind::Load) && follows(forms_[i]) &&
                  (analysis_.value(i).dims & both) != 0;
    }
    return shared;
  }

 private:
  bool follows(const Form& f) const {
    return f.known && (f.shared || f.row * o_.element_step == f.element * o_.row_step);
  }
  Form of_parts(bool all_follow) const {
    return all_follow ? Form{true, true, 0, 0} : Form{false, false, 0, 0};
  }
  static bool linear(const Form& f) { return f.known && !f.shared; }
  static bool fixed(const Form& f) { return linear(f) && f.row == 0 && f.element == 0; }

  Form form(std::size_t i) const {
    const auto& instr = analysis_.instr(i);
    const DimSet dims = analysis_.value(i).dims;
    if ((dims & (dim_bit(o_.tile_dim) | dim_bit(o_.window_dim))) == 0) return {};
    if (instr.kind == InstrKind::Index) return index(static_cast<int>(instr.dim));
    if (instr.kind == InstrKind::Op) {
      if (!is_float(analysis_.type_of(i)) && instr.args.size() == 2) {
        const Form &a = forms_[instr.args[0]], &b = forms_[instr.args[1]];
        const auto op = static_cast<ScalarOp>(instr.op);
        if (linear(a) && linear(b) && op == ScalarOp::kAdd)
          return {true, false, a.row + b.row, a.element + b.element};
        if (linear(a) && linear(b) && op == ScalarOp::kSub)
          return {true, false, a.row - b.row, a.element - b.element};
      }
      return of_parts(std::all_of(instr.args.begin(), instr.args.end(),
                                  [&](std::uint32_t arg) { return follows(forms_[arg]); }));
    }
    if (instr.kind != InstrKind::Load) return of_parts(false);
    const auto& access = analysis_.access(instr.access);
    const ir::Dim row = analysis_.stride(instr.access, o_.tile_dim);
    const ir::Dim element = analysis_.stride(instr.access, o_.window_dim);
    bool all = row * ir::Dim(o_.element_step) == element * ir::Dim(o_.row_step);
    for (const auto& gather : access.gathers) all = all && follows(forms_[gather.value()]);
    for (const std::uint32_t n : access.nonaffine) all = all && follows(node(n));
    for (const auto& guard : access.guards) all = all && follows(node(guard.index()));
    return of_parts(all);
  }

  Form index(int d) const {
    return {true, false, d == o_.tile_dim ? 1 : 0, d == o_.window_dim ? 1 : 0};
  }

  Form node(std::uint32_t n) const {
    const auto& at = analysis_.program().index_nodes[n];
    if ((analysis_.node_dims(n) & (dim_bit(o_.tile_dim) | dim_bit(o_.window_dim))) == 0) return {};
    if (at.op() == ExprOp::Symbol) return index(static_cast<int>(at.a()));
    const Form a = node(at.a()), b = node(at.b());
    if (linear(a) && linear(b)) {
      if (at.op() == ExprOp::Add) return {true, false, a.row + b.row, a.element + b.element};
      if (at.op() == ExprOp::Sub) return {true, false, a.row - b.row, a.element - b.element};
      if (at.op() == ExprOp::Mul && (fixed(a) || fixed(b))) {
        const auto& factor = analysis_.program().index_nodes[fixed(a) ? at.a() : at.b()];
        const Form& other = fixed(a) ? b : a;
        if (factor.op() == ExprOp::Constant && analysis_.exprs().is_constant(factor.a())) {
          const std::int64_t by = analysis_.exprs().constant(factor.a());
          return {true, false, other.row * by, other.element * by};
        }
      }
    }
    return of_parts(follows(a) && follows(b));
  }

  const ProgramAnalysis& analysis_;
  const Overlap& o_;
  std::vector<Form> forms_;
};

bool has(DimSet dims, int d) { return (dims & dim_bit(d)) != 0; }

}  // namespace

std::vector<bool> shared_values(const ProgramAnalysis& analysis, const Overlap& overlap) {
  return FindShared(analysis, overlap).find();
}

bool separates_rows(const ProgramAnalysis& analysis, int d) {
  return std::ranges::all_of(analysis.live(), [&](std::size_t i) {
    const InstrKind kind = analysis.instr(i).kind;
    return (kind != InstrKind::Reduce && kind != InstrKind::Store) ||
           has(analysis.value(i).dims, d);
  });
}

}  // namespace sinter::codegen
