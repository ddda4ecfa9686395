// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/suppression/emit_suppression.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

/// Boxes of a tile; also threads of a block.
constexpr int kTile = 512;
/// Length up to which a row has one block, whose barriers are faster than a cluster's.
constexpr std::int64_t kShort = 1024;
/// Size of SuppressionMemory in suppression.cuh.
constexpr std::uint32_t kSharedBytes = kTile * 16 + kTile * (kTile / 32) * 4 + kTile / 32 * 4;

}  // namespace

EmittedKernel emit_suppression(const SuppressionProblem& problem, const KernelRequest& request,
                               ExprTable& exprs) {
  KernelParameters parameters(exprs);
  parameters.buffer("const float* __restrict__ boxes", problem.boxes);
  parameters.buffer("const b8* __restrict__ valid", problem.valid);
  parameters.buffer("b8* kept", problem.kept);
  const std::string length = parameters.dim(problem.length);
  const auto most = ir::upper_bound(problem.length, exprs.ranges());
  const int cluster = most && *most <= kShort ? 1 : std::min(8, request.device->cluster_blocks);
  const Dim blocks = problem.rows * Dim(cluster);
  const std::string end = parameters.end_of_blocks(blocks, "blockIdx.x");

  EmittedKernel kernel;
  kernel.step.args = parameters.args();
  const std::string schedule = fmt::format("suppression tile={} cluster={}", kTile, cluster);
  kernel.source = fmt::format(
      "{}#include \"suppression.cuh\"\n\n// schedule: {}\n"
      "extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}{}"
      "  suppress_row<{}, {}>(boxes, valid, kept, i64(blockIdx.x / {}), int(blockIdx.x % {}), {}, "
      "{:.9g}f{});\n}}\n",
      kernel_heading(request.name, request.origins), schedule, kTile,
      signature_text(request.name, parameters.texts()), parameters.lines(), end, kTile, cluster,
      cluster, cluster, length, static_cast<float>(problem.iou),
      problem.most == 0 ? "" : fmt::format(", {}", problem.most));
  auto variant = std::make_unique<KernelVariantT>();
  variant->function = request.name;
  variant->grid = {exprs.intern(blocks), exprs.intern(1), exprs.intern(1)};
  variant->cluster = static_cast<std::uint32_t>(cluster);
  variant->block = {kTile, 1, 1};
  variant->schedule = schedule;
  variant->shared_bytes = kSharedBytes;
  kernel.step.variants.push_back(std::move(variant));
  return kernel;
}

}  // namespace sinter::codegen
