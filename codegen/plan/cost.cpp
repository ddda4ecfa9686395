// SPDX-License-Identifier: Apache-2.0
#include "codegen/plan/cost.h"

#include <algorithm>
#include <map>
#include <vector>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

/// The loops on which each instruction and access depends.
class Dependence {
 public:
  explicit Dependence(const LoopProgramT& program, const ExprTable& exprs)
      : program_(program), exprs_(exprs) {
    for (const auto& instr : program.instrs) loops_.push_back(of_instr(*instr));
  }

  const std::vector<bool>& of(std::size_t instr) const { return loops_[instr]; }

  std::vector<bool> of_access(const AccessT& access) const {
    std::vector<bool> loops(program_.extents.size());
    for (std::size_t d = 0; d < access.strides.size(); ++d)
      loops[d] = exprs_.dim(access.strides[d]) != Dim(0);
    for (const auto& gather : access.gathers) join(loops, loops_[gather.value()]);
    for (const std::uint32_t node : access.nonaffine) of_index(node, loops);
    for (const auto& guard : access.guards) of_index(guard.index(), loops);
    return loops;
  }

  /// Product of the extents of `loops`.
  Dim points(const std::vector<bool>& loops) const {
    Dim count = 1;
    for (std::size_t d = 0; d < loops.size(); ++d)
      if (loops[d]) count *= exprs_.dim(program_.extents[d]);
    return count;
  }

 private:
  static void join(std::vector<bool>& into, const std::vector<bool>& from) {
    for (std::size_t d = 0; d < into.size(); ++d) into[d] = into[d] || from[d];
  }

  void of_index(std::uint32_t index, std::vector<bool>& loops) const {
    const auto& node = program_.index_nodes[index];
    if (node.op() == ExprOp::Symbol) {
      loops[node.a()] = true;
    } else if (node.op() != ExprOp::Constant) {
      of_index(node.a(), loops);
      of_index(node.b(), loops);
    }
  }

  std::vector<bool> of_instr(const InstrT& instr) const {
    std::vector<bool> loops(program_.extents.size());
    if (instr.kind == InstrKind::Index) loops[instr.dim] = true;
    if (plan::is_memory(instr.kind)) loops = of_access(*program_.accesses[instr.access]);
    for (const std::uint32_t arg : instr.args) join(loops, loops_[arg]);
    if (instr.kind == InstrKind::Scan)
      std::fill(loops.end() - static_cast<std::ptrdiff_t>(program_.inner_dims), loops.end(), true);
    if (instr.kind == InstrKind::Reduce)
      std::fill(loops.end() - static_cast<std::ptrdiff_t>(program_.inner_dims), loops.end(), false);
    return loops;
  }

  const LoopProgramT& program_;
  const ExprTable& exprs_;
  std::vector<std::vector<bool>> loops_;
};

/// Bytes of `count` elements of a buffer, at most its size.
Dim touched(const Dim& count, const BufferSize& size, const ExprTable& exprs) {
  return ir::min(count * Dim(static_cast<std::int64_t>(size.element_size)), size.bytes,
                 exprs.ranges());
}

Dim shape_count(const std::vector<std::uint32_t>& shape, const ExprTable& exprs) {
  Dim count = 1;
  for (const std::uint32_t dim : shape) count *= exprs.dim(dim);
  return count;
}

}  // namespace

StepCost& StepCost::operator+=(const StepCost& other) {
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  flops += other.flops;
  return *this;
}

plan::fb::Arithmetic gemm_arithmetic(DType operands, plan::fb::MathMode math) {
  using plan::fb::Arithmetic;
  if (operands == DType::kFloat64) return Arithmetic::Double;
  if (operands == DType::kFloat32)
    return math == plan::fb::MathMode::Tf32 ? Arithmetic::Tf32 : Arithmetic::Single;
  if (!is_float(operands)) return Arithmetic::Int8;
  return size_of(operands) == 1 ? Arithmetic::Float8 : Arithmetic::Half;
}

StepCost cost_of(const LoopProgramT& program, const ExprTable& exprs, const SizeOf& size) {
  const Dependence dependence(program, exprs);
  StepCost work;
  std::map<std::uint32_t, Dim> read, written;  // elements, by buffer
  for (std::size_t i = 0; i < program.instrs.size(); ++i) {
    const auto& instr = *program.instrs[i];
    switch (instr.kind) {
      case InstrKind::Load:
      case InstrKind::Store:
      case InstrKind::Scatter: {
        const auto& access = *program.accesses[instr.access];
        Dim& elements =
            (instr.kind == InstrKind::Load ? read : written)[program.buffers[access.buffer]];
        elements += dependence.points(
            instr.kind == InstrKind::Scatter ? dependence.of(i) : dependence.of_access(access));
        break;
      }
      case InstrKind::Op:
        if (static_cast<ScalarOp>(instr.op) != ScalarOp::kCast)
          work.flops += dependence.points(dependence.of(i));
        break;
      case InstrKind::Reduce:
      case InstrKind::Scan: work.flops += dependence.points(dependence.of(instr.args[0])); break;
      default: break;
    }
  }
  for (const auto& [buffer, count] : read) work.bytes_read += touched(count, size(buffer), exprs);
  for (const auto& [buffer, count] : written)
    work.bytes_written += touched(count, size(buffer), exprs);
  return work;
}

StepCost cost_of(const plan::fb::MatmulStepT& step, const ExprTable& exprs, const SizeOf& size) {
  const Dim m = exprs.dim(step.m), n = exprs.dim(step.n), k = exprs.dim(step.k);
  const auto elements = [&](const plan::fb::MatrixT& matrix, const Dim& one) {
    Dim count = one;
    for (std::size_t d = 0; d < step.batch.size(); ++d)
      if (exprs.dim(matrix.batch_strides[d]) != Dim(0)) count *= exprs.dim(step.batch[d]);
    return touched(count, size(matrix.buffer), exprs);
  };
  StepCost work;
  const auto all_of = [&](std::int64_t buffer) {
    return size(static_cast<std::uint32_t>(buffer)).bytes;
  };
  work.bytes_read = elements(*step.a, m * k);
  if (step.quantization) {
    work.bytes_read += all_of(step.b->buffer) + all_of(step.quantization->scales);
    for (const std::int32_t more :
         {step.quantization->zero_points, step.quantization->factors, step.quantization->offsets})
      if (more >= 0) work.bytes_read += all_of(more);
  } else {
    work.bytes_read += elements(*step.b, k * n);
  }
  if (step.residual) work.bytes_read += elements(*step.residual, m * n);
  if (step.bias >= 0) work.bytes_read += all_of(step.bias);
  work.bytes_written = elements(*step.d, m * n);
  work.flops = Dim(2) * m * n * k * shape_count(step.batch, exprs);
  work.arithmetic = gemm_arithmetic(static_cast<DType>(step.a->dtype), step.math);
  return work;
}

StepCost cost_of(const plan::fb::ConvStepT& step, const ExprTable& exprs, const SizeOf& size) {
  StepCost work;
  work.bytes_read = size(step.input).bytes + size(step.weight).bytes;
  if (step.bias >= 0) work.bytes_read += size(static_cast<std::uint32_t>(step.bias)).bytes;
  if (step.residual >= 0) work.bytes_read += size(static_cast<std::uint32_t>(step.residual)).bytes;
  work.bytes_written = size(step.output).bytes;
  Dim products = shape_count(step.output_shape, exprs);
  for (std::size_t d = 1; d < step.weight_shape.size(); ++d)
    products *= exprs.dim(step.weight_shape[d]);
  work.flops = Dim(2) * products;
  const std::size_t element = size(step.input).element_size;
  work.arithmetic = gemm_arithmetic(
      element == 2 ? DType::kFloat16 : (element == 8 ? DType::kFloat64 : DType::kFloat32),
      step.math);
  return work;
}

}  // namespace sinter::codegen
