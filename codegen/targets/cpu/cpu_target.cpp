// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/cpu/cpu_target.h"

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::codegen {
namespace {

ir::TargetTraits make_traits() {
  ir::TargetTraits traits;
  // Starting a loop nest on all threads takes about 3 us, at 20 GB/s.
  traits.launch_bytes = 6.4e4;
  // One thread computes a row, or a tile's rows side by side.
  traits.reduction_split = {.parts = 64,
                            .fewest_parts = 4,
                            .least_bytes = 1 << 16,
                            .most_rows = 4,
                            .shortest_part = 4096,
                            .most_lines = 16,
                            .shortest_column = 16};
  traits.has_conv = true;
  traits.conv_channels_last = true;
  traits.conv_epilogue_residual = true;
  traits.conv_epilogue_activations = conv_activations();
  // oneDNN's Silu is slower than a separate loop over data in the cache.
  traits.conv_epilogue_activations.erase("Silu");
  traits.has_integer_matmul = true;
  traits.matmul_epilogue_gelu_erf = true;
  traits.matmul_epilogue_gelu_tanh = true;
  for (const DType left : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    traits.attention_steps.insert(left);
    for (const char* const op : {"MatMul", "GroupedMatMul"})
      for (const char* const codes : {"i8", "i4", "f4e2m1", "iq4nl"})
        traits.formats.push_back(
            {.op = op, .left = left, .right = codes, .scaled = true, .offsets = true});
    // Halves in memory, multiplied as float32; oneDNN multiplies bf16 itself.
    for (const char* const codes : {"f16", "bf16"})
      if (left != DType::kBFloat16)
        traits.formats.push_back({.op = "MatMul", .left = left, .right = codes, .scaled = true});
    for (const char* const rule : {"linear", "delta", "general_delta"})
      traits.formats.push_back({.op = "LinearAttention", .left = left, .right = rule});
    for (const char* const codes : {"i8", "f8e4m3fn"})
      traits.formats.push_back({.op = "Attention", .left = left, .right = codes, .scaled = true});
  }
  for (const DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64})
    traits.formats.push_back({.op = "GroupedMatMul", .left = type, .right = to_string(type)});
  // oneDNN takes signed weights only.
  for (const char* const op : {"MatMul", "Conv"})
    for (const DType left : {DType::kUInt8, DType::kInt8})
      traits.formats.push_back({.op = op, .left = left, .right = "i8"});
  return traits;
}

class CpuTarget final : public Target {
 public:
  std::string_view name() const override { return "cpu"; }
  const ir::TargetTraits& traits() const override { return traits_; }
  const DeviceModel& device(const std::string& architecture) const override {
    throw Error(
        ErrorCode::kUsage,
        fmt::format("target cpu has no architectures, but was asked for '{}'", architecture));
  }
  std::vector<CompiledKernel> compile(std::span<const KernelText>, const KernelCompileOptions&,
                                      KernelCompileStats&) const override {
    throw Error(ErrorCode::kInternal, "target cpu has no kernels to compile");
  }

 private:
  const ir::TargetTraits traits_ = make_traits();
};

}  // namespace

const Target& cpu_target() {
  static const CpuTarget target;
  return target;
}

}  // namespace sinter::codegen
