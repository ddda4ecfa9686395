// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/vector_plan.h"

#include <algorithm>

#include <sinter/scalar_op.h>

#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::ExprOp;
using plan::fb::InstrKind;

namespace {

class VectorCheck {
 public:
  /// `uniform`: values equal for all elements of a vector, though they vary along `dim`.
  VectorCheck(const ProgramAnalysis& analysis, int dim, int vector,
              const std::vector<bool>& uniform)
      : analysis_(analysis), dim_(dim_bit(dim)), d_(dim), v_(vector), uniform_(uniform) {}

  /// Appends sizes that must be multiples of the vector to `required`.
  bool access(std::size_t a, std::vector<ir::Dim>& required) const {
    const auto& access = analysis_.access(a);
    const ExprTable& exprs = analysis_.exprs();
    if (analysis_.stride(a, d_) != ir::Dim(1)) return false;
    std::vector<ir::Dim> sizes = {exprs.dim(access.offset)};
    for (std::size_t d = 0; d < analysis_.rank(); ++d)
      if (static_cast<int>(d) != d_ && analysis_.extent(d) != ir::Dim(1))
        sizes.push_back(exprs.dim(access.strides[d]));
    for (const auto& gather : access.gathers) {
      if (!is_one(gather.value())) return false;
      sizes.push_back(exprs.dim(gather.stride()));
    }
    for (std::uint32_t node : access.nonaffine)
      if ((analysis_.node_dims(node) & dim_) != 0 || !multiple_node(node)) return false;
    if (!guards_whole_vectors(access)) return false;
    return std::all_of(sizes.begin(), sizes.end(),
                       [&](const ir::Dim& size) { return multiple(size, required); });
  }

  /// Whether the value is the same for all elements of a vector.
  bool is_one(std::uint32_t value) const {
    return is_one_in_vectors(analysis_, d_, uniform_, value);
  }
  /// Whether an access is to a single element, or none, for a whole vector.
  bool is_of_one(std::size_t a) const {
    const auto& access = analysis_.access(a);
    return analysis_.stride(a, d_) == ir::Dim(0) && guards_whole_vectors(access) &&
           std::ranges::all_of(access.gathers,
                               [&](const auto& gather) { return is_one(gather.value()); }) &&
           std::ranges::all_of(access.nonaffine, [&](std::uint32_t node) {
             return (analysis_.node_dims(node) & dim_) == 0;
           });
  }

  bool multiple(const ir::Dim& size, std::vector<ir::Dim>& required) const {
    if (ir::is_multiple_of(size, v_)) return true;
    if (size.is_constant()) return false;
    required.push_back(size);
    return true;
  }

 private:
  /// A guard aligned to vectors holds for all or none of a vector's elements.
  bool guards_whole_vectors(const plan::fb::AccessT& access) const {
    return std::ranges::all_of(access.guards, [&](const auto& guard) {
      return (analysis_.node_dims(guard.index()) & dim_) == 0 ||
             (aligned_node(guard.index()) &&
              ir::is_multiple_of(analysis_.exprs().dim(guard.extent()), v_));
    });
  }
  bool multiple_node(std::uint32_t index) const {
    const auto& node = analysis_.program().index_nodes[index];
    switch (node.op()) {
      case ExprOp::Constant: return ir::is_multiple_of(analysis_.exprs().dim(node.a()), v_);
      case ExprOp::Symbol:
      case ExprOp::FloorDiv: return false;
      case ExprOp::Mul: return multiple_node(node.a()) || multiple_node(node.b());
      default: return multiple_node(node.a()) && multiple_node(node.b());
    }
  }
  /// The vector dimension's index plus a constant that is a multiple of the vector.
  bool aligned_node(std::uint32_t index) const {
    const auto& node = analysis_.program().index_nodes[index];
    if (node.op() == ExprOp::Symbol) return static_cast<int>(node.a()) == d_;
    if (node.op() != ExprOp::Add && node.op() != ExprOp::Sub) return false;
    const auto fixed = [&](std::uint32_t n) {
      return (analysis_.node_dims(n) & dim_) == 0 && multiple_node(n);
    };
    if (aligned_node(node.a())) return fixed(node.b());
    return node.op() == ExprOp::Add && fixed(node.a()) && aligned_node(node.b());
  }

  const ProgramAnalysis& analysis_;
  DimSet dim_;
  int d_;
  int v_;
  const std::vector<bool>& uniform_;
};

void add_condition(const ir::Dim& size, std::vector<ir::Dim>& required) {
  for (const ir::Dim& known : required)
    if (ir::divide_exactly(size, known)) return;  // implied by an earlier condition
  required.push_back(size);
}

/// 16 bytes of the widest type; for narrower types at least 4 elements if that is still a vector.
/// Counts accesses per element, not per row.
int longest_vector(const ProgramAnalysis& analysis, DimSet dim,
                   const std::vector<std::size_t>& moved) {
  std::size_t widest = 0, narrowest = 16;
  const DimSet inner = analysis.inner_dims();
  const bool rows = (analysis.outer_dims() & dim) != 0 && inner != 0;
  for (const std::size_t i : moved) {
    // Varies only by guards: the same element.
    if ((analysis.address_dims(analysis.instr(i).access) & dim) == 0) continue;
    if (rows && (analysis.access_dims(analysis.instr(i).access) & inner) == 0) continue;
    widest = std::max(widest, analysis.memory_bytes(i));
    narrowest = std::min(narrowest, analysis.memory_bytes(i));
  }
  if (widest == 0) return 1;
  const std::size_t elements = std::max(16 / widest, std::min<std::size_t>(4, 16 / narrowest));
  return static_cast<int>(std::min<std::size_t>(elements, 8));
}

/// The accesses that vary along `dim`.
std::vector<std::size_t> accesses_along(const ProgramAnalysis& analysis, DimSet dim,
                                        const std::vector<bool>* among) {
  std::vector<std::size_t> moved;
  for (const std::size_t i : analysis.live_accesses())
    if ((among == nullptr || (*among)[i]) &&
        (analysis.access_dims(analysis.instr(i).access) & dim) != 0)
      moved.push_back(i);
  return moved;
}

/// Vectors of up to `longest` elements for the accesses `moved`.
VectorPlan fit_vectors(const ProgramAnalysis& analysis, int dim, int longest, bool tails,
                       const std::vector<std::size_t>& moved) {
  const VectorPlan scalar = no_vectors(analysis);
  for (int v = longest; v >= 2; v /= 2) {
    const std::vector<bool> uniform = uniform_in_vectors(analysis, dim, v);
    const VectorCheck check(analysis, dim, v, uniform);
    VectorPlan plan = scalar;
    plan.vector = v;
    plan.dim = dim;
    std::vector<ir::Dim> required;
    const ir::Dim& extent = analysis.extent(dim);
    plan.tail = tails && !ir::is_multiple_of(extent, v);
    if (!plan.tail && !check.multiple(extent, required)) continue;
    int whole = 0, single = 0;
    bool stores_whole = true;
    for (const std::size_t i : moved) {
      const auto& instr = analysis.instr(i);
      std::vector<ir::Dim> sizes;
      // Scatters that combine work element by element.
      const bool combines = instr.kind == InstrKind::Scatter && instr.op != plan::kScatterReplaces;
      if (!combines && check.access(instr.access, sizes)) {
        for (const ir::Dim& size : sizes) add_condition(size, required);
        plan.vector_access[instr.access] = true;
        ++whole;
      } else {
        stores_whole = stores_whole && instr.kind == InstrKind::Load;
        ++single;
      }
    }
    if (whole == 0 || !stores_whole || whole < single) continue;
    for (const ir::Dim& size : required)
      plan.conditions.emplace_back(analysis.exprs().intern(size), static_cast<std::uint64_t>(v),
                                   INT64_MAX);
    return plan;
  }
  return scalar;
}

}  // namespace

VectorPlan plan_vectors(const ProgramAnalysis& analysis, int dim, int most, bool tails,
                        const std::vector<bool>* among) {
  if (dim < 0) return no_vectors(analysis);
  const auto moved = accesses_along(analysis, dim_bit(dim), among);
  return fit_vectors(analysis, dim, std::min(longest_vector(analysis, dim_bit(dim), moved), most),
                     tails, moved);
}

int vector_of_few(const ProgramAnalysis& analysis, const ir::Dim& elements, int threads) {
  constexpr int kShare = 4;  // of the multiprocessors
  int most = 8;
  if (!elements.is_constant()) return most;
  const std::int64_t busy =
      std::int64_t{analysis.device().multiprocessors} / kShare * std::int64_t{threads};
  while (most > 1 && elements.value() < busy * most) most /= 2;
  return most;
}

VectorPlan plan_vectors_of(const ProgramAnalysis& analysis, int dim, int longest,
                           const std::vector<bool>& among) {
  if (dim < 0) return no_vectors(analysis);
  return fit_vectors(analysis, dim, longest, false, accesses_along(analysis, dim_bit(dim), &among));
}

namespace {

/// `apart`: sums needed separately for every element. Adds newly found ones; false if there were
/// any, as their readers must be reconsidered.
bool find_uniform(const ProgramAnalysis& analysis, int dim, int vector, std::vector<bool>& apart,
                  std::vector<bool>& uniform) {
  const std::size_t count = analysis.instr_count();
  std::vector<bool> aligned(count, false), sums(count, false);
  uniform.assign(count, false);
  const DimSet bit = dim_bit(dim);
  const VectorCheck check(analysis, dim, vector, uniform);
  const auto fixed = [&](std::uint32_t v) {
    const auto& instr = analysis.instr(v);
    if (instr.kind == InstrKind::Constant) return instr.constant_int % vector == 0;
    return instr.kind == InstrKind::Size &&
           ir::is_multiple_of(analysis.exprs().dim(instr.expression), vector);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const auto& instr = analysis.instr(i);
    if (instr.kind == InstrKind::Index) aligned[i] = static_cast<int>(instr.dim) == dim;
    if (instr.kind == InstrKind::Load)
      uniform[i] = (analysis.value(i).dims & bit) != 0 && check.is_of_one(instr.access);
    if (instr.kind != InstrKind::Op || instr.args.empty()) continue;
    const std::uint32_t a = instr.args.front(), b = instr.args.back();
    switch (static_cast<ScalarOp>(instr.op)) {
      case ScalarOp::kAdd: sums[i] = (aligned[a] && fixed(b)) || (fixed(a) && aligned[b]); break;
      case ScalarOp::kSub: sums[i] = aligned[a] && fixed(b); break;
      case ScalarOp::kLess:
      case ScalarOp::kGreaterEqual: uniform[i] = aligned[a] && fixed(b); break;
      case ScalarOp::kGreater:
      case ScalarOp::kLessEqual: uniform[i] = fixed(a) && aligned[b]; break;
      default: break;
    }
    if (!uniform[i] && !aligned[a] && !aligned[b])
      uniform[i] =
          (analysis.value(i).dims & bit) != 0 &&
          std::ranges::all_of(instr.args, [&](std::uint32_t v) { return check.is_one(v); });
    sums[i] = sums[i] && !apart[i];
    aligned[i] = sums[i];
  }
  // A sum with no other use is needed only for a vector's first element.
  for (std::size_t i = count; i-- > 0;) {
    if (!sums[i]) continue;
    uniform[i] = true;
    for (std::size_t user = i + 1; user < count && uniform[i]; ++user) {
      const auto& instr = analysis.instr(user);
      if (!analysis.value(user).live) continue;
      if (std::find(instr.args.begin(), instr.args.end(), i) != instr.args.end())
        uniform[i] = uniform[user];
      if (plan::is_memory(instr.kind))
        for (const auto& gather : analysis.access(instr.access).gathers)
          uniform[i] = uniform[i] && gather.value() != i;
    }
  }
  bool settled = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (!sums[i] || uniform[i]) continue;
    apart[i] = true;
    settled = false;
  }
  return settled;
}

}  // namespace

std::vector<bool> uniform_in_vectors(const ProgramAnalysis& analysis, int dim, int vector) {
  std::vector<bool> uniform(analysis.instr_count(), false), apart = uniform;
  if (dim < 0 || vector == 1) return uniform;
  while (!find_uniform(analysis, dim, vector, apart, uniform)) continue;
  return uniform;
}

VectorPlan no_vectors(const ProgramAnalysis& analysis) {
  VectorPlan scalar;
  scalar.vector_access.assign(analysis.program().accesses.size(), false);
  return scalar;
}

Schedule with_vectors(const VectorPlan& plan, ScheduleKind kind, int unroll, int threads_x,
                      int threads_y) {
  return {.kind = std::move(kind),
          .vector = plan.vector,
          .unroll = unroll,
          .threads_x = threads_x,
          .threads_y = threads_y,
          .vector_dim = plan.vector > 1 ? plan.dim : -1,
          .vector_access = plan.vector_access,
          .conditions = plan.conditions};
}

}  // namespace sinter::codegen
