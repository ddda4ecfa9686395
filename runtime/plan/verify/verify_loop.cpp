// SPDX-License-Identifier: Apache-2.0
// Verifies loop programs: SSA order, operand types, accesses, and per-row values.
#include <algorithm>

#include <sinter/scalar_op.h>

#include "runtime/plan/loop_values.h"
#include "runtime/plan/verify/checker.h"

namespace sinter::plan {
namespace {

DType buffer_type(const Checker& check, const fb::LoopProgramT& program,
                  const fb::AccessT& access) {
  const std::uint32_t buffer = program.buffers[access.buffer];
  if (is_of_scores(buffer)) return DType::kFloat32;
  return static_cast<DType>(check.plan.buffers[buffer]->dtype);
}

void verify_index_nodes(const Checker& check, const fb::LoopProgramT& program) {
  for (std::size_t i = 0; i < program.index_nodes.size(); ++i) {
    const fb::IndexNode& node = program.index_nodes[i];
    check.in_range(node.op(), fb::ExprOp::MAX, "an index node's operator");
    if (node.op() == fb::ExprOp::Constant) {
      check.expression(node.a(), "an index node's constant");
    } else if (node.op() == fb::ExprOp::Symbol) {
      check.index(node.a(), program.extents.size(), "an index node's dimension", "dimensions");
    } else {
      check.index(node.a(), i, "an index node's operand", "index nodes before it");
      check.index(node.b(), i, "an index node's operand", "index nodes before it");
    }
  }
}

void verify_access(const Checker& check, const fb::LoopProgramT& program,
                   const fb::AccessT& access) {
  check.index(access.buffer, program.buffers.size(), "an access's buffer",
              "buffers in the program");
  check.expression(access.offset, "an access's offset");
  if (access.strides.size() != program.extents.size())
    check.fail("an access has {} strides for {} dimensions", access.strides.size(),
               program.extents.size());
  check.expressions(access.strides, "an access's stride");
  check.rank(access.gathers.size(), "an access's gather");
  for (const fb::Gather& gather : access.gathers) {
    check.index(gather.value(), program.instrs.size(), "a gather's value", "instructions");
    check.expression(gather.extent(), "a gather's extent");
    check.expression(gather.stride(), "a gather's stride");
  }
  check.rank(access.nonaffine.size(), "an access's non-affine part");
  for (const std::uint32_t node : access.nonaffine)
    check.index(node, program.index_nodes.size(), "an access's index", "index nodes");
  check.rank(access.guards.size(), "an access's guard");
  for (const fb::Guard& guard : access.guards) {
    check.index(guard.index(), program.index_nodes.size(), "a guard's index", "index nodes");
    check.expression(guard.extent(), "a guard's extent");
  }
}

void verify_op(const Checker& check, const fb::LoopProgramT& program, const fb::InstrT& instr,
               DType type) {
  if (instr.op >= kScalarOpCount) check.fail("operator {} does not exist", instr.op);
  const auto op = static_cast<ScalarOp>(instr.op);
  if (instr.args.size() != static_cast<std::size_t>(arity_of(op)))
    check.fail("'{}' has {} operands instead of {}", to_string(op), instr.args.size(),
               arity_of(op));
  if (op == ScalarOp::kBitCast &&
      size_of(type) != size_of(static_cast<DType>(program.instrs[instr.args[0]]->dtype)))
    check.fail("'{}' changes the size of its operand", to_string(op));
  if (converts(op)) return;
  const auto type_of = [&](std::size_t k) {
    return static_cast<DType>(program.instrs[instr.args[k]]->dtype);
  };
  const std::size_t first = op == ScalarOp::kSelect ? 1 : 0;
  const DType operand = type_of(first);
  for (std::size_t k = first; k < instr.args.size(); ++k)
    if (type_of(k) != operand)
      check.fail("'{}' mixes operands of types {} and {}", to_string(op), to_string(operand),
                 to_string(type_of(k)));
  if (first == 1 && type_of(0) != DType::kBool)
    check.fail("the condition of a select is of type {}", to_string(type_of(0)));
  const DType expected = yields_bool(op) ? DType::kBool : operand;
  if (type != expected)
    check.fail("'{}' on {} yields {}, not {}", to_string(op), to_string(operand),
               to_string(expected), to_string(type));
  if (!is_defined_on(op, operand))
    check.fail("'{}' is not defined on {}", to_string(op), to_string(operand));
}

void verify_instr(const Checker& check, const fb::LoopProgramT& program, std::size_t index) {
  const fb::InstrT& instr = *program.instrs[index];
  check.in_range(instr.kind, fb::InstrKind::MAX, "an instruction's kind");
  check.in_range(instr.precision, fb::Precision::MAX, "an instruction's precision");
  const DType type = check.dtype(instr.dtype, "an instruction");
  if (compute_type(type) != type)
    check.fail("instruction {} computes in {}, which is a storage type", index, to_string(type));
  for (const std::uint32_t arg : instr.args) {
    check.index(arg, index, "an operand", "instructions before it");
    if (is_store(program.instrs[arg]->kind))
      check.fail("instruction {} takes the value of a store", index);
  }
  const bool accesses = instr.kind == fb::InstrKind::Load || is_store(instr.kind);
  if (accesses) {
    check.index(instr.access, program.accesses.size(), "an access", "accesses");
    const fb::AccessT& access = *program.accesses[instr.access];
    const DType stored = buffer_type(check, program, access);
    if (compute_type(stored) != type)
      check.fail("instruction {} moves {} values from or to a buffer of {}", index, to_string(type),
                 to_string(stored));
    for (const fb::Gather& gather : access.gathers) {
      check.index(gather.value(), index, "a gathered index", "instructions before it");
      if (is_store(program.instrs[gather.value()]->kind) ||
          !is_integer(static_cast<DType>(program.instrs[gather.value()]->dtype)))
        check.fail("instruction {} is addressed by a value that is not an integer", index);
    }
  }
  const bool is_leaf = instr.kind == fb::InstrKind::Size || instr.kind == fb::InstrKind::Load ||
                       instr.kind == fb::InstrKind::Constant || instr.kind == fb::InstrKind::Index;
  if (is_leaf && !instr.args.empty()) check.fail("instruction {} has operands", index);
  switch (instr.kind) {
    case fb::InstrKind::Load:
    case fb::InstrKind::Constant: break;
    case fb::InstrKind::Size: check.expression(instr.expression, "a size instruction"); break;
    case fb::InstrKind::Op: verify_op(check, program, instr, type); break;
    case fb::InstrKind::Reduce:
    case fb::InstrKind::Scan:
      if (instr.op >= kCombineCount) check.fail("reduction {} does not exist", instr.op);
      if (type == DType::kBool) check.fail("instruction {} reduces bool values", index);
      [[fallthrough]];
    case fb::InstrKind::Scatter:
      if (instr.kind == fb::InstrKind::Scatter && instr.op != kScatterReplaces &&
          (instr.op >= kCombineCount || type == DType::kBool))
        check.fail("instruction {} combines by {} on {}, which is not defined", index, instr.op,
                   to_string(type));
      [[fallthrough]];
    case fb::InstrKind::Store:
      if (instr.args.size() != 1)
        check.fail("instruction {} has {} values", index, instr.args.size());
      if (program.instrs[instr.args[0]]->dtype != instr.dtype)
        check.fail("instruction {} is of type {}, its value of type {}", index, to_string(type),
                   to_string(static_cast<DType>(program.instrs[instr.args[0]]->dtype)));
      if (accesses && !program.accesses[instr.access]->guards.empty())
        check.fail("instruction {} is a store with a guard", index);
      break;
    case fb::InstrKind::Index:
      check.index(instr.dim, program.extents.size(), "an index instruction's dimension",
                  "dimensions");
      if (!is_integer(type))
        check.fail("instruction {} is an index of type {}", index, to_string(type));
      break;
  }
}

/// A store runs once over its whole domain: a per-element value has no per-row address.
void verify_stores(const Checker& check, const fb::LoopProgramT& program) {
  const std::vector<bool> per_element = instrs_per_element(check.plan, program);
  for (std::size_t i = 0; i < program.instrs.size(); ++i) {
    const fb::InstrT& instr = *program.instrs[i];
    if (instr.kind == fb::InstrKind::Store && !per_element[i] && per_element[instr.args[0]])
      check.fail("instruction {} stores a value per element at an address per row", i);
  }
}

}  // namespace

void verify_loop_program(const Checker& check, const fb::LoopProgramT& program) {
  check.rank(program.extents.size(), "its loop nest");
  check.expressions(program.extents, "an extent");
  if (program.inner_dims > program.extents.size())
    check.fail("{} of its {} dimensions are a row's", program.inner_dims, program.extents.size());
  if (program.instrs.empty()) check.fail("its loop program is empty");
  verify_index_nodes(check, program);
  for (const auto& access : program.accesses) verify_access(check, program, *access);
  for (std::size_t i = 0; i < program.instrs.size(); ++i) verify_instr(check, program, i);
  const auto has = [&](fb::InstrKind kind) {
    return std::ranges::any_of(program.instrs,
                               [&](const auto& instr) { return instr->kind == kind; });
  };
  const bool scans = has(fb::InstrKind::Scan), scatters = has(fb::InstrKind::Scatter);
  if (scatters && has(fb::InstrKind::Reduce)) check.fail("it both scatters and reduces");
  if (scans && (scatters || has(fb::InstrKind::Reduce)))
    check.fail("it scans, and scatters or reduces too");
  if (scans && program.inner_dims == 0) check.fail("it scans, but has no rows");
  verify_stores(check, program);
}

}  // namespace sinter::plan
