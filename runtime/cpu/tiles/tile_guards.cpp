// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/tiles/tile_guards.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include <sinter/scalar_op.h>

namespace sinter::runtime::cpu {
namespace {

using plan::fb::InstrKind;
using plan::fb::InstrT;
using plan::fb::LoopProgramT;

/// Above every index of a loop; sums of a few do not overflow.
constexpr std::int64_t kBeyond = std::int64_t{1} << 60, kMostConstant = std::int64_t{1} << 48;

/// An integer value as a linear form over the program's dimensions.
std::optional<LinearIndex> form_of(const LoopProgramT& program,
                                   std::span<const std::int64_t> expressions, std::uint32_t value) {
  const InstrT& instr = *program.instrs[value];
  const auto type = static_cast<DType>(instr.dtype);
  // Narrower types could wrap.
  if (type != DType::kInt64 && type != DType::kInt32) return std::nullopt;
  LinearIndex form{0, std::vector<std::int64_t>(program.extents.size(), 0)};
  const auto constant = [&](std::int64_t number) -> std::optional<LinearIndex> {
    if (std::abs(number) > kMostConstant) return std::nullopt;
    form.constant = number;
    return form;
  };
  switch (instr.kind) {
    case InstrKind::Constant: return constant(instr.constant_int);
    case InstrKind::Size: return constant(expressions[instr.expression]);
    case InstrKind::Index: form.coefficients[instr.dim] = 1; return form;
    case InstrKind::Op: break;
    default: return std::nullopt;
  }
  const auto op = static_cast<ScalarOp>(instr.op);
  if (op == ScalarOp::kCast) return form_of(program, expressions, instr.args[0]);
  if (op != ScalarOp::kAdd && op != ScalarOp::kSub) return std::nullopt;
  const auto a = form_of(program, expressions, instr.args[0]);
  const auto b = form_of(program, expressions, instr.args[1]);
  if (!a || !b) return std::nullopt;
  const std::int64_t sign = op == ScalarOp::kAdd ? 1 : -1;
  for (std::size_t d = 0; d < form.coefficients.size(); ++d) {
    form.coefficients[d] = a->coefficients[d] + sign * b->coefficients[d];
    if (std::abs(form.coefficients[d]) > kMostConstant) return std::nullopt;
  }
  return constant(a->constant + sign * b->constant);
}

/// The form that is in [0, kBeyond) where the flag equals `wanted`.
std::optional<LinearIndex> condition_of(const LoopProgramT& program,
                                        std::span<const std::int64_t> expressions,
                                        std::uint32_t flag, bool wanted) {
  const InstrT& test = *program.instrs[flag];
  if (test.kind != InstrKind::Op || test.args.size() != 2) return std::nullopt;
  auto op = static_cast<ScalarOp>(test.op);
  std::uint32_t a = test.args[0], b = test.args[1];
  if (op == ScalarOp::kLess || op == ScalarOp::kLessEqual) {
    std::swap(a, b);
    op = op == ScalarOp::kLess ? ScalarOp::kGreater : ScalarOp::kGreaterEqual;
  }
  if (op != ScalarOp::kGreater && op != ScalarOp::kGreaterEqual) return std::nullopt;
  if (!wanted) {  // not a > b: b >= a
    std::swap(a, b);
    op = op == ScalarOp::kGreater ? ScalarOp::kGreaterEqual : ScalarOp::kGreater;
  }
  auto left = form_of(program, expressions, a);
  const auto right = form_of(program, expressions, b);
  if (!left || !right) return std::nullopt;
  left->constant -= right->constant + (op == ScalarOp::kGreater ? 1 : 0);
  for (std::size_t d = 0; d < left->coefficients.size(); ++d)
    left->coefficients[d] -= right->coefficients[d];
  return left;
}

/// A constant that a fill holds exactly.
std::optional<double> constant_of(const InstrT& instr) {
  if (instr.kind != InstrKind::Constant) return std::nullopt;
  if (is_float(static_cast<DType>(instr.dtype))) return instr.constant_float;
  if (std::abs(instr.constant_int) > kMostConstant) return std::nullopt;
  return static_cast<double>(instr.constant_int);
}

}  // namespace

std::optional<GuardedProgram> with_guarded_loads(const LoopProgramT& program,
                                                 std::span<const std::int64_t> expressions) {
  std::optional<GuardedProgram> result;
  for (std::size_t i = 0; i < program.instrs.size(); ++i) {
    const InstrT& select = *program.instrs[i];
    if (select.kind != InstrKind::Op || static_cast<ScalarOp>(select.op) != ScalarOp::kSelect)
      continue;
    for (const bool wanted : {true, false}) {
      const InstrT& load = *program.instrs[select.args[wanted ? 1 : 2]];
      const auto fill = constant_of(*program.instrs[select.args[wanted ? 2 : 1]]);
      if (load.kind != InstrKind::Load || !fill) continue;
      const plan::fb::AccessT& access = *program.accesses[load.access];
      // What is outside already has a value, which must be the same.
      const bool is_guarded = !access.guards.empty();
      const bool same = access.fill == *fill || (std::isnan(access.fill) && std::isnan(*fill));
      if (!access.nonaffine.empty() || !access.gathers.empty() || (is_guarded && !same)) continue;
      auto form = condition_of(program, expressions, select.args[0], wanted);
      if (!form) continue;
      if (!result) result.emplace(GuardedProgram{program, {}});
      const auto added = static_cast<std::uint32_t>(result->program.accesses.size());
      result->program.accesses.push_back(std::make_unique<plan::fb::AccessT>(access));
      result->program.accesses.back()->fill = *fill;
      result->accesses.push_back({added, BoundGuard{std::move(*form), 0, kBeyond}});
      auto replaced = std::make_unique<InstrT>(load);
      replaced->access = added;
      result->program.instrs[i] = std::move(replaced);
      break;
    }
  }
  return result;
}

}  // namespace sinter::runtime::cpu
