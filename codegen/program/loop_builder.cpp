#include "codegen/program/loop_builder.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "ir/scalar_math.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using ir::Dim;
using plan::fb::ExprOp;
using plan::fb::InstrKind;
using plan::fb::InstrT;

namespace {

/// What is approximated; of other operations the declared type says nothing, and equal ones are
/// one.
bool is_function(ScalarOp op) {
  return op == ScalarOp::kExp || op == ScalarOp::kErf || op == ScalarOp::kTanh ||
         op == ScalarOp::kSin || op == ScalarOp::kCos;
}

/// Casts of what float32 may not hold exactly, to a type that is narrower still: rounded to nearest
/// twice, some would end beside the nearest number.
bool may_round_twice(ScalarOp op, DType from, DType declared) {
  if (op != ScalarOp::kCast) return false;
  if (declared == DType::kFloat16) return from == DType::kFloat64;
  return declared == DType::kBFloat16 &&
         (from == DType::kFloat64 || size_of(from) > 4 || (is_integer(from) && size_of(from) == 4));
}

plan::fb::Precision precision_of(DType declared) {
  return declared == DType::kFloat16    ? plan::fb::Precision::Float16
         : declared == DType::kBFloat16 ? plan::fb::Precision::BFloat16
                                        : plan::fb::Precision::Full;
}

}  // namespace

LoopBuilder::LoopBuilder(const LoopSpace& space, ExprTable& exprs)
    : space_(space), exprs_(exprs), ranges_(space.ranges()) {
  for (std::size_t d = 0; d < space.loops().size(); ++d)
    loop_symbols_.push_back(ir::index_symbol(static_cast<int>(d)));
}

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
  InstrT instr;
  instr.kind = InstrKind::Constant;
  instr.dtype = static_cast<std::uint8_t>(type);
  if (is_float(type))
    instr.constant_float = value;
  else
    instr.constant_int = ir::double_to_int(type, value);
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::integer(DType type, std::int64_t value) {
  InstrT instr;
  instr.kind = InstrKind::Constant;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.constant_int = value;
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::size(DType type, const Dim& value) {
  if (value.is_constant())
    return is_float(type) ? constant(type, static_cast<double>(value.value()))
                          : integer(type, value.value());
  InstrT instr;
  instr.kind = InstrKind::Size;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.expression = exprs_.intern(value);
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::index_value(const Dim& index) {
  const Dim value = without_checks(index);
  constexpr DType kIndex = DType::kInt64;
  std::optional<std::uint32_t> sum;
  Dim plain = 0;
  for (const Dim::Term& term : value.terms()) {
    Dim factor = term.coefficient;
    std::optional<std::uint32_t> product;
    for (const auto& atom : term.factors) {
      const Dim as_dim = dim_of(*atom, ranges_);
      if (!uses_index(as_dim)) {
        factor = factor * as_dim;
        continue;
      }
      std::uint32_t part = 0;
      if (atom->kind == ir::DimAtom::Kind::kSymbol) {
        const auto loop = std::find(loop_symbols_.begin(), loop_symbols_.end(), atom->name);
        if (loop == loop_symbols_.end())
          throw Error(ErrorCode::kUnsupported,
                      "the position of a gathered element decides between sources: gather from a "
                      "tensor that is computed first");
        InstrT instr;
        instr.kind = InstrKind::Index;
        instr.dtype = static_cast<std::uint8_t>(kIndex);
        instr.dim = static_cast<std::uint32_t>(loop - loop_symbols_.begin());
        part = push(std::move(instr));
      } else {
        const std::uint32_t a = index_value(atom->a), b = index_value(atom->b);
        if (atom->kind == ir::DimAtom::Kind::kFloorDiv) {
          // Division of integers truncates; what is left without the remainder divides exactly.
          const std::uint32_t remainder = op(ScalarOp::kMod, kIndex, {a, b});
          part = op(ScalarOp::kDiv, kIndex, {op(ScalarOp::kSub, kIndex, {a, remainder}), b});
        } else {
          const bool is_min = atom->kind == ir::DimAtom::Kind::kMin;
          part = op(is_min ? ScalarOp::kMin : ScalarOp::kMax, kIndex, {a, b});
        }
      }
      product = product ? op(ScalarOp::kMul, kIndex, {*product, part}) : part;
    }
    if (!product) {
      plain = plain + factor;
      continue;
    }
    if (factor != Dim(1)) product = op(ScalarOp::kMul, kIndex, {*product, size(kIndex, factor)});
    sum = sum ? op(ScalarOp::kAdd, kIndex, {*sum, *product}) : *product;
  }
  if (!sum) return size(kIndex, plain);
  if (plain != Dim(0)) sum = op(ScalarOp::kAdd, kIndex, {*sum, size(kIndex, plain)});
  return *sum;
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
  InstrT instr;
  instr.kind = InstrKind::Op;
  instr.op = static_cast<std::uint8_t>(op);
  instr.dtype = static_cast<std::uint8_t>(yields_bool(op) ? DType::kBool : type);
  instr.args = std::move(args);
  if (type == DType::kFloat32 &&
      (is_function(op) || may_round_twice(op, this->type(instr.args[0]), declared)))
    instr.precision = precision_of(declared);
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::reduce(Combine combine, std::uint32_t value) {
  InstrT instr;
  instr.kind = InstrKind::Reduce;
  instr.op = static_cast<std::uint8_t>(combine);
  instr.dtype = static_cast<std::uint8_t>(type(value));
  instr.args = {value};
  return push(std::move(instr));
}

std::uint32_t LoopBuilder::scan(Combine combine, std::uint32_t value, bool exclusive) {
  InstrT instr;
  instr.kind = InstrKind::Scan;
  instr.op = static_cast<std::uint8_t>(combine);
  instr.dtype = static_cast<std::uint8_t>(type(value));
  instr.args = {value};
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
    ir::Range range;
    range.min = 0;
    if (const auto upper = ir::upper_bound(extent, ranges_)) range.max = *upper - 1;
    range.symbolic_max = std::make_shared<const Dim>(extent - Dim(1));
    ranges_.insert_or_assign(name, range);
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

  auto known = std::find(buffers_.begin(), buffers_.end(), buffer);
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
  InstrT instr;
  instr.kind = InstrKind::Load;
  instr.dtype = static_cast<std::uint8_t>(type);
  instr.access = access(buffer, address, guards, fill);
  return push(std::move(instr));
}

void LoopBuilder::store(std::uint32_t buffer, const Dim& address, std::uint32_t value) {
  InstrT instr;
  instr.kind = InstrKind::Store;
  instr.dtype = static_cast<std::uint8_t>(type(value));
  instr.args = {value};
  instr.access = access(buffer, address, {}, 0);
  push(std::move(instr));
}

void LoopBuilder::scatter(std::uint32_t buffer, const Dim& address, std::uint32_t value,
                          std::optional<Combine> combine) {
  InstrT instr;
  instr.kind = InstrKind::Scatter;
  instr.op = combine ? static_cast<std::uint8_t>(*combine) : plan::kScatterReplaces;
  instr.dtype = static_cast<std::uint8_t>(type(value));
  instr.args = {value};
  instr.access = access(buffer, address, {}, 0);
  push(std::move(instr));
}

}  // namespace sinter::codegen
