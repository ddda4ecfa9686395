// The last step of lowering a region: loops merged, Dims interned, tables numbered.
#include <algorithm>
#include <functional>
#include <set>

#include "codegen/program/loop_builder.h"

namespace sinter::codegen {

using ir::Dim;
using plan::fb::ExprOp;
using plan::fb::IndexNode;
using plan::fb::InstrKind;

namespace {

/// Writes Dims over loop variables as IndexNodes, shared where equal.
class IndexNodes {
 public:
  using LoopOf = std::function<std::uint32_t(const std::string& symbol)>;
  IndexNodes(ExprTable& exprs, const ir::Ranges& ranges, LoopOf loop_of)
      : exprs_(exprs), ranges_(ranges), loop_of_(std::move(loop_of)) {}

  std::uint32_t add(const Dim& dim) {
    std::optional<std::uint32_t> sum;
    Dim plain = 0;
    for (const Dim::Term& term : dim.terms()) {
      Dim factor = term.coefficient;
      std::optional<std::uint32_t> product;
      for (const auto& atom : term.factors) {
        const Dim as_dim = dim_of(*atom, ranges_);
        if (!uses_index(as_dim)) {
          factor = factor * as_dim;
          continue;
        }
        const std::uint32_t part = add(*atom);
        product = product ? push(ExprOp::Mul, *product, part) : part;
      }
      if (!product) {
        plain = plain + factor;
        continue;
      }
      if (factor != Dim(1)) product = push(ExprOp::Mul, *product, constant(factor));
      sum = sum ? push(ExprOp::Add, *sum, *product) : *product;
    }
    if (!sum) return constant(plain);
    return plain == Dim(0) ? *sum : push(ExprOp::Add, *sum, constant(plain));
  }

  std::vector<IndexNode> take() { return std::move(nodes_); }

 private:
  std::uint32_t constant(const Dim& value) {
    return push(ExprOp::Constant, exprs_.intern(value), 0);
  }

  std::uint32_t add(const ir::DimAtom& atom) {
    using Kind = ir::DimAtom::Kind;
    if (atom.kind == Kind::kSymbol) return push(ExprOp::Symbol, loop_of_(atom.name), 0);
    const std::uint32_t a = add(atom.a), b = add(atom.b);
    const ExprOp op = atom.kind == Kind::kFloorDiv ? ExprOp::FloorDiv
                      : atom.kind == Kind::kMin    ? ExprOp::Min
                                                   : ExprOp::Max;
    return push(op, a, b);
  }

  std::uint32_t push(ExprOp op, std::uint32_t a, std::uint32_t b) {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].op() == op && nodes_[i].a() == a && nodes_[i].b() == b)
        return static_cast<std::uint32_t>(i);
    nodes_.emplace_back(op, a, b);
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }

  ExprTable& exprs_;
  const ir::Ranges& ranges_;
  LoopOf loop_of_;
  std::vector<IndexNode> nodes_;
};

}  // namespace

std::vector<LoopBuilder::Merged> LoopBuilder::merge_loops() const {
  std::set<std::string> pinned;  // loops that something else than a stride refers to
  const auto pin = [&](const Dim& dim) {
    for (std::string& name : index_symbols_of(dim)) pinned.insert(std::move(name));
  };
  for (const Access& access : accesses_) {
    pin(access.rest);
    for (const auto& guard : access.guards) {
      pin(guard.value);
      pin(guard.extent);
    }
  }
  for (const auto& instr : instrs_)
    if (instr.kind == InstrKind::Index) pinned.insert(loop_symbols_[instr.dim]);

  std::vector<Merged> merged;
  const auto& loops = space_.loops();
  for (std::size_t d = 0; d < loops.size(); ++d)
    merged.push_back({d, d, loops[d].extent, loops[d].inner});
  for (std::size_t g = merged.size(); g-- > 1;) {
    Merged& outer = merged[g - 1];
    const Merged& inner = merged[g];
    if (outer.inner != inner.inner || pinned.contains(loop_symbols_[outer.last]) ||
        pinned.contains(loop_symbols_[inner.last]))
      continue;
    if (!std::all_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
          return access.strides[outer.last] == access.strides[inner.last] * inner.extent;
        }))
      continue;
    outer.last = inner.last;
    outer.extent = outer.extent * inner.extent;
    merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(g));
  }
  return merged;
}

plan::fb::LoopProgramT LoopBuilder::finish() {
  const std::vector<Merged> merged = merge_loops();
  const bool reduces = std::any_of(instrs_.begin(), instrs_.end(), [](const auto& instr) {
    return instr.kind == InstrKind::Reduce || instr.kind == InstrKind::Scan;
  });
  // There always is a loop over rows, and with reductions or scans one along the row.
  const bool has_outer =
      std::any_of(merged.begin(), merged.end(), [](const Merged& loop) { return !loop.inner; });
  const bool has_inner =
      std::any_of(merged.begin(), merged.end(), [](const Merged& loop) { return loop.inner; });
  const std::size_t lead = has_outer ? 0 : 1, trail = reduces && !has_inner ? 1 : 0;

  plan::fb::LoopProgramT program;
  program.extents.assign(lead, exprs_.intern(Dim(1)));
  for (const Merged& loop : merged) {
    program.extents.push_back(exprs_.intern(loop.extent));
    program.inner_dims += loop.inner ? 1 : 0;
  }
  program.extents.insert(program.extents.end(), trail, exprs_.intern(Dim(1)));
  program.inner_dims += static_cast<std::uint32_t>(trail);
  program.buffers = buffers_;

  const auto position = [&](std::size_t loop) {
    std::size_t g = 0;
    while (merged[g].last < loop) ++g;
    return static_cast<std::uint32_t>(g + lead);
  };
  IndexNodes nodes(exprs_, ranges_, [&](const std::string& symbol) {
    const auto loop = std::find(loop_symbols_.begin(), loop_symbols_.end(), symbol);
    return position(static_cast<std::size_t>(loop - loop_symbols_.begin()));
  });
  for (const Access& access : accesses_) {
    auto result = std::make_unique<plan::fb::AccessT>();
    result->buffer = access.buffer;
    result->offset = exprs_.intern(access.offset);
    result->strides.assign(lead, exprs_.intern(Dim(0)));
    for (const Merged& loop : merged)
      result->strides.push_back(exprs_.intern(access.strides[loop.last]));
    result->strides.insert(result->strides.end(), trail, exprs_.intern(Dim(0)));
    for (const auto& [gather, stride] : access.gathers)
      result->gathers.emplace_back(gathers_[gather].value, exprs_.intern(gathers_[gather].extent),
                                   exprs_.intern(stride));
    if (access.rest != Dim(0)) result->nonaffine.push_back(nodes.add(access.rest));
    for (const auto& guard : access.guards)
      result->guards.emplace_back(nodes.add(guard.value), exprs_.intern(guard.extent));
    result->fill = access.fill;
    program.accesses.push_back(std::move(result));
  }
  program.index_nodes = nodes.take();
  for (plan::fb::InstrT& instr : instrs_) {
    if (instr.kind == InstrKind::Index) instr.dim = position(instr.dim);
    program.instrs.push_back(std::make_unique<plan::fb::InstrT>(std::move(instr)));
  }
  return program;
}

}  // namespace sinter::codegen
