// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/cuda/cuda_target.h"

#include <array>

#include "codegen/targets/cuda/compile_cuda.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {
namespace {

/// Kernels count the tiles of each group in shared memory.
constexpr std::int64_t kMostGroups = 1024;

std::vector<ir::OperandFormats> formats() {
  std::vector<ir::OperandFormats> all;
  // Rows are multiples of 16 bytes.
  for (const char* const op : {"MatMul", "Conv"})
    for (const auto& pair : {std::array{DType::kInt8, DType::kUInt8},
                             std::array{DType::kFloat8E4M3FN, DType::kFloat8E5M2}})
      for (const DType left : pair)
        for (const DType right : pair)
          all.push_back({.op = op, .left = left, .right = to_string(right), .unit = 16});
  const auto scaled = [&](DType left, std::string_view codes) {
    for (const char* const op : {"MatMul", "GroupedMatMul"})
      all.push_back({.op = op,
                     .left = left,
                     .right = codes,
                     .scaled = true,
                     .unit = 16,
                     .least = 2,
                     .most = op == std::string_view("MatMul") ? INT64_MAX : kMostGroups,
                     .zeros_in_left = true});
  };
  for (const DType left : {DType::kFloat16, DType::kBFloat16}) {
    for (const char* const codes : {"i8", "i4", "f8e4m3fn", "f4e2m1"}) scaled(left, codes);
    for (const char* const codes : {"i8", "f8e4m3fn"})
      all.push_back({.op = "Attention", .left = left, .right = codes, .scaled = true, .unit = 16});
  }
  scaled(DType::kFloat8E4M3FN, "i4");
  for (const DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
    for (const char* const op : {"GroupedMatMul", "Route"})
      all.push_back({.op = op, .left = type, .right = to_string(type), .most = kMostGroups});
  for (const DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat32})
    for (const char* const rule : {"linear", "delta", "general_delta"})
      all.push_back({.op = "LinearAttention", .left = type, .right = rule, .most = kMostStateRows});
  all.push_back({.op = "GroupedMatMul",
                 .left = DType::kFloat8E4M3FN,
                 .right = "f8e4m3fn",
                 .unit = 16,
                 .most = kMostGroups});
  all.push_back({.op = "Attention",
                 .left = DType::kFloat8E4M3FN,
                 .right = "f8e4m3fn",
                 .unit = 16,
                 .least = 48,
                 .most = 128});
  return all;
}

ir::TargetTraits make_traits() {
  ir::TargetTraits traits;
  traits.generates_kernels = true;
  traits.approximates_functions = true;
  const DeviceModel& device = reference_device();
  const FusionCosts& fitted = device.fitted->fusion;
  const auto whole = [](double number) { return static_cast<std::int64_t>(number); };
  traits.launch_bytes = fitted.launch_bytes;
  traits.multiprocessors = device.multiprocessors;
  traits.reduces_strided = true;
  traits.reductions_scatter = true;
  // parts: blocks that all multiprocessors hold at once. held_row_bytes: registers of 8 blocks, as
  // float32. run_bytes: an L2 sector.
  traits.reduction_split = {.parts = 4 * std::int64_t{device.multiprocessors},
                            .fewest_parts = whole(fitted.split_fewest_parts),
                            .least_bytes = whole(fitted.split_least_bytes),
                            .least_row_bytes = whole(fitted.split_least_row_bytes),
                            .most_rows = whole(fitted.split_most_rows),
                            .shortest_part = whole(fitted.split_shortest_part),
                            .most_lines = whole(fitted.split_most_lines),
                            .shortest_column = whole(fitted.split_shortest_column),
                            .held_bytes = whole(fitted.split_held_bytes),
                            .held_row_bytes = 512 << 10,
                            .run_bytes = 32};
  traits.attention = true;
  traits.float32_attention_bytes = device.l2_bytes;
  traits.attention_prologue_rows = kAttentionPrologueRows;
  traits.gemm_kernels = true;
  traits.gemm_prologue = {.rows = kGemmPrologueRows,
                          .elements = whole(fitted.prologue_elements),
                          .columns = whole(fitted.prologue_columns)};
  traits.few_rows = kFewRows;
  traits.conv_kernel_flops = fitted.kernel_flops;
  traits.unaligned_flops = fitted.unaligned_flops;
  traits.recurrent_units = {
      {DType::kFloat16, 768}, {DType::kBFloat16, 768}, {DType::kFloat32, 512}};
  traits.horizontal = true;
  traits.horizontal_limits = {.block_share = fitted.block_share,
                              .short_row = fitted.short_row,
                              .strided_rows = fitted.strided_rows,
                              .small_transpose = fitted.small_transpose};
  traits.conv_channels_last = true;
  traits.conv_any_float = true;
  traits.conv_as_kernels = true;
  traits.conv_epilogue_residual = true;
  traits.conv_epilogue_activations = conv_activations();
  traits.matmul_epilogue_gelu_tanh = true;
  traits.matmul_stores_columns = true;
  traits.matmul_epilogue_by_rows = true;
  traits.formats = formats();
  return traits;
}

class CudaTarget final : public Target {
 public:
  std::string_view name() const override { return "cuda"; }
  const ir::TargetTraits& traits() const override { return traits_; }
  const DeviceModel& device(const std::string& architecture) const override {
    return cuda_device(architecture);
  }
  std::vector<CompiledKernel> compile(std::span<const KernelText> texts,
                                      const KernelCompileOptions& options,
                                      KernelCompileStats& stats) const override {
    return compile_cuda(texts, options, stats);
  }

 private:
  const ir::TargetTraits traits_ = make_traits();
};

}  // namespace

const Target& cuda_target() {
  static const CudaTarget target;
  return target;
}

}  // namespace sinter::codegen
