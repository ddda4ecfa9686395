#include "codegen/families/sampling/emit_sampling.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

constexpr int kThreads = 512, kMostBlocks = 8;
/// Vocabularies that are no larger have one block, whose barriers are quicker.
constexpr std::int64_t kSmall = 4096;

/// Of sampling.cuh's TokenSampler::Memory.
std::uint32_t shared_bytes(std::int64_t vocabulary, int blocks) {
  constexpr std::int64_t kWarps = kThreads / 32, kValues = 9;
  const std::int64_t words = (vocabulary + 31) / 32;
  const std::int64_t bytes =
      (kWarps + 2 * blocks) * kValues * 8 + kWarps * 4 + (words + blocks - 1) / blocks * 4;
  return static_cast<std::uint32_t>((bytes + 7) / 8 * 8);
}

}  // namespace

EmittedKernel emit_sampling(const SamplingProblem& problem, const KernelRequest& request,
                            ExprTable& exprs) {
  KernelParameters parameters(exprs);
  parameters.buffer(fmt::format("const {}* __restrict__ logits", storage_name(problem.dtype)),
                    problem.logits);
  parameters.buffer("const double* __restrict__ reals", problem.reals);
  parameters.buffer("const i64* __restrict__ integers", problem.integers);
  parameters.buffer("const i32* __restrict__ sets", problem.sets);
  parameters.buffer("const i32* __restrict__ biased", problem.biased);
  parameters.buffer("const float* __restrict__ biases", problem.biases);
  parameters.buffer("i32* __restrict__ tokens", problem.tokens);
  const std::string sets = parameters.dim(problem.set_count);
  const std::string biases = parameters.dim(problem.bias_count);
  const int blocks =
      problem.vocabulary <= kSmall ? 1 : std::min(kMostBlocks, request.device->cluster_blocks);
  const Dim grid = problem.rows * Dim(blocks);
  const std::string end = parameters.end_of_blocks(grid, "blockIdx.x");

  EmittedKernel kernel;
  kernel.step.args = parameters.args();
  const std::string schedule = fmt::format("sampling threads={} cluster={}", kThreads, blocks);
  kernel.source = fmt::format(
      "{}#include \"sampling.cuh\"\n\n// schedule: {}\n"
      "extern \"C\" __global__ void __launch_bounds__({}, 2)\n{} {{\n{}{}"
      "  const SamplingInputs from = {{reals, integers, sets, biased, biases, {}, {}}};\n"
      "  sample_row<{}, {}, {}, {}>(logits, from, tokens, i64(blockIdx.x / {}), "
      "int(blockIdx.x % {}));\n}}\n",
      kernel_heading(request.name, request.origins), schedule, kThreads,
      signature_text(request.name, parameters.texts()), parameters.lines(), end, sets, biases,
      storage_name(problem.dtype), problem.vocabulary, kThreads, blocks, blocks, blocks);
  auto variant = std::make_unique<KernelVariantT>();
  variant->function = request.name;
  variant->grid = {exprs.intern(grid), exprs.intern(1), exprs.intern(1)};
  variant->cluster = static_cast<std::uint32_t>(blocks);
  variant->block = {kThreads, 1, 1};
  variant->schedule = schedule;
  variant->shared_bytes = shared_bytes(problem.vocabulary, blocks);
  kernel.step.variants.push_back(std::move(variant));
  return kernel;
}

}  // namespace sinter::codegen
