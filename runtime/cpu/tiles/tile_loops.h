// SPDX-License-Identifier: Apache-2.0
// A loop program's loops and addresses with every size a number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// constant + sum coefficients[axis] * index[axis].
struct LinearIndex {
  std::int64_t constant = 0;
  std::vector<std::int64_t> coefficients;
};

/// Index arithmetic that is not linear. Operands are earlier nodes; a dimension of one element has
/// become the constant zero.
struct BoundNode {
  plan::fb::ExprOp op = plan::fb::ExprOp::Constant;
  std::uint32_t a = 0, b = 0;  // Symbol: a is an axis
  std::int64_t constant = 0;
};

struct BoundGather {
  std::uint32_t value = 0;  // instruction
  std::int64_t extent = 0, stride = 0;
};

/// Holds where 0 <= index < extent; a linear index, or else a node.
struct BoundGuard {
  std::optional<LinearIndex> linear;
  std::uint32_t node = 0;
  std::int64_t extent = 0;
};

struct BoundAccess {
  std::uint32_t buffer = 0;  // Plan.buffers
  DType storage = DType::kFloat32;
  std::int64_t count = 0;  // elements in the buffer
  LinearIndex address;     // elements
  std::vector<BoundGather> gathers;
  std::vector<std::uint32_t> nonlinear;  // nodes that are added to the address
  std::vector<BoundGuard> guards;
  double fill = 0;

  /// True if addresses follow from `address` and gathers alone, and are known to be inside.
  bool is_plain() const { return nonlinear.empty() && guards.empty(); }
};

/// The loops of one program for one bound shape. Dimensions of one element are gone; adjacent ones
/// that every access walks as one are merged.
struct BoundLoops {
  std::vector<std::int64_t> extents;  // by axis, outermost first
  std::size_t row_axes = 0;           // the first ones enumerate rows, the others walk a row
  std::vector<int> axis_of;           // by dimension of the program; -1: it has one element
  std::vector<BoundAccess> accesses;  // as in the program
  std::vector<BoundNode> nodes;       // as in the program
  bool has_reductions = false;
  bool ordered = false;  // elements of a row happen one after the other: something scatters
  bool scans = false;    // ... or something is combined along rows

  /// Rows are more than a way to walk the elements.
  bool has_rows() const { return has_reductions || ordered || scans; }
};

/// `expressions` have passed verify_bound.
BoundLoops bind_loops(const plan::fb::PlanT& plan, const plan::fb::LoopProgramT& program,
                      std::span<const std::int64_t> expressions);

/// The values of all nodes at `index` (by axis). Overflow wraps, division by zero yields zero: the
/// address that comes out is checked before it is used.
void evaluate_nodes(const std::vector<BoundNode>& nodes, const std::int64_t* index,
                    std::int64_t* values);

}  // namespace sinter::runtime::cpu
