// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/loop_builder.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "ir/scalar_math.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

/// Operators that have approximations, which depend on the declared type. Other operators do not
/// depend on it, so that equal ones are shared.
bool is_function(ScalarOp op) {
  return op == ScalarOp::kExp || op == ScalarOp::kErf || op == ScalarOp::kTanh ||
         op == ScalarOp::kSin || op == ScalarOp::kCos;
}

/// Casts that would round twice, first to float32 and then to a narrower type, whose result may not
/// be the nearest.
bool may_round_twice(ScalarOp op, DType from, DType declared) {
  if (op != ScalarOp::kCast) return false;
  if (declared == DType::kFloat16 || is_float8(declared)) return from == DType::kFloat64;
  return declared == DType::kBFloat16 &&
         (from == DType::kFloat64 || size_of(from) > 4 || (is_integer(from) && size_of(from) == 4));
}

InstrT instruction(InstrKind kind, DType type, std::vector<std::uint32_t> args = {}) {
  InstrT instr;
  instr.kind = kind;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.args = std::move(args);
  return instr;
}

plan::fb::Precision precision_of(DType declared) {
  if (declared == DType::kBFloat16) return plan::fb::Precision::BFloat16;
  return is_narrow_float(declared) ? plan::fb::Precision::Float16 : plan::fb::Precision::Full;
}

}  // namespace

LoopBuilder::LoopBuilder(const LoopSpace& space, ExprTable& exprs)
    : space_(space),
      exprs_(exprs),
      ranges_(space.ranges()),
      loop_symbols_(ir::index_symbol_names(space.loops().size())) {}

std::uint32_t LoopBuilder::push(InstrT instr) {
  const std::string key =
      fmt::format("{} {} {} {} {} {:x} {} {} {} {} {}", static_cast<int>(instr.kind), instr.op,
                  instr.dtype, fmt::join(instr.args, ","), instr.access,
                  std::bit_cast<std::uint64_t>(instr.constant_float), instr.constant_int, instr.dim,
                  instr.expression, static_cast<int>(instr.precision), instr.exclusive);
  const auto [at, added] = instr_by_key_.emplace(key, static_cast<std::uint32_t>(instrs_.size()));
  if (added) instrs_.push_back(std::move(instr));
  return at->second;
}

std::uint32_t LoopBuilder::constant(DType type, double value) {
  InstrT instr = instruction(InstrKind::Constant, type);
  if (is_float(type))
    instr.constant_float = value;
  else
    instr.constant_int = ir::double_to_int(type, value);
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::integer(DType type, std::int64_t value) {
  InstrT instr = instruction(InstrKind::Constant, type);
  instr.constant_int = value;
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::size(DType type, const Dim& value) {
  if (value.is_constant())
    return is_float(type) ? constant(type, static_cast<double>(value.value()))
                          : integer(type, value.value());
  InstrT instr = instruction(InstrKind::Size, type);
  instr.expression = exprs_.intern(value);
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::index_value(const Dim& index) {
  constexpr DType kIndex = DType::kInt64;
  struct Make {
    LoopBuilder& build;
    std::uint32_t constant(const Dim& value) { return build.size(kIndex, value); }
    std::uint32_t mul(std::uint32_t a, std::uint32_t b) { return op(ScalarOp::kMul, a, b); }
    std::uint32_t add(std::uint32_t a, std::uint32_t b) { return op(ScalarOp::kAdd, a, b); }
    std::uint32_t op(ScalarOp op, std::uint32_t a, std::uint32_t b) {
      return build.op(op, kIndex, {a, b});
    }
    std::uint32_t leaf(const ir::DimAtom& atom) {
      using Kind = ir::DimAtom::Kind;
      if (atom.kind == Kind::kSymbol) return build.loop_index(atom.name);
      const std::uint32_t a = build.index_value(atom.a), b = build.index_value(atom.b);
      if (atom.kind != Kind::kFloorDiv)
        return op(atom.kind == Kind::kMin ? ScalarOp::kMin : ScalarOp::kMax, a, b);
      // Integer division truncates; subtracting the remainder first makes it exact.
      return op(ScalarOp::kDiv, op(ScalarOp::kSub, a, op(ScalarOp::kMod, a, b)), b);
    }
  } make{*this};
  return make_sum(without_checks(index), ranges_, make);
}

std::uint32_t LoopBuilder::loop_index(const std::string& symbol) {
  const auto loop = std::ranges::find(loop_symbols_, symbol);
  if (loop == loop_symbols_.end())
    throw Error(ErrorCode::kUnsupported,
                "the position of a gathered element decides between sources: gather from a "
                "tensor that is computed first");
  InstrT instr = instruction(InstrKind::Index, DType::kInt64);
  instr.dim = static_cast<std::uint32_t>(loop - loop_symbols_.begin());
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::op(ScalarOp op, DType type, std::vector<std::uint32_t> args) {
  return this->op(op, type, std::move(args), type);
}

std::uint32_t LoopBuilder::op(ScalarOp op, DType type, std::vector<std::uint32_t> args,
                              DType declared) {
  if (converts(op)) {
    if (this->type(args[0]) == type) return args[0];
  } else if (yields_bool(op)) {
    for (std::size_t i = 1; i < args.size(); ++i)
      args[i] = this->op(ScalarOp::kCast, this->type(args[0]), {args[i]});
  } else {
    for (std::size_t i = op == ScalarOp::kSelect ? 1 : 0; i < args.size(); ++i)
      args[i] = this->op(ScalarOp::kCast, type, {args[i]});
  }
  InstrT instr = instruction(InstrKind::Op, yields_bool(op) ? DType::kBool : type, std::move(args));
  instr.op = static_cast<std::uint8_t>(op);
  if (type == DType::kFloat32 &&
      (is_function(op) || may_round_twice(op, this->type(instr.args[0]), declared)))
    instr.precision = precision_of(declared);
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::reduce(Combine combine, std::uint32_t value) {
  InstrT instr = instruction(InstrKind::Reduce, type(value), {value});
  instr.op = static_cast<std::uint8_t>(combine);
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::scan(Combine combine, std::uint32_t value, bool exclusive) {
  InstrT instr = instruction(InstrKind::Scan, type(value), {value});
  instr.op = static_cast<std::uint8_t>(combine);
  instr.exclusive = exclusive;
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::holds(std::span<const ir::ViewSource::Guard> guards) {
  std::optional<std::uint32_t> all;
  const auto require = [&](std::uint32_t condition) {
    all = all ? op(ScalarOp::kAnd, DType::kBool, {*all, condition}) : condition;
  };
  for (const auto& guard : guards) {
    want_split(guard.value);
    const std::uint32_t value = index_value(guard.value);
    const auto low = ir::lower_bound(guard.value, ranges_);
    if (!low || *low < 0)
      require(op(ScalarOp::kGreaterEqual, DType::kBool, {value, integer(DType::kInt64, 0)}));
    if (!ir::proves_le(guard.value, guard.extent - Dim(1), ranges_))
      require(op(ScalarOp::kLess, DType::kBool, {value, size(DType::kInt64, guard.extent)}));
  }
  return all ? *all : integer(DType::kBool, 1);
}

void LoopBuilder::want_split(const Dim& address) {
  if (!wanted_split_) wanted_split_ = space_.find_split(address);
}

bool LoopBuilder::is_check(const Dim& index) const {
  const auto symbol = index.as_symbol();
  for (std::size_t g = 0; symbol && g < gathers_.size(); ++g)
    if (*symbol == gather_symbol(g)) return gathers_[g].extent == Dim(1);
  return false;
}

Dim LoopBuilder::without_checks(const Dim& dim) const {
  std::map<std::string, Dim, std::less<>> zeros;
  for (const std::string& name : index_symbols_of(dim))
    if (is_check(Dim::symbol(name))) zeros.emplace(name, Dim(0));
  return zeros.empty() ? dim : dim.substitute(zeros);
}

Dim LoopBuilder::gather(std::uint32_t value, const Dim& extent) {
  const std::string key = fmt::format("{} {}", value, extent.to_string());
  const auto [at, added] = gather_by_key_.emplace(key, static_cast<std::uint32_t>(gathers_.size()));
  const std::string name = gather_symbol(at->second);
  if (added) {
    gathers_.push_back({value, extent});
    ranges_.insert_or_assign(name, ir::index_range(extent, ranges_));
  }
  return Dim::symbol(name);
}

std::uint32_t LoopBuilder::access(std::uint32_t buffer, const Dim& address,
                                  std::span<const ir::ViewSource::Guard> guards, double fill) {
  Access result;
  std::vector<std::string> symbols = loop_symbols_;
  for (std::size_t g = 0; g < gathers_.size(); ++g) symbols.push_back(gather_symbol(g));
  AddressParts parts = split_address(address, symbols, ranges_);
  parts.rest = without_checks(parts.rest);
  const auto refuse_gathered = [](const Dim& dim) {
    for (const std::string& name : index_symbols_of(dim))
      if (name.starts_with("$g"))
        throw Error(ErrorCode::kUnsupported,
                    "a gathered index takes part in a division, a padding or a concatenation: "
                    "gather from a tensor that is computed first");
  };
  refuse_gathered(parts.rest);
  want_split(parts.rest);
  result.offset = parts.offset;
  result.rest = parts.rest;
  const std::size_t loops = loop_symbols_.size();
  for (std::size_t g = 0; g < gathers_.size(); ++g)
    if (parts.strides[loops + g] != Dim(0))
      result.gathers.emplace_back(g, parts.strides[loops + g]);
  parts.strides.resize(loops);
  result.strides = std::move(parts.strides);
  for (const auto& given : guards) {
    const ir::ViewSource::Guard guard{without_checks(given.value), given.extent};
    refuse_gathered(guard.value);
    refuse_gathered(guard.extent);
    want_split(guard.value);
    result.guards.push_back(guard);
  }
  result.fill = result.guards.empty() ? 0 : fill;

  auto known = std::ranges::find(buffers_, buffer);
  if (known == buffers_.end()) known = buffers_.insert(known, buffer);
  result.buffer = static_cast<std::uint32_t>(known - buffers_.begin());

  std::string key = fmt::format("{} {} {:x}", result.buffer, address.to_string(),
                                std::bit_cast<std::uint64_t>(result.fill));
  for (const auto& guard : result.guards)
    key += fmt::format(" [{} < {}]", guard.value.to_string(), guard.extent.to_string());
  const auto [at, added] =
      access_by_key_.emplace(key, static_cast<std::uint32_t>(accesses_.size()));
  if (added) accesses_.push_back(std::move(result));
  return at->second;
}

std::uint32_t LoopBuilder::load(std::uint32_t buffer, DType type, const Dim& address,
                                std::span<const ir::ViewSource::Guard> guards, double fill) {
  InstrT instr = instruction(InstrKind::Load, type);
  instr.access = access(buffer, address, guards, fill);
  return push(std::move(instr));
}

void LoopBuilder::store(std::uint32_t buffer, const Dim& address, std::uint32_t value) {
  InstrT instr = instruction(InstrKind::Store, type(value), {value});
  instr.access = access(buffer, address, {}, 0);
  push(std::move(instr));
}

void LoopBuilder::scatter(std::uint32_t buffer, const Dim& address, std::uint32_t value,
                          std::optional<Combine> combine) {
  InstrT instr = instruction(InstrKind::Scatter, type(value), {value});
  instr.op = combine ? static_cast<std::uint8_t>(*combine) : plan::kScatterReplaces;
  instr.access = access(buffer, address, {}, 0);
  push(std::move(instr));
}

using plan::fb::IndexNode;

namespace {

/// Writes Dims over loop variables as IndexNodes; equal ones are shared.
class IndexNodes {
 public:
  using LoopOf = std::function<std::uint32_t(const std::string& symbol)>;
  IndexNodes(ExprTable& exprs, const Ranges& ranges, LoopOf loop_of)
      : exprs_(exprs), ranges_(ranges), loop_of_(std::move(loop_of)) {}

  std::uint32_t add(const Dim& dim) { return make_sum(dim, ranges_, *this); }

  std::vector<IndexNode> take() { return std::move(nodes_); }

  // Callbacks of make_sum().
  std::uint32_t constant(const Dim& value) {
    return push(ExprOp::Constant, exprs_.intern(value), 0);
  }
  std::uint32_t leaf(const ir::DimAtom& atom) {
    using Kind = ir::DimAtom::Kind;
    if (atom.kind == Kind::kSymbol) return push(ExprOp::Symbol, loop_of_(atom.name), 0);
    const std::uint32_t a = add(atom.a), b = add(atom.b);
    const ExprOp op = atom.kind == Kind::kFloorDiv ? ExprOp::FloorDiv
                      : atom.kind == Kind::kMin    ? ExprOp::Min
                                                   : ExprOp::Max;
    return push(op, a, b);
  }
  std::uint32_t mul(std::uint32_t a, std::uint32_t b) { return push(ExprOp::Mul, a, b); }
  std::uint32_t add(std::uint32_t a, std::uint32_t b) { return push(ExprOp::Add, a, b); }

 private:
  std::uint32_t push(ExprOp op, std::uint32_t a, std::uint32_t b) {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].op() == op && nodes_[i].a() == a && nodes_[i].b() == b)
        return static_cast<std::uint32_t>(i);
    nodes_.emplace_back(op, a, b);
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }

  ExprTable& exprs_;
  const Ranges& ranges_;
  LoopOf loop_of_;
  std::vector<IndexNode> nodes_;
};

}  // namespace

std::vector<LoopBuilder::Merged> LoopBuilder::merge_loops(bool merges) const {
  std::set<std::string> pinned;  // loops with other uses than strides
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
    if (!merges || outer.inner != inner.inner || pinned.contains(loop_symbols_[outer.last]) ||
        pinned.contains(loop_symbols_[inner.last]))
      continue;
    if (!std::ranges::all_of(accesses_, [&](const Access& access) {
          return access.strides[outer.last] == access.strides[inner.last] * inner.extent;
        }))
      continue;
    outer.last = inner.last;
    outer.extent *= inner.extent;
    merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(g));
  }
  return merged;
}

LoopProgramT LoopBuilder::finish(bool merges) {
  const std::vector<Merged> merged = merge_loops(merges);
  const bool reduces = std::ranges::any_of(instrs_, [](const auto& instr) {
    return instr.kind == InstrKind::Reduce || instr.kind == InstrKind::Scan;
  });
  // A program always has a row loop and, with reductions or scans, an element loop.
  const bool has_outer =
      std::ranges::any_of(merged, [](const Merged& loop) { return !loop.inner; });
  const bool has_inner = std::ranges::any_of(merged, [](const Merged& loop) { return loop.inner; });
  const std::size_t lead = has_outer ? 0 : 1, trail = reduces && !has_inner ? 1 : 0;

  LoopProgramT program;
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
    const auto loop = std::ranges::find(loop_symbols_, symbol);
    return position(static_cast<std::size_t>(loop - loop_symbols_.begin()));
  });
  for (const Access& access : accesses_) {
    auto result = std::make_unique<AccessT>();
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
  for (InstrT& instr : instrs_) {
    if (instr.kind == InstrKind::Index) instr.dim = position(instr.dim);
    program.instrs.push_back(std::make_unique<InstrT>(std::move(instr)));
  }
  return program;
}

}  // namespace sinter::codegen
