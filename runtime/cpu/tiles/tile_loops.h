// SPDX-License-Identifier: Apache-2.0
// A loop program's loops and addresses with all sizes bound.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// constant + sum of coefficients[axis] * index[axis].
struct LinearIndex {
  std::int64_t constant = 0;
  std::vector<std::int64_t> coefficients;
};

/// A nonlinear index node. Operands are earlier nodes; the index of a dimension of size 1 is the
/// constant 0.
struct BoundNode {
  plan::fb::ExprOp op = plan::fb::ExprOp::Constant;
  std::uint32_t a = 0, b = 0;  // Symbol: a is an axis
  std::int64_t constant = 0;
};

struct BoundGather {
  std::uint32_t value = 0;  // instruction
  std::int64_t extent = 0, stride = 0;
};

/// True if 0 <= index < extent, where the index is `linear` or, without one, `node`.
struct BoundGuard {
  std::optional<LinearIndex> linear;
  std::uint32_t node = 0;
  std::int64_t extent = 0;
};

/// A guard, linear over the program's dimensions, that an access of the program gets.
struct GuardedAccess {
  std::uint32_t access = 0;
  BoundGuard guard;
};

struct BoundAccess {
  std::uint32_t buffer = 0;  // Plan.buffers
  DType storage = DType::kFloat32;
  std::int64_t count = 0;  // elements in the buffer
  LinearIndex address;     // in elements
  std::vector<BoundGather> gathers;
  std::vector<std::uint32_t> nonlinear;  // nodes that are added to the address
  std::vector<BoundGuard> guards;
  double fill = 0;

  /// True if addresses have only linear and gathered terms; verify_bound has checked their range.
  bool is_plain() const { return nonlinear.empty() && guards.empty(); }
};

/// The loops of one program for one bound shape. Dimensions of size 1 are dropped; adjacent ones
/// with compatible strides in every access are merged.
struct BoundLoops {
  std::vector<std::int64_t> extents;  // by axis, outermost first
  std::size_t row_axes = 0;  // the first row_axes axes enumerate rows, the others a row's elements
  std::vector<int> axis_of;  // by dimension of the program; -1: its size is 1
  std::vector<BoundAccess> accesses;  // as in the program
  std::vector<BoundNode> nodes;       // as in the program
  bool has_reductions = false;
  bool ordered = false;  // a scatter requires the elements of a row in order
  bool scans = false;    // there is a scan along rows

  /// Whether rows have a meaning, beyond being an order of the elements.
  bool has_rows() const { return has_reductions || ordered || scans; }
};

/// `expressions` must have passed verify_bound.
BoundLoops bind_loops(const plan::fb::PlanT& plan, const plan::fb::LoopProgramT& program,
                      std::span<const std::int64_t> expressions,
                      std::span<const GuardedAccess> guarded = {});

/// Computes the values of all nodes at `index` (by axis). Overflow wraps and division by zero
/// yields zero, because resulting addresses are checked before use.
void evaluate_nodes(const std::vector<BoundNode>& nodes, const std::int64_t* index,
                    std::int64_t* values);

}  // namespace sinter::runtime::cpu
