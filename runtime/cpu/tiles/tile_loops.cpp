// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/tiles/tile_loops.h"

#include <algorithm>

namespace sinter::runtime::cpu {
namespace {

using plan::fb::ExprOp;
using plan::fb::LoopProgramT;
using Values = std::span<const std::int64_t>;

std::int64_t wrap_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrap_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrap_mul(a, -1);
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

bool is_constant(const LinearIndex& linear) {
  return std::ranges::all_of(linear.coefficients, [](std::int64_t c) { return c == 0; });
}

/// Linear forms of index nodes over the program's dimensions; nullopt if not linear.
std::vector<std::optional<LinearIndex>> linear_nodes(const LoopProgramT& program, Values values) {
  const std::size_t rank = program.extents.size();
  std::vector<std::optional<LinearIndex>> result;
  const auto combine = [&](const LinearIndex& a, const LinearIndex& b, std::int64_t factor) {
    LinearIndex sum = a;
    sum.constant = wrap_add(sum.constant, wrap_mul(b.constant, factor));
    for (std::size_t d = 0; d < rank; ++d)
      sum.coefficients[d] = wrap_add(sum.coefficients[d], wrap_mul(b.coefficients[d], factor));
    return sum;
  };
  for (const plan::fb::IndexNode& node : program.index_nodes) {
    LinearIndex linear{0, std::vector<std::int64_t>(rank, 0)};
    if (node.op() == ExprOp::Constant) {
      linear.constant = values[node.a()];
      result.push_back(std::move(linear));
      continue;
    }
    if (node.op() == ExprOp::Symbol) {
      linear.coefficients[node.a()] = 1;
      result.push_back(std::move(linear));
      continue;
    }
    const auto &a = result[node.a()], &b = result[node.b()];
    std::optional<LinearIndex> combined;
    if (a && b) {
      const bool constants = is_constant(*a) && is_constant(*b);
      if (node.op() == ExprOp::Add) combined = combine(*a, *b, 1);
      if (node.op() == ExprOp::Sub) combined = combine(*a, *b, -1);
      if (node.op() == ExprOp::Mul && is_constant(*b))
        combined = combine(linear, *a, b->constant);
      else if (node.op() == ExprOp::Mul && is_constant(*a))
        combined = combine(linear, *b, a->constant);
      if (constants && node.op() == ExprOp::FloorDiv) {
        linear.constant = floor_div(a->constant, b->constant);
        combined = linear;
      }
      if (constants && (node.op() == ExprOp::Min || node.op() == ExprOp::Max)) {
        linear.constant = node.op() == ExprOp::Min ? std::min(a->constant, b->constant)
                                                   : std::max(a->constant, b->constant);
        combined = linear;
      }
    }
    result.push_back(std::move(combined));
  }
  return result;
}

__int128 magnitude(__int128 value) { return value < 0 ? -value : value; }

/// True if no intermediate value of the form can overflow: nodes wrap, forms must not.
bool fits(const LinearIndex& linear, const LoopProgramT& program, Values values) {
  __int128 reach = magnitude(linear.constant);
  for (std::size_t d = 0; d < linear.coefficients.size(); ++d)
    reach += magnitude(linear.coefficients[d]) * values[program.extents[d]];
  return reach < (__int128{1} << 60);
}

/// Marks the dimensions that `node` and its operands refer to.
void pin(const LoopProgramT& program, std::uint32_t node, std::vector<bool>& pinned) {
  std::vector<bool> needed(node + 1, false);
  needed[node] = true;
  for (std::uint32_t i = node + 1; i-- > 0;) {
    const plan::fb::IndexNode& n = program.index_nodes[i];
    if (!needed[i] || n.op() == ExprOp::Constant) continue;
    if (n.op() == ExprOp::Symbol)
      pinned[n.a()] = true;
    else
      needed[n.a()] = needed[n.b()] = true;
  }
}

}  // namespace

void evaluate_nodes(const std::vector<BoundNode>& nodes, const std::int64_t* index,
                    std::int64_t* values) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const BoundNode& n = nodes[i];
    switch (n.op) {
      case ExprOp::Constant: values[i] = n.constant; break;
      case ExprOp::Symbol: values[i] = index[n.a]; break;
      case ExprOp::Add: values[i] = wrap_add(values[n.a], values[n.b]); break;
      case ExprOp::Sub: values[i] = wrap_add(values[n.a], wrap_mul(values[n.b], -1)); break;
      case ExprOp::Mul: values[i] = wrap_mul(values[n.a], values[n.b]); break;
      case ExprOp::FloorDiv: values[i] = floor_div(values[n.a], values[n.b]); break;
      case ExprOp::Min: values[i] = std::min(values[n.a], values[n.b]); break;
      case ExprOp::Max: values[i] = std::max(values[n.a], values[n.b]); break;
    }
  }
}

BoundLoops bind_loops(const plan::fb::PlanT& plan, const LoopProgramT& program, Values values,
                      std::span<const GuardedAccess> guarded) {
  const std::size_t rank = program.extents.size();
  BoundLoops loops;
  for (const auto& instr : program.instrs) {
    loops.has_reductions |= instr->kind == plan::fb::InstrKind::Reduce;
    // Without inner dimensions, no two elements scatter to one address, so any order is correct.
    loops.ordered |= instr->kind == plan::fb::InstrKind::Scatter && program.inner_dims > 0;
    loops.scans |= instr->kind == plan::fb::InstrKind::Scan;
  }

  // Addresses over the program's dimensions.
  const auto linear = linear_nodes(program, values);
  std::vector<bool> pinned(rank, false);
  for (const auto& source : program.accesses) {
    BoundAccess access;
    access.buffer = program.buffers[source->buffer];
    const plan::fb::BufferT& buffer = *plan.buffers[access.buffer];
    access.storage = static_cast<DType>(buffer.dtype);
    access.count = values[buffer.bytes] / static_cast<std::int64_t>(size_of(access.storage));
    access.address.constant = values[source->offset];
    for (const std::uint32_t stride : source->strides)
      access.address.coefficients.push_back(values[stride]);
    for (const plan::fb::Gather& gather : source->gathers)
      access.gathers.push_back({gather.value(), values[gather.extent()], values[gather.stride()]});
    for (const std::uint32_t node : source->nonaffine) {
      // Linear nodes stay separate too: verify_bound has not checked them, so they are checked at
      // run time.
      pin(program, node, pinned);
      access.nonlinear.push_back(node);
    }
    for (const plan::fb::Guard& guard : source->guards) {
      BoundGuard bound{linear[guard.index()], guard.index(), values[guard.extent()]};
      if (bound.linear && !fits(*bound.linear, program, values)) bound.linear.reset();
      if (!bound.linear) pin(program, guard.index(), pinned);
      access.guards.push_back(std::move(bound));
    }
    access.fill = source->fill;
    loops.accesses.push_back(std::move(access));
  }
  for (const GuardedAccess& added : guarded)
    loops.accesses[added.access].guards.push_back(added.guard);
  for (const auto& instr : program.instrs)
    if (instr->kind == plan::fb::InstrKind::Index) pinned[instr->dim] = true;

  // All linear forms; merging dimensions must suit each of them.
  std::vector<LinearIndex*> forms;
  for (BoundAccess& access : loops.accesses) {
    forms.push_back(&access.address);
    for (BoundGuard& guard : access.guards)
      if (guard.linear) forms.push_back(&*guard.linear);
  }

  struct Axis {
    std::size_t first, last;  // dimensions
    std::int64_t extent;
    bool inner, pinned;
  };
  std::vector<Axis> axes;
  const std::size_t first_inner = rank - program.inner_dims;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t extent = values[program.extents[d]];
    if (extent == 1) continue;
    const bool inner = loops.has_rows() && d >= first_inner;
    if (!axes.empty() && axes.back().inner == inner && !axes.back().pinned && !pinned[d]) {
      const std::size_t outer = axes.back().last;
      if (std::ranges::all_of(forms, [&](const LinearIndex* form) {
            return form->coefficients[outer] == wrap_mul(form->coefficients[d], extent);
          })) {
        axes.back().last = d;
        axes.back().extent *= extent;
        continue;
      }
    }
    axes.push_back({d, d, extent, inner, static_cast<bool>(pinned[d])});
  }

  loops.axis_of.assign(rank, -1);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    loops.extents.push_back(axes[a].extent);
    loops.row_axes += axes[a].inner ? 0 : 1;
    loops.axis_of[axes[a].last] = static_cast<int>(a);
  }
  for (LinearIndex* form : forms) {
    std::vector<std::int64_t> coefficients;
    for (const Axis& axis : axes) coefficients.push_back(form->coefficients[axis.last]);
    form->coefficients = std::move(coefficients);
  }
  for (const plan::fb::IndexNode& node : program.index_nodes) {
    BoundNode bound{node.op(), node.a(), node.b(), 0};
    if (node.op() == ExprOp::Constant) bound.constant = values[node.a()];
    if (node.op() == ExprOp::Symbol) {
      // No evaluated node refers to a merged dimension: nodes pin theirs.
      const int axis = loops.axis_of[node.a()];
      if (axis < 0)
        bound.op = ExprOp::Constant;
      else
        bound.a = static_cast<std::uint32_t>(axis);
    }
    loops.nodes.push_back(bound);
  }
  return loops;
}

}  // namespace sinter::runtime::cpu
