#include "codegen/families/suppression/emit_suppression.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/emit/sizes_from_data.h"

namespace sinter::codegen {
namespace {

/// Boxes of a tile, and threads of a block.
constexpr int kTile = 512;
/// Rows that are no longer have one block, whose barriers are quicker.
constexpr std::int64_t kShort = 1024;
/// Of suppression.cuh's SuppressionMemory.
constexpr std::uint32_t kSharedBytes = kTile * 16 + kTile * (kTile / 32) * 4 + kTile / 32 * 4;

}  // namespace

EmittedKernel emit_suppression(const SuppressionProblem& problem, const KernelRequest& request,
                               ExprTable& exprs) {
  std::vector<std::string> parameters{"const float* __restrict__ boxes",
                                      "const b8* __restrict__ valid", "b8* kept"};
  EmittedKernel kernel;
  for (const std::uint32_t buffer : {problem.boxes, problem.valid, problem.kept})
    kernel.step.args.emplace_back(ArgKind::Buffer, buffer);
  std::map<std::uint32_t, std::string> names;
  const auto known = [&](const Dim& dim) {
    if (dim.is_constant()) return int_literal(dim.value());
    const std::uint32_t expression = exprs.intern(dim);
    const auto [at, is_new] = names.try_emplace(expression, fmt::format("n{}", names.size()));
    if (is_new) {
      parameters.push_back("i64 " + at->second);
      kernel.step.args.emplace_back(ArgKind::Int64, expression);
    }
    return at->second;
  };
  SizesFromData data(exprs, known);
  const auto size = [&](const Dim& dim) {
    if (!ir::is_from_data({&dim, 1}, exprs.ranges())) return known(dim);
    data.add(dim);
    return data.text(dim);
  };
  const std::string length = size(problem.length);
  const auto most = ir::upper_bound(problem.length, exprs.ranges());
  const int cluster = most && *most <= kShort ? 1 : std::min(8, request.device->cluster_blocks);
  const Dim blocks = problem.rows * Dim(cluster);
  const std::string end = data.end_of_blocks(blocks, "blockIdx.x");
  for (std::string& extent : data.parameters()) parameters.push_back(std::move(extent));
  for (const KernelArg& extent : data.args()) kernel.step.args.push_back(extent);

  const std::string schedule = fmt::format("suppression tile={} cluster={}", kTile, cluster);
  kernel.source = fmt::format(
      "{}#include \"suppression.cuh\"\n\n// schedule: {}\n"
      "extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}{}"
      "  suppress_row<{}, {}>(boxes, valid, kept, i64(blockIdx.x / {}), int(blockIdx.x % {}), {}, "
      "{:.9g}f);\n}}\n",
      kernel_heading(request.name, request.origins), schedule, kTile,
      signature_text(request.name, parameters), data.lines(), end, kTile, cluster, cluster, cluster,
      length, static_cast<float>(problem.iou));
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
