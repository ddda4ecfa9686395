// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/cuda/cuda_target.h"

#include <array>

#include "codegen/targets/cuda/compile_cuda.h"

namespace sinter::codegen {
namespace {

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
    all.push_back({.op = "MatMul",
                   .left = left,
                   .right = codes,
                   .scaled = true,
                   .unit = 16,
                   .least = 2,
                   .zeros_in_left = true});
  };
  for (const DType left : {DType::kFloat16, DType::kBFloat16}) {
    for (const char* const codes : {"i8", "i4", "f8e4m3fn", "f4e2m1"}) scaled(left, codes);
    for (const char* const codes : {"i8", "f8e4m3fn"})
      all.push_back({.op = "Attention", .left = left, .right = codes, .scaled = true, .unit = 16});
  }
  scaled(DType::kFloat8E4M3FN, "i4");
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
  traits.launch_bytes = 5e6;  // 1.25 us at 4 TB/s
  traits.reduces_strided = true;
  traits.reductions_scatter = true;
  // Blocks that all multiprocessors hold at once.
  traits.reduction_split = {.parts = 528,
                            .fewest_parts = 8,
                            .least_bytes = 4 << 20,
                            .most_rows = 16,
                            .shortest_part = 2048,
                            .most_lines = 66,
                            .shortest_column = 128,
                            // Above held_bytes, the serial passes of one kernel take too long.
                            // held_row_bytes: registers of 8 blocks, as float32. run_bytes: an L2
                            // sector.
                            .held_bytes = 8 << 20,
                            .held_row_bytes = 512 << 10,
                            .run_bytes = 32};
  traits.attention = true;
  traits.attention_prologue = true;
  traits.gemm_kernels = true;
  traits.conv_kernel_flops = kMostKernelFlops;
  traits.recurrent_types = {DType::kFloat16, DType::kBFloat16};
  traits.recurrent_units = 768;
  traits.horizontal = true;
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
