// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/weights/unpacked_weights.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/transforms.h"

namespace sinter::codegen {
namespace {

/// The largest magnitude of the elements.
double largest(const ir::Tensor& tensor) {
  double most = 0;
  for (const double value : tensor.to_doubles()) most = std::max(most, std::abs(value));
  return most;
}

const ir::Tensor& constant_of(const PlanBuffers& buffers, std::uint32_t buffer) {
  const auto constant = buffers.constant_of(buffer);
  if (!constant) throw Error(ErrorCode::kInternal, "packed weights that are no constants");
  return *constant;
}

double largest_of_type(DType type) { return type == DType::kFloat16 ? 65504 : 3e38; }

}  // namespace

/// Inputs are scales, then zero points, or factors if there is an attribute "factors".
const ir::Transform kStaysWithin = {
    "stays_within",
    [](const ir::Attrs& attrs, std::span<const ir::Tensor> inputs) {
      attrs.get_float("number"), attrs.get_float("limit");
      return inputs.size() == 1 || inputs.size() == 2;
    },
    [](const ir::Attrs& attrs, std::span<const ir::Tensor> inputs) {
      double number = attrs.get_float("number");
      if (inputs.size() > 1 && attrs.has("factors"))
        number *= largest(inputs[1]);
      else if (inputs.size() > 1)
        number += largest(inputs[1]);
      const bool stays = number * largest(inputs[0]) <= attrs.get_float("limit");
      return std::vector{ir::Tensor::scalar(DType::kBool, stays ? 1 : 0)};
    },
    1};

std::vector<std::uint32_t> UnpackProgram::reads() const {
  std::vector<std::uint32_t> buffers = {values, scales};
  if (weights.has_zeros()) buffers.push_back(zeros);
  if (weights.has_factors()) buffers.push_back(factors);
  return buffers;
}

std::optional<UnpackProgram> plan_unpacking(const GemmProgram& packed, PlanBuffers& buffers,
                                            ExprTable& exprs, std::string& refusal) {
  const Ranges& ranges = exprs.ranges();
  if (packed.is_eight_bit()) {
    refusal = "x has 8 bits";
    return std::nullopt;
  }
  const Dim rows = packed.m * ir::element_count(packed.batch);
  const auto most = ir::upper_bound(rows, ranges);
  if (most && *most < kUnpackedRows) {
    refusal = fmt::format("fewer than {} rows", kUnpackedRows);
    return std::nullopt;
  }
  UnpackProgram program;
  program.weights = *packed.weights;
  program.type = packed.type;
  program.n = packed.n.value();
  program.k = packed.k.value();
  const auto& operands = packed.program.buffers;
  program.values = operands[packed.b_buffer()];
  program.scales = operands[packed.scales_buffer()];
  std::vector<ir::Tensor> scaling{constant_of(buffers, program.scales)};
  if (packed.weights->has_zeros()) {
    program.zeros = operands[packed.zeros_buffer()];
    scaling.push_back(constant_of(buffers, program.zeros));
  }
  if (packed.weights->has_factors()) {
    program.factors = operands[packed.factors_buffer()];
    scaling.push_back(constant_of(buffers, program.factors));
  }
  ir::Attrs limits = {
      {"limit", largest_of_type(packed.type)},
      {"number", packed.weights->are_floats()  ? packed.weights->format->codes->largest
                 : packed.weights->bits() == 8 ? 128.0
                                               : 8.0}};
  if (packed.weights->has_factors()) limits.set("factors", std::int64_t{1});
  if (ir::apply(kStaysWithin, limits, scaling)[0].at(0) == 0) {
    refusal = fmt::format("weights may be beyond {}", to_string(packed.type));
    return std::nullopt;
  }
  // Needs no memory if rows are few: one plan serves both cases.
  Dim needed = 1;
  if (const auto least = ir::lower_bound(rows, ranges); !least || *least < kUnpackedRows) {
    needed = ir::min(ir::floor_div(rows, Dim(kUnpackedRows), ranges), Dim(1), ranges);
    program.conditions.emplace_back(exprs.intern(Dim(kUnpackedRows) - rows), 1, 0);
  }
  program.result = buffers.scratch(
      {packed.type, {Dim(program.blocks() * kPackedColumns * program.depth()) * needed}});
  return program;
}

GemmProgram with_unpacked_weights(GemmProgram product, const UnpackProgram& unpacking) {
  auto& buffers = product.program.buffers;
  const std::uint32_t a = buffers[product.a_buffer()];
  buffers.resize(product.first_operand());
  buffers.push_back(a);
  buffers.push_back(unpacking.result);
  product.weights.reset();
  product.b.offset = 0;
  product.b.stride = unpacking.depth();
  product.rows_are_k = false;
  product.b_is_weight = false;
  return product;
}

plan::fb::MatmulStepT with_unpacked_weights(const plan::fb::MatmulStepT& product,
                                            const UnpackProgram& unpacking, ExprTable& exprs) {
  plan::fb::MatmulStepT result(product);
  result.quantization.reset();
  result.b->buffer = unpacking.result;
  result.b->dtype = static_cast<std::uint8_t>(unpacking.type);
  result.b->offset = exprs.intern(0);
  result.b->row_stride = exprs.intern(1);
  result.b->col_stride = exprs.intern(unpacking.depth());
  return result;
}

std::string print_unpacking(const UnpackProgram& program) {
  const GemmWeights& weights = program.weights;
  return fmt::format("unpack {} bits{} group {}{} of {} for {} {}x{}\n", weights.bits(),
                     weights.are_floats() ? " (floats)" : "", weights.group(),
                     weights.has_zeros()     ? " zeros"
                     : weights.has_factors() ? " factors"
                                             : "",
                     to_string(weights.scales()), to_string(program.type), program.n, program.k);
}

}  // namespace sinter::codegen
