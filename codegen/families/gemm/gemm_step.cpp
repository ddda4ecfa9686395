// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/gemm_step.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/gemm/library_lowering.h"
#include "codegen/program/loop_lowering.h"
#include "codegen/program/region_space.h"
#include "ir/scale_format.h"

namespace sinter::codegen {

GemmStep::GemmStep(const Node& node, std::vector<std::uint32_t> inputs,
                   std::vector<std::uint32_t> outputs, PlanBuffers& buffers, ExprTable& exprs,
                   const CompileOptions& options)
    : body_(as_gemm_body(node)),
      nodes_(gemm_body(*body_)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      buffers_(buffers),
      exprs_(exprs) {
  const Graph& part = *nodes_.matmul->body;
  left_type_ = part.type(gemm_node(part).inputs[0]).dtype;
  const ValueId result = nodes_.matmul->outputs[0];
  const auto output_of = [&](ValueId value) -> std::optional<std::uint32_t> {
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (root_of(*body_, body_->outputs()[i]) == value) return outputs_[i];
    return std::nullopt;
  };
  const auto own = output_of(result);
  is_scratch_ = !own;
  between_ = own ? *own : buffers_.scratch(body_->type(result));
  if (nodes_.prologue) {
    prologue_rows_ = buffers_.scratch(body_->type(nodes_.prologue->outputs[0]));
    std::vector<std::uint32_t> reads;
    for (const ValueId input : nodes_.prologue->inputs) reads.push_back(input_buffer(input));
    const std::uint32_t writes[] = {*prologue_rows_};
    prologue_ = lower_region(*nodes_.prologue->body, reads, writes, exprs_);
  }
  const auto buffer_of = [&](ValueId value) {
    value = root_of(*body_, value);
    if (value == result) return between_;
    if (nodes_.prologue && value == nodes_.prologue->outputs[0]) return *prologue_rows_;
    return input_buffer(value);
  };
  std::vector<std::uint32_t> reads;
  for (const ValueId input : nodes_.matmul->inputs) reads.push_back(buffer_of(input));
  const std::uint32_t writes[] = {between_};
  if (nodes_.is_conv)
    lower_conv_library(reads, options.tf32);
  else if (is_grouped())
    lower_groups(reads);
  else if (multiplies_quantized(*nodes_.matmul) && size_of(left_type_) == 1)
    // Only for its weights and cost: no library implements it, whatever the epilogue.
    library_ = lower_matmul(bare_product(part), reads, writes, exprs_, false);
  else if (size_of(left_type_) == 1)
    lower_eight_bit_library(reads, options.fast_accumulation);
  else
    library_ = lower_matmul(*nodes_.matmul->body, reads, writes, exprs_, options.tf32);
  if (!nodes_.epilogue) return;
  std::vector<std::uint32_t> epilogue_reads, epilogue_writes;
  for (const ValueId input : nodes_.epilogue->inputs) epilogue_reads.push_back(buffer_of(input));
  for (const ValueId output : nodes_.epilogue->outputs) {
    const auto buffer = output_of(output);
    if (!buffer)
      throw Error(ErrorCode::kInternal, "a product's region computes what nothing reads");
    epilogue_writes.push_back(*buffer);
  }
  epilogue_ = lower_region(*nodes_.epilogue->body, epilogue_reads, epilogue_writes, exprs_);
}

std::uint32_t GemmStep::input_buffer(ValueId value) const {
  const auto at = std::ranges::find(body_->inputs(), value);
  if (at == body_->inputs().end())
    throw Error(ErrorCode::kInternal, "a part of a product's region reads no input of it");
  return inputs_[static_cast<std::size_t>(at - body_->inputs().begin())];
}

bool GemmStep::is_grouped() const {
  return gemm_node(*nodes_.matmul->body).op->name == "GroupedMatMul";
}

/// Only the weights' buffers: no library multiplies rows by groups.
void GemmStep::lower_groups(Buffers reads) {
  const Graph& part = *nodes_.matmul->body;
  const Node& node = gemm_node(part);
  library_refusal_ = "no library multiplies rows by groups";
  const auto buffer = [&](std::size_t input) {
    const auto at = part.input_number(node.inputs[input]);
    if (!at) throw Error(ErrorCode::kInternal, "a grouped matmul reads no input of its region");
    return reads[*at];
  };
  plan::fb::MatmulStepT step;
  step.b = std::make_unique<plan::fb::MatrixT>();
  step.b->buffer = buffer(1);
  if (const auto format = ir::ProductFormats(node.attrs).w) {
    step.quantization = std::make_unique<plan::fb::QuantizationT>();
    step.quantization->scales = buffer(2);
    if (format->zero) step.quantization->zero_points = static_cast<std::int32_t>(buffer(3));
    if (format->has_factors) step.quantization->factors = static_cast<std::int32_t>(buffer(3));
  }
  library_ = std::move(step);
}

/// Each row is multiplied by one matrix, and each matrix is read once, if it has rows.
StepCost GemmStep::work_of_groups() const {
  const Graph& part = *nodes_.matmul->body;
  const Node& node = gemm_node(part);
  const auto bytes = [](const ir::TensorType& type) {
    return ir::element_count(type.shape) * Dim(static_cast<std::int64_t>(size_of(type.dtype)));
  };
  const TensorType &x = part.type(node.inputs[0]), &y = part.type(node.outputs[0]);
  const Dim groups = part.type(node.inputs[1]).shape[0];
  Dim weights = 0;
  for (std::size_t i = 1; i + 1 < node.inputs.size(); ++i)
    weights += bytes(part.type(node.inputs[i]));
  return {bytes(x) + ir::floor_div(weights, groups) * ir::min(y.shape[0], groups, exprs_.ranges()),
          bytes(y), Dim(2) * ir::element_count(y.shape) * x.shape[1],
          gemm_arithmetic(left_type_, plan::fb::MathMode::Default)};
}

std::vector<plan::fb::IndexSample> GemmStep::index_samples() const {
  if (!is_grouped()) return {};
  const Node& node = gemm_node(*nodes_.matmul->body);
  const auto sample = [&](const Node& region, ValueId indices, const Dim& last) {
    const auto at = region.body->input_number(indices);
    if (!at) throw Error(ErrorCode::kInternal, "indices are no input of their region");
    return plan::fb::IndexSample(input_buffer(region.inputs[*at]), exprs_.intern(last));
  };
  std::vector samples = {sample(*nodes_.matmul, node.inputs.back(),
                                nodes_.matmul->body->type(node.outputs[0]).shape[0])};
  if (!nodes_.prologue) return samples;
  const Graph& body = *nodes_.prologue->body;
  for (const Node& gather : body.nodes())
    if (gather.op->name == "Gather" && body.input_number(gather.inputs[1]))
      samples.push_back(sample(*nodes_.prologue, gather.inputs[1],
                               body.type(gather.inputs[0]).shape[0] - Dim(1)));
  return samples;
}

void GemmStep::lower_conv_library(Buffers reads, bool tf32) {
  const std::uint32_t writes[] = {between_};
  if (!is_float(left_type_) || is_eight_bit()) {
    library_refusal_ = fmt::format("cuDNN does not multiply {}", to_string(left_type_));
    return;
  }
  try {
    library_ = lower_conv(*nodes_.matmul->body, reads, writes, exprs_, tf32);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    library_refusal_ = error.what();
  }
}

/// cuBLASLt multiplies int8 of the same signedness, and fp8 unless both operands are e5m2. K must
/// be contiguous in both operands, and rows multiples of 16 bytes.
void GemmStep::lower_eight_bit_library(Buffers reads, bool fast_accumulation) {
  const std::uint32_t writes[] = {between_};
  const Graph& part = *nodes_.matmul->body;
  if (ir::has_scaled_operands(gemm_node(part))) {
    library_refusal_ = "cuBLASLt is not asked for products with scales of blocks";
    return;
  }
  const DType right = part.type(gemm_node(part).inputs[1]).dtype;
  const bool takes = is_integer(left_type_)
                         ? left_type_ == DType::kInt8 && right == DType::kInt8
                         : left_type_ != DType::kFloat8E5M2 || right != DType::kFloat8E5M2;
  if (!takes) {
    library_refusal_ =
        fmt::format("cuBLASLt does not multiply {} by {}", to_string(left_type_), to_string(right));
    return;
  }
  try {
    library_ = lower_matmul(part, reads, writes, exprs_, false);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    library_refusal_ = error.what();
    return;
  }
  auto& step = std::get<plan::fb::MatmulStepT>(library_);
  if (fast_accumulation && is_float(left_type_)) step.math = plan::fb::MathMode::FastAccumulation;
  const Dim one = 1;
  if (exprs_.dim(step.a->col_stride) != one || exprs_.dim(step.b->row_stride) != one) {
    library_refusal_ = "cuBLASLt multiplies 8 bits along a contiguous k alone";
    return;
  }
  constexpr std::uint64_t kUnit = 16;
  for (const std::uint32_t size : {step.n, step.k})
    library_conditions_.emplace_back(size, kUnit, INT64_MAX);
}

bool multiplies_eight_bits(const Node& node) {
  const Graph& part = *node.body;
  const Node& product = gemm_node(part);
  return product.op->name == "MatMul" && !ir::has_scaled_weights(product) &&
         size_of(part.type(product.inputs[0]).dtype) == 1 &&
         size_of(part.type(product.outputs[0]).dtype) > 1;
}

bool multiplies_quantized(const Node& node) {
  const Node& product = gemm_node(*node.body);
  if (product.op->name == "GroupedMatMul") return ir::ProductFormats(product.attrs).w.has_value();
  return ir::has_scaled_weights(product);
}

bool GemmStep::is_quantized() const {
  const auto* matmul = std::get_if<plan::fb::MatmulStepT>(&library_);
  return matmul && matmul->quantization;
}

std::vector<std::uint32_t> GemmStep::weights() const {
  const auto* matmul = std::get_if<plan::fb::MatmulStepT>(&library_);
  if (!matmul) return {};
  if (!matmul->quantization) return {matmul->b->buffer};
  std::vector<std::uint32_t> buffers = {matmul->b->buffer, matmul->quantization->scales};
  for (const std::int32_t more : {matmul->quantization->zero_points, matmul->quantization->factors,
                                  matmul->quantization->offsets})
    if (more >= 0) buffers.push_back(static_cast<std::uint32_t>(more));
  return buffers;
}

void GemmStep::set_library(plan::fb::WorkUnion& work, const UnpackProgram* unpacking) const {
  if (unpacking) {
    work.Set(with_unpacked_weights(std::get<plan::fb::MatmulStepT>(library_), *unpacking, exprs_));
    return;
  }
  std::visit([&](const auto& step) { work.Set(std::decay_t<decltype(step)>(step)); }, library_);
}

bool GemmStep::reduces() const {
  return epilogue_ && std::ranges::any_of(epilogue_->instrs, [](const auto& instr) {
           return instr->kind == InstrKind::Reduce;
         });
}

std::optional<GemmProgram> GemmStep::kernel(bool with_epilogue, bool with_prologue,
                                            std::string& refusal) const {
  const std::vector<std::uint32_t> between = {between_};
  return lower_gemm(*body_, with_epilogue, with_prologue ? std::nullopt : prologue_rows_, inputs_,
                    with_epilogue ? outputs_ : between, exprs_, refusal);
}

std::optional<LoopProgramT> GemmStep::loops(bool with_epilogue) const {
  const std::vector<std::uint32_t> between = {between_};
  if (!with_epilogue) return lower_product_loops(*body_, false, inputs_, between, exprs_);
  if (reduces()) return std::nullopt;
  try {
    return lower_product_loops(*body_, true, inputs_, outputs_, exprs_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return std::nullopt;
  }
}

StepCost GemmStep::work() const {
  const SizeOf size = [&](std::uint32_t buffer) { return buffers_.size(buffer); };
  StepCost work =
      is_grouped() ? work_of_groups()
      : library_refusal_.empty()
          ? std::visit([&](const auto& step) { return cost_of(step, exprs_, size); }, library_)
          : cost_of(*loops(false), exprs_, size);
  if (!library_refusal_.empty() && !is_grouped())
    work.arithmetic = gemm_arithmetic(left_type_, plan::fb::MathMode::Default);
  if (prologue_) {
    const Dim passed = buffers_.size(*prologue_rows_).bytes;
    work += cost_of(*prologue_, exprs_, size);
    work.bytes_read = work.bytes_read - passed;
    work.bytes_written = work.bytes_written - passed;
  }
  if (!epilogue_) return work;
  const Dim passed = buffers_.size(between_).bytes;
  work += cost_of(*epilogue_, exprs_, size);
  work.bytes_read = work.bytes_read - passed;
  if (is_scratch_) work.bytes_written = work.bytes_written - passed;
  return work;
}

}  // namespace sinter::codegen
