#include "naive_loops.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

#include <sinter/scalar_op.h>

namespace sinter::testing {
namespace {

namespace fb = plan::fb;

double half_to_double(std::uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

/// The nearest value on a grid of `bits` bits of mantissa above 2^min_exponent, ties to even.
double round_to(double value, int bits, int min_exponent, double max) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double unit = std::ldexp(1.0, exponent - bits);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::abs(rounded) > max ? std::copysign(INFINITY, value) : rounded;
}

std::uint16_t double_to_half(double value) {
  const double r = round_to(value, 10, -14, 65504);
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(r)) return 0x7e00;
  if (std::isinf(r)) return sign | 0x7c00;
  const double a = std::abs(r);
  if (a < std::ldexp(1.0, -14))
    return static_cast<std::uint16_t>(sign | static_cast<int>(std::ldexp(a, 24)));
  const int exponent = std::ilogb(a);
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) |
                                    (static_cast<int>(std::ldexp(a, 10 - exponent)) - 1024));
}

template <typename T>
T read(const std::vector<std::byte>& bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return value;
}
/// Integers wrap.
template <typename T>
T stored(double value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return value < 0 ? static_cast<T>(static_cast<std::int64_t>(value))
                     : static_cast<T>(static_cast<std::uint64_t>(value));
  else
    return static_cast<T>(value);
}
template <typename T>
void write(std::vector<std::byte>& bytes, std::int64_t index, double value) {
  const T typed = stored<T>(value);
  std::memcpy(bytes.data() + static_cast<std::size_t>(index) * sizeof(T), &typed, sizeof(T));
}

/// Of an unsigned type of at most 32 bits.
double largest(DType type) { return std::ldexp(1.0, static_cast<int>(size_of(type)) * 8) - 1; }
std::int64_t as_int(double value) { return static_cast<std::int64_t>(value); }

double apply(ScalarOp op, DType type, double a, double b, double c) {
  const bool integer = !is_float(type);
  switch (op) {
    case ScalarOp::kAdd: return a + b;
    case ScalarOp::kSub: return a - b;
    case ScalarOp::kMul: return a * b;
    case ScalarOp::kDiv: return integer ? (b == 0 ? 0 : std::trunc(a / b)) : a / b;
    case ScalarOp::kMod: {
      if (integer && b == 0) return 0;
      const double r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case ScalarOp::kFmod: return integer && b == 0 ? 0 : std::fmod(a, b);
    case ScalarOp::kPow: return std::pow(a, b);
    case ScalarOp::kMin: return std::isnan(a) || a < b ? a : b;
    case ScalarOp::kMax: return std::isnan(a) || a > b ? a : b;
    case ScalarOp::kNeg: return -a;
    case ScalarOp::kAbs: return std::abs(a);
    case ScalarOp::kSign: return a > 0 ? 1 : a < 0 ? -1 : a;
    case ScalarOp::kFloor: return std::floor(a);
    case ScalarOp::kCeil: return std::ceil(a);
    case ScalarOp::kRound: return std::nearbyint(a);
    case ScalarOp::kSqrt: return std::sqrt(a);
    case ScalarOp::kRsqrt: return 1 / std::sqrt(a);
    case ScalarOp::kReciprocal: return 1 / a;
    case ScalarOp::kExp: return std::exp(a);
    case ScalarOp::kLog: return std::log(a);
    case ScalarOp::kErf: return std::erf(a);
    case ScalarOp::kTanh: return std::tanh(a);
    case ScalarOp::kSin: return std::sin(a);
    case ScalarOp::kCos: return std::cos(a);
    case ScalarOp::kQuotient: return a / b;
    case ScalarOp::kAtan: return std::atan(a);
    case ScalarOp::kExpm1: return std::expm1(a);
    case ScalarOp::kLog1p: return std::log1p(a);
    case ScalarOp::kBitAnd: return static_cast<double>(as_int(a) & as_int(b));
    case ScalarOp::kBitOr: return static_cast<double>(as_int(a) | as_int(b));
    case ScalarOp::kBitXor: return static_cast<double>(as_int(a) ^ as_int(b));
    case ScalarOp::kEqual: return a == b;
    case ScalarOp::kNotEqual: return a != b;
    case ScalarOp::kLess: return a < b;
    case ScalarOp::kLessEqual: return a <= b;
    case ScalarOp::kGreater: return a > b;
    case ScalarOp::kGreaterEqual: return a >= b;
    case ScalarOp::kAnd: return a != 0 && b != 0;
    case ScalarOp::kOr: return a != 0 || b != 0;
    case ScalarOp::kXor: return (a != 0) != (b != 0);
    case ScalarOp::kNot: return a == 0;
    case ScalarOp::kSelect: return a != 0 ? b : c;
    case ScalarOp::kBitNot: return is_signed_integer(type) ? -a - 1 : largest(type) - a;
    case ScalarOp::kShiftLeft:
      return std::fmod(std::ldexp(a, static_cast<int>(b)), largest(type) + 1);
    case ScalarOp::kShiftRight: return std::floor(std::ldexp(a, -static_cast<int>(b)));
    case ScalarOp::kBitCast:
    case ScalarOp::kCast: return a;
    case ScalarOp::kIsNan: return std::isnan(a);
    case ScalarOp::kIsInf: return std::isinf(a);
  }
  return 0;
}

class Interpreter {
 public:
  Interpreter(const fb::PlanT& plan, const fb::LoopProgramT& program,
              const std::vector<std::int64_t>& expressions,
              std::vector<std::vector<std::byte>>& buffers)
      : plan_(plan), program_(program), values_(expressions), buffers_(buffers) {
    for (const Id extent : program.extents) extents_.push_back(values_[extent]);
    rows_ = extents_.size() - program.inner_dims;
  }

  void run() {
    const auto inputs = buffers_;
    source_ = &inputs;
    std::vector<std::int64_t> index(extents_.size(), 0);
    walk(index, 0, rows_, [&] {
      combined_.clear();
      walk(index, rows_, extents_.size(), [&] { store_all(index, false); });
      std::fill(index.begin() + static_cast<std::ptrdiff_t>(rows_), index.end(), 0);
      store_all(index, true);
    });
  }

 private:
  using Id = std::uint32_t;
  using Index = std::vector<std::int64_t>;

  void walk(Index& index, std::size_t begin, std::size_t end, const std::function<void()>& body) {
    if (begin == end) return body();
    for (index[begin] = 0; index[begin] < extents_[begin]; ++index[begin])
      walk(index, begin + 1, end, body);
    index[begin] = 0;
  }

  /// Stores per row run once, also where a row has no elements.
  bool is_row_store(const fb::InstrT& instr) const {
    for (std::size_t d = rows_; d < extents_.size(); ++d)
      if (values_[program_.accesses[instr.access]->strides[d]] != 0) return false;
    return program_.accesses[instr.access]->gathers.empty();
  }

  void store_all(const Index& index, bool rows) {
    for (const auto& instr : program_.instrs) {
      if (instr->kind == fb::InstrKind::Scatter && !rows) scatter(*instr, index);
      if (instr->kind != fb::InstrKind::Store || is_row_store(*instr) != rows) continue;
      const Id buffer = buffer_of(*instr);
      const auto at = address(*program_.accesses[instr->access], index);
      if (at)
        set_element(static_cast<DType>(plan_.buffers[buffer]->dtype), buffers_[buffer], *at,
                    value(instr->args[0], index));
    }
  }

  void scatter(const fb::InstrT& instr, const Index& index) {
    const Id buffer = buffer_of(instr);
    const auto type = static_cast<DType>(plan_.buffers[buffer]->dtype);
    const std::int64_t at = *address(*program_.accesses[instr.access], index);
    const double old = element(type, buffers_[buffer], at), x = value(instr.args[0], index);
    constexpr ScalarOp kOps[] = {ScalarOp::kAdd, ScalarOp::kMul, ScalarOp::kMax, ScalarOp::kMin};
    set_element(type, buffers_[buffer], at,
                instr.op == 255 ? x : apply(kOps[instr.op], type, old, x, 0));
  }

  Id buffer_of(const fb::InstrT& instr) const {
    return program_.buffers[program_.accesses[instr.access]->buffer];
  }

  std::int64_t node(Id id, const Index& index) const {
    const fb::IndexNode& n = program_.index_nodes[id];
    if (n.op() == fb::ExprOp::Constant) return values_[n.a()];
    if (n.op() == fb::ExprOp::Symbol) return index[n.a()];
    const std::int64_t a = node(n.a(), index), b = node(n.b(), index);
    switch (n.op()) {
      case fb::ExprOp::Add: return a + b;
      case fb::ExprOp::Sub: return a - b;
      case fb::ExprOp::Mul: return a * b;
      case fb::ExprOp::FloorDiv:
        return static_cast<std::int64_t>(
            std::floor(static_cast<double>(a) / static_cast<double>(b)));
      case fb::ExprOp::Min: return std::min(a, b);
      default: return std::max(a, b);
    }
  }

  std::optional<std::int64_t> address(const fb::AccessT& access, const Index& index) {
    for (const fb::Guard& guard : access.guards) {
      const std::int64_t at = node(guard.index(), index);
      if (at < 0 || at >= values_[guard.extent()]) return std::nullopt;
    }
    std::int64_t result = values_[access.offset];
    for (std::size_t d = 0; d < index.size(); ++d) result += values_[access.strides[d]] * index[d];
    for (const Id id : access.nonaffine) result += node(id, index);
    for (const fb::Gather& gather : access.gathers) {
      auto at = static_cast<std::int64_t>(value(gather.value(), index));
      if (at < 0) at += values_[gather.extent()];
      if (at < 0 || at >= values_[gather.extent()]) throw std::out_of_range("gather");
      result += at * values_[gather.stride()];
    }
    return result;
  }

  /// The values of a row combined, before each element and after the last.
  std::vector<double> running(const fb::InstrT& instr, const Index& row) {
    const auto combine = static_cast<Combine>(instr.op);
    double result = combine == Combine::kProd  ? 1
                    : combine == Combine::kMax ? -INFINITY
                    : combine == Combine::kMin ? INFINITY
                                               : 0;
    std::vector<double> all = {result};
    Index inner = row;
    walk(inner, rows_, extents_.size(), [&] {
      const double v = value(instr.args[0], inner);
      switch (combine) {
        case Combine::kSum: result += v; break;
        case Combine::kProd: result *= v; break;
        case Combine::kMax: result = std::max(result, v); break;
        case Combine::kMin: result = std::min(result, v); break;
      }
      all.push_back(result);
    });
    return all;
  }

  const std::vector<double>& combined(Id id, const Index& index) {
    const auto known = combined_.find(id);
    if (known != combined_.end()) return known->second;
    return combined_.emplace(id, running(*program_.instrs[id], index)).first->second;
  }

  std::size_t place_in_row(const Index& index) const {
    std::int64_t place = 0;
    for (std::size_t d = rows_; d < extents_.size(); ++d) place = place * extents_[d] + index[d];
    return static_cast<std::size_t>(place);
  }

  double value(Id id, const Index& index) {
    const fb::InstrT& instr = *program_.instrs[id];
    const auto type = static_cast<DType>(instr.dtype);
    switch (instr.kind) {
      case fb::InstrKind::Load: {
        const fb::AccessT& access = *program_.accesses[instr.access];
        const auto at = address(access, index);
        if (!at) return access.fill;
        const Id buffer = buffer_of(instr);
        return element(static_cast<DType>(plan_.buffers[buffer]->dtype), (*source_)[buffer], *at);
      }
      case fb::InstrKind::Constant:
        if (type == DType::kFloat32) return static_cast<float>(instr.constant_float);
        return is_float(type) ? instr.constant_float : static_cast<double>(instr.constant_int);
      case fb::InstrKind::Size: return static_cast<double>(values_[instr.expression]);
      case fb::InstrKind::Index: return static_cast<double>(index[instr.dim]);
      case fb::InstrKind::Op: {
        double args[3] = {};
        for (std::size_t k = 0; k < instr.args.size(); ++k) args[k] = value(instr.args[k], index);
        const auto op = static_cast<ScalarOp>(instr.op);
        const double result = apply(op, type, args[0], args[1], args[2]);
        if (op == ScalarOp::kCast && !is_float(type)) return std::trunc(result);
        return type == DType::kFloat32 ? static_cast<double>(static_cast<float>(result)) : result;
      }
      case fb::InstrKind::Reduce: return combined(id, index).back();
      case fb::InstrKind::Scan:
        return combined(id, index)[place_in_row(index) + (instr.exclusive ? 0 : 1)];
      default: return 0;
    }
  }

  const fb::PlanT& plan_;
  const fb::LoopProgramT& program_;
  const std::vector<std::int64_t>& values_;
  std::vector<std::vector<std::byte>>& buffers_;
  const std::vector<std::vector<std::byte>>* source_ = nullptr;
  std::vector<std::int64_t> extents_;
  std::size_t rows_ = 0;
  std::map<Id, std::vector<double>> combined_;  // of the row at hand
};

}  // namespace

double element(DType type, const std::vector<std::byte>& bytes, std::int64_t index) {
  switch (type) {
    case DType::kBool:
    case DType::kUInt8: return read<std::uint8_t>(bytes, index);
    case DType::kInt8: return read<std::int8_t>(bytes, index);
    case DType::kInt16: return read<std::int16_t>(bytes, index);
    case DType::kUInt16: return read<std::uint16_t>(bytes, index);
    case DType::kInt32: return read<std::int32_t>(bytes, index);
    case DType::kUInt32: return read<std::uint32_t>(bytes, index);
    case DType::kInt64: return static_cast<double>(read<std::int64_t>(bytes, index));
    case DType::kUInt64: return static_cast<double>(read<std::uint64_t>(bytes, index));
    case DType::kFloat16: return half_to_double(read<std::uint16_t>(bytes, index));
    case DType::kBFloat16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(read<std::uint16_t>(bytes, index))
                                 << 16;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    case DType::kFloat32: return read<float>(bytes, index);
    case DType::kFloat64: return read<double>(bytes, index);
  }
  return 0;
}

void set_element(DType type, std::vector<std::byte>& bytes, std::int64_t index, double value) {
  switch (type) {
    case DType::kBool: return write<std::uint8_t>(bytes, index, value != 0);
    case DType::kUInt8: return write<std::uint8_t>(bytes, index, value);
    case DType::kInt8: return write<std::int8_t>(bytes, index, value);
    case DType::kInt16: return write<std::int16_t>(bytes, index, value);
    case DType::kUInt16: return write<std::uint16_t>(bytes, index, value);
    case DType::kInt32: return write<std::int32_t>(bytes, index, value);
    case DType::kUInt32: return write<std::uint32_t>(bytes, index, value);
    case DType::kInt64: return write<std::int64_t>(bytes, index, value);
    case DType::kUInt64: return write<std::uint64_t>(bytes, index, value);
    case DType::kFloat16: return write<std::uint16_t>(bytes, index, double_to_half(value));
    case DType::kBFloat16: {
      const auto rounded = static_cast<float>(round_to(value, 7, -126, 3.3895313892515355e38));
      std::uint32_t bits;
      std::memcpy(&bits, &rounded, sizeof bits);
      return write<std::uint16_t>(bytes, index, bits >> 16);
    }
    case DType::kFloat32: return write<float>(bytes, index, value);
    case DType::kFloat64: return write<double>(bytes, index, value);
  }
}

void run_naively(const plan::fb::PlanT& plan, const plan::fb::LoopProgramT& program,
                 const std::vector<std::int64_t>& expressions,
                 std::vector<std::vector<std::byte>>& buffers) {
  Interpreter(plan, program, expressions, buffers).run();
}

}  // namespace sinter::testing
