// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/families/gemm/weights/unpacked_weights.h"
#include "codegen/families/gemm/weights/weight_pack.h"

namespace sinter::codegen {
namespace {

// Per warp: k's unpacked at a time; per block.
constexpr int kDepth = 128, kWarps = 4, kColumns = static_cast<int>(kPackedColumns);
static_assert(kPackedDepth % kDepth == 0);

std::string type_text(const UnpackProgram& program) {
  return fmt::format("Unpacking<{}, {}, {}, {}>", storage_name(program.type),
                     packed_weights_type(program.weights, program.weights.group()), kDepth, kWarps);
}

}  // namespace

EmittedKernel emit_unpack(const UnpackProgram& program, const std::string& name,
                          const std::vector<std::string>& origins, ExprTable& exprs,
                          bool programmatic_launch) {
  const GemmWeights& weights = program.weights;
  const std::string schedule = fmt::format("unpack depth={} warps={}{}", kDepth, kWarps,
                                           programmatic_launch ? " programmatic" : "");
  const std::int64_t tasks = program.blocks() * (program.depth() / kDepth);
  EmittedKernel kernel;
  std::vector<std::string> parameters;
  const auto add = [&](const std::string& text, std::uint32_t buffer) {
    parameters.push_back(text);
    kernel.step.args.emplace_back(ArgKind::Buffer, buffer);
  };
  add("const u8* __restrict__ values", program.values);
  add(fmt::format("const {}* __restrict__ scales", storage_name(weights.scales())), program.scales);
  if (weights.has_zeros())
    add(fmt::format("const {}* __restrict__ zeros", storage_name(program.type)), program.zeros);
  if (weights.has_factors()) add("const float* __restrict__ factors", program.factors);
  add(fmt::format("{}* __restrict__ result", storage_name(program.type)), program.result);

  auto variant = std::make_unique<KernelVariantT>();
  variant->function = name;
  variant->grid = {exprs.intern((tasks + kWarps - 1) / kWarps), exprs.intern(1), exprs.intern(1)};
  variant->block = {kWarps * 32, 1, 1};
  variant->shared_bytes = kWarps * kColumns * (kDepth + 8) * 2;
  variant->schedule = schedule;
  variant->programmatic_launch = programmatic_launch;

  std::string body = fmt::format("  typedef {} Work;\n", type_text(program));
  body += fmt::format(
      "  static_assert(Work::kSharedBytes == {}, \"what the launch reserves\");\n"
      "  SINTER_DYNAMIC_SHARED(shared);\n",
      variant->shared_bytes);
  if (programmatic_launch) body += "  launch_dependents();\n";
  body += fmt::format(
      "  const Work::Operands operands = {{values, scales, {}, result, {}, {}, {}{}}};\n"
      "  Work::run<{}>(shared, operands, blockIdx.x);\n",
      weights.has_zeros() ? "zeros" : "nullptr", program.depth(),
      packed_groups(weights.group(), program.k), program.blocks(),
      weights.has_factors() ? ", factors" : "", programmatic_launch);
  kernel.source = kernel_heading(name, origins) +
                  fmt::format(
                      "#include \"unpack.cuh\"\n\n// schedule: {}\n"
                      "extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}}}\n",
                      schedule, kWarps * 32, signature_text(name, parameters), body);
  kernel.step.variants.push_back(std::move(variant));
  return kernel;
}

}  // namespace sinter::codegen
