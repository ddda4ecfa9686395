// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/sampling/emit_sampling.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

constexpr int kThreads = 512, kBlocksAtOnce = 2;  // on a multiprocessor
/// Vocabulary size up to which a row has one block, whose barriers are faster than a cluster's.
constexpr std::int64_t kSmall = 4096;

/// Size of TokenSampler::Memory in sampling.cuh.
std::uint32_t shared_bytes(const SamplingProblem& problem, int blocks) {
  constexpr std::int64_t kWarps = kThreads / 32, kValues = 9;
  const std::int64_t words = (problem.vocabulary + 31) / 32;
  const std::int64_t bytes =
      (std::int64_t{kWarps + 2 * blocks} * kValues + problem.most_likeliest + 1) * 8 +
      (kWarps + 1) * 4 + (words + blocks - 1) / blocks * 4;
  return static_cast<std::uint32_t>((bytes + 7) / 8 * 8);
}

/// Rows that resident clusters of `blocks` process at once. For more rows, larger parts for each
/// block are cheaper than another round of barriers.
std::int64_t rows_at_once(int blocks, const DeviceModel& device) {
  return std::max(1, kBlocksAtOnce * device.multiprocessors / blocks);
}

/// Cluster sizes to use, largest first.
std::vector<int> clusters(const SamplingProblem& problem, const DeviceModel& device) {
  if (problem.vocabulary <= kSmall) return {1};
  std::vector<int> result;
  for (const int blocks : {8, 2})
    if (blocks <= device.cluster_blocks) result.push_back(blocks);
  result.push_back(1);
  return result;
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
  const bool tells = problem.most_likeliest > 0;
  if (tells) {
    parameters.buffer("const i32* __restrict__ wanted", problem.wanted);
    parameters.buffer("i32* __restrict__ likeliest", problem.likeliest);
    parameters.buffer("float* __restrict__ logprobs", problem.logprobs);
  }
  const std::string sets = parameters.dim(problem.set_count);
  const std::string biases = parameters.dim(problem.bias_count);
  EmittedKernel kernel;
  kernel.source = kernel_heading(request.name, request.origins) + "#include \"sampling.cuh\"\n";
  const auto most_rows = ir::upper_bound(problem.rows, exprs.ranges());
  for (const int blocks : clusters(problem, *request.device)) {
    const std::int64_t rows = rows_at_once(blocks, *request.device);
    const bool is_last = blocks == 1 || (most_rows && *most_rows <= rows);
    const std::size_t number = kernel.step.variants.size();
    const std::string name =
        number == 0 ? request.name : fmt::format("{}_v{}", request.name, number);
    const Dim grid = problem.rows * Dim(blocks);
    const std::string end = parameters.end_of_blocks(grid, "blockIdx.x");
    auto variant = std::make_unique<KernelVariantT>();
    variant->schedule = fmt::format("sampling threads={} cluster={}", kThreads, blocks);
    kernel.source += fmt::format(
        "\n// schedule: {}\n"
        "extern \"C\" __global__ void __launch_bounds__({}, {})\n{} {{\n{}{}"
        "  const SamplingInputs from = {{reals, integers, sets, biased, biases, {}, {}, {}}};\n"
        "  sample_row<{}, {}, {}, {}, {}>(logits, from, {{tokens, {}}}, i64(blockIdx.x / {}), "
        "int(blockIdx.x % {}));\n}}\n",
        variant->schedule, kThreads, kBlocksAtOnce, signature_text(name, parameters.texts()),
        parameters.lines(), end, sets, biases, tells ? "wanted" : "nullptr",
        storage_name(problem.dtype), problem.vocabulary, kThreads, blocks, problem.most_likeliest,
        tells ? "likeliest, logprobs" : "nullptr, nullptr", blocks, blocks);
    variant->function = name;
    variant->grid = {exprs.intern(grid), exprs.intern(1), exprs.intern(1)};
    variant->cluster = static_cast<std::uint32_t>(blocks);
    variant->block = {kThreads, 1, 1};
    variant->shared_bytes = shared_bytes(problem, blocks);
    if (!is_last) variant->conditions.emplace_back(exprs.intern(problem.rows), 1, rows);
    kernel.step.variants.push_back(std::move(variant));
    if (is_last) break;
  }
  kernel.step.args = parameters.args();
  return kernel;
}

}  // namespace sinter::codegen
