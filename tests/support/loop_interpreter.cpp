// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loop_interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "ir/scalar_expr.h"
#include "runtime/plan/loop_values.h"

namespace sinter::test {

using plan::fb::ExprOp;
using plan::fb::InstrKind;

namespace {

using ir::Scalar;

constexpr ScalarOp kCombineOps[] = {ScalarOp::kAdd, ScalarOp::kMul, ScalarOp::kMax, ScalarOp::kMin};

std::byte* element(Memory& memory, std::uint32_t buffer, DType type, std::int64_t index) {
  auto& bytes = memory.at(buffer);
  if (index < 0 || (static_cast<std::size_t>(index) + 1) * size_of(type) > bytes.size())
    throw std::out_of_range(fmt::format("element {} of buffer {}", index, buffer));
  return bytes.data() + static_cast<std::size_t>(index) * size_of(type);
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

class Interpreter {
 public:
  Interpreter(const plan::fb::LoopProgramT& program, std::span<const DType> types,
              std::span<const std::int64_t> expressions, Memory& memory, Between between)
      : program_(program),
        types_(types),
        expressions_(expressions),
        memory_(memory),
        between_(between) {
    for (const std::uint32_t extent : program.extents) extents_.push_back(expressions[extent]);
    for (std::size_t d = 0; d < extents_.size(); ++d)
      (d + program.inner_dims < extents_.size() ? rows_ : row_length_) *= extents_[d];
  }

  void run() {
    for (std::int64_t row = 0; row < rows_; ++row) {
      if (row_length_ == 0) {
        run_empty_row(row);
        continue;
      }
      values_.assign(program_.instrs.size(),
                     std::vector<Scalar>(static_cast<std::size_t>(row_length_)));
      for (std::size_t i = 0; i < program_.instrs.size(); ++i) {
        if (program_.instrs[i]->kind == InstrKind::Reduce) {
          reduce(i);
          continue;
        }
        if (program_.instrs[i]->kind == InstrKind::Scan) {
          scan(i);
          continue;
        }
        for (std::int64_t e = 0; e < row_length_; ++e) {
          locate(row, e);
          at_ = static_cast<std::size_t>(e);
          step(i);
        }
      }
    }
  }

 private:
  void locate(std::int64_t row, std::int64_t e) {
    index_.resize(extents_.size());
    std::int64_t linear = row * row_length_ + e;
    for (std::size_t d = extents_.size(); d-- > 0;) {
      index_[d] = linear % extents_[d];
      linear /= extents_[d];
    }
  }

  /// A row without elements stores what is one value for the whole row: reductions of nothing, and
  /// what is computed from them.
  void run_empty_row(std::int64_t row) {
    index_.assign(extents_.size(), 0);
    for (std::size_t d = extents_.size() - program_.inner_dims; d-- > 0; row /= extents_[d])
      index_[d] = row % extents_[d];
    std::vector<bool> needed(program_.instrs.size());
    for (std::size_t i = program_.instrs.size(); i-- > 0;) {
      const auto& instr = *program_.instrs[i];
      if (instr.kind == InstrKind::Store) needed[i] = is_of_row(*program_.accesses[instr.access]);
      if (!needed[i] || instr.kind == InstrKind::Reduce) continue;
      for (const std::uint32_t arg : instr.args) needed[arg] = true;
      if (instr.kind == InstrKind::Load)
        for (const auto& gather : program_.accesses[instr.access]->gathers)
          needed[gather.value()] = true;
    }
    values_.assign(program_.instrs.size(), std::vector<Scalar>(1));
    at_ = 0;
    for (std::size_t i = 0; i < program_.instrs.size(); ++i) {
      if (program_.instrs[i]->kind == InstrKind::Reduce)
        values_[i][0] = identity_of(static_cast<Combine>(program_.instrs[i]->op));
      else if (needed[i])
        step(i);
    }
  }

  static Scalar identity_of(Combine combine) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    switch (combine) {
      case Combine::kSum: return {0, 0};
      case Combine::kProd: return {1, 1};
      case Combine::kMax: return {-kInfinity, INT64_MIN};
      case Combine::kMin: return {kInfinity, INT64_MAX};
    }
    throw std::logic_error("unknown combination");
  }

  bool is_of_row(const plan::fb::AccessT& access) const {
    for (std::size_t d = extents_.size() - program_.inner_dims; d < extents_.size(); ++d)
      if (expressions_[access.strides.at(d)] != 0) return false;
    return access.gathers.empty();
  }

  std::int64_t index_node(std::uint32_t i) const {
    const auto& node = program_.index_nodes.at(i);
    if (node.op() == ExprOp::Constant) return expressions_[node.a()];
    if (node.op() == ExprOp::Symbol) return index_.at(node.a());
    const std::int64_t a = index_node(node.a()), b = index_node(node.b());
    switch (node.op()) {
      case ExprOp::Add: return a + b;
      case ExprOp::Sub: return a - b;
      case ExprOp::Mul: return a * b;
      case ExprOp::FloorDiv: return floor_divide(a, b);
      case ExprOp::Min: return std::min(a, b);
      default: return std::max(a, b);
    }
  }

  std::int64_t address(const plan::fb::AccessT& access) const {
    std::int64_t result = expressions_[access.offset];
    for (std::size_t d = 0; d < extents_.size(); ++d)
      result += expressions_[access.strides.at(d)] * index_[d];
    for (const auto& gather : access.gathers) {
      std::int64_t value = values_[gather.value()][at_].i;
      const std::int64_t extent = expressions_[gather.extent()];
      if (value < 0) value += extent;
      if (value < 0 || value >= extent) throw std::out_of_range("gathered index");
      result += expressions_[gather.stride()] * value;
    }
    for (const std::uint32_t node : access.nonaffine) result += index_node(node);
    return result;
  }

  bool gathers_inside(const plan::fb::AccessT& access) const {
    return std::all_of(access.gathers.begin(), access.gathers.end(), [&](const auto& gather) {
      const std::int64_t value = values_[gather.value()][at_].i;
      const std::int64_t extent = expressions_[gather.extent()];
      return value >= -extent && value < extent;
    });
  }

  void step(std::size_t i) {
    const auto& instr = *program_.instrs[i];
    const auto type = static_cast<DType>(instr.dtype);
    Scalar& value = values_[i][at_];
    switch (instr.kind) {
      case InstrKind::Constant:
        value.f = instr.constant_float;
        value.i = instr.constant_int;
        break;
      case InstrKind::Index: value.i = index_.at(instr.dim); break;
      case InstrKind::Size:
        value.i = expressions_[instr.expression];
        value.f = static_cast<double>(value.i);
        break;
      case InstrKind::Op: {
        Scalar args[3];
        for (std::size_t a = 0; a < instr.args.size(); ++a) args[a] = values_[instr.args[a]][at_];
        const auto op = static_cast<ScalarOp>(instr.op);
        const auto first = static_cast<DType>(program_.instrs[instr.args[0]]->dtype);
        value = ir::apply_scalar_op(op, yields_bool(op) ? first : type, first, args);
        break;
      }
      case InstrKind::Load: {
        const auto& access = *program_.accesses[instr.access];
        const std::uint32_t buffer = program_.buffers[access.buffer];
        bool inside = true;
        for (const auto& guard : access.guards) {
          const std::int64_t index = index_node(guard.index());
          inside = inside && index >= 0 && index < expressions_[guard.extent()];
        }
        if (!inside) {
          value.f = access.fill;
          value.i = static_cast<std::int64_t>(access.fill);
          break;
        }
        const std::byte* p = element(memory_, buffer, types_[buffer], address(access));
        if (is_float(type))
          value.f = ir::load_as_double(types_[buffer], p);
        else
          value.i = ir::load_as_int(types_[buffer], p);
        break;
      }
      case InstrKind::Store: {
        const auto& access = *program_.accesses[instr.access];
        const std::uint32_t buffer = program_.buffers[access.buffer];
        std::byte* p = element(memory_, buffer, types_[buffer], address(access));
        const Scalar& result = values_[instr.args[0]][at_];
        if (is_float(type))
          ir::store_double(types_[buffer], p, result.f);
        else
          ir::store_int(types_[buffer], p, result.i);
        break;
      }
      case InstrKind::Scatter: {
        const auto& access = *program_.accesses[instr.access];
        const std::uint32_t buffer = program_.buffers[access.buffer];
        if (!gathers_inside(access)) break;  // as on the GPU
        std::byte* p = element(memory_, buffer, types_[buffer], address(access));
        Scalar result = values_[instr.args[0]][at_];
        if (instr.op != plan::kScatterReplaces) {
          Scalar old;
          if (is_float(type))
            old.f = ir::load_as_double(types_[buffer], p);
          else
            old.i = ir::load_as_int(types_[buffer], p);
          const Scalar args[2] = {old, result};
          result = ir::apply_scalar_op(kCombineOps[instr.op], type, type, args);
        }
        if (is_float(type))
          ir::store_double(types_[buffer], p, result.f);
        else
          ir::store_int(types_[buffer], p, result.i);
        break;
      }
      default: throw std::logic_error("unknown instruction");
    }
    if (between_ == Between::kRounded && type == DType::kFloat32)
      value.f = static_cast<double>(static_cast<float>(value.f));
  }

  void scan(std::size_t i) {
    const auto& instr = *program_.instrs[i];
    const auto type = static_cast<DType>(instr.dtype);
    const std::vector<Scalar>& elements = values_[instr.args[0]];
    Scalar total = identity_of(static_cast<Combine>(instr.op));
    for (std::size_t e = 0; e < elements.size(); ++e) {
      const Scalar args[2] = {total, elements[e]};
      if (instr.exclusive) values_[i][e] = total;
      total = e == 0 ? elements[e] : ir::apply_scalar_op(kCombineOps[instr.op], type, type, args);
      if (!instr.exclusive) values_[i][e] = total;
    }
  }

  void reduce(std::size_t i) {
    const auto& instr = *program_.instrs[i];
    const auto type = static_cast<DType>(instr.dtype);
    const std::vector<Scalar>& elements = values_[instr.args[0]];
    Scalar sum = elements.at(0);
    for (std::size_t e = 1; e < elements.size(); ++e) {
      const Scalar args[2] = {sum, elements[e]};
      sum = ir::apply_scalar_op(kCombineOps[instr.op], type, type, args);
    }
    values_[i].assign(elements.size(), sum);
  }

  const plan::fb::LoopProgramT& program_;
  std::span<const DType> types_;
  std::span<const std::int64_t> expressions_;
  Memory& memory_;
  Between between_;
  std::vector<std::int64_t> extents_, index_;
  std::int64_t rows_ = 1, row_length_ = 1;
  std::vector<std::vector<Scalar>> values_;
  std::size_t at_ = 0;
};

double activate(plan::fb::Activation activation, double x) {
  switch (activation) {
    case plan::fb::Activation::None: return x;
    case plan::fb::Activation::Relu: return x > 0 ? x : 0;
    case plan::fb::Activation::GeluErf: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case plan::fb::Activation::GeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default: break;
  }
  throw std::logic_error("unknown activation");
}

}  // namespace

void interpret(const plan::fb::LoopProgramT& program, std::span<const DType> types,
               std::span<const std::int64_t> expressions, Memory& memory, Between between) {
  Interpreter(program, types, expressions, memory, between).run();
}

void interpret(const plan::fb::MatmulStepT& step, std::span<const DType> types,
               std::span<const std::int64_t> expressions, Memory& memory) {
  std::vector<std::int64_t> batch;
  std::int64_t batches = 1;
  for (const std::uint32_t extent : step.batch) {
    batch.push_back(expressions[extent]);
    batches *= batch.back();
  }
  const auto at = [&](const plan::fb::MatrixT& matrix, std::int64_t b, std::int64_t r,
                      std::int64_t c) {
    std::int64_t index = expressions[matrix.offset] + r * expressions[matrix.row_stride] +
                         c * expressions[matrix.col_stride];
    for (std::size_t d = batch.size(); d-- > 0;) {
      index += b % batch[d] * expressions[matrix.batch_strides.at(d)];
      b /= batch[d];
    }
    if (types[matrix.buffer] != static_cast<DType>(matrix.dtype))
      throw std::logic_error("a matrix of another type than its buffer");
    return element(memory, matrix.buffer, types[matrix.buffer], index);
  };
  const auto weight = [&](std::int64_t k, std::int64_t j) {
    const plan::fb::QuantizationT& quantization = *step.quantization;
    std::int64_t index = k * expressions[step.b->row_stride] + j * expressions[step.b->col_stride];
    int number = 0;
    if (quantization.bits == 8) {
      number = static_cast<std::int8_t>(*element(memory, step.b->buffer, DType::kInt8, index));
    } else {
      const int both =
          std::to_integer<int>(*element(memory, step.b->buffer, DType::kUInt8, index / 2));
      number = (index % 2 == 0 ? both & 15 : both >> 4) - 8;
    }
    const auto group = static_cast<std::int64_t>(quantization.group);
    index = j * ((expressions[step.k] + group - 1) / group) + k / group;
    const auto parameter = [&](std::uint32_t buffer) {
      return ir::load_as_double(types[buffer], element(memory, buffer, types[buffer], index));
    };
    const double zero = quantization.zero_points < 0
                            ? 0
                            : parameter(static_cast<std::uint32_t>(quantization.zero_points));
    return (number - zero) * parameter(quantization.scales);
  };
  for (std::int64_t b = 0; b < batches; ++b) {
    for (std::int64_t i = 0; i < expressions[step.m]; ++i) {
      for (std::int64_t j = 0; j < expressions[step.n]; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < expressions[step.k]; ++k)
          sum += ir::load_as_double(static_cast<DType>(step.a->dtype), at(*step.a, b, i, k)) *
                 (step.quantization ? weight(k, j)
                                    : ir::load_as_double(static_cast<DType>(step.b->dtype),
                                                         at(*step.b, b, k, j)));
        sum *= static_cast<double>(step.alpha);
        if (step.bias >= 0) {
          const auto bias = static_cast<std::uint32_t>(step.bias);
          sum += ir::load_as_double(types[bias], element(memory, bias, types[bias], j));
        }
        if (step.residual)
          sum += ir::load_as_double(static_cast<DType>(step.residual->dtype),
                                    at(*step.residual, b, i, j));
        ir::store_double(static_cast<DType>(step.d->dtype), at(*step.d, b, i, j),
                         activate(step.activation, sum));
      }
    }
  }
}

}  // namespace sinter::test
