#include "codegen/families/trees/emit_trees.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

/// Of the trees in shared memory at a time: three of depth 8.
constexpr int kNodes = 1536;
constexpr int kNodeBytes = 12;
/// Two blocks fit a multiprocessor of sm_80 and later.
constexpr std::int64_t kMostShared = 80 * 1024;

struct TreeSchedule {
  int threads = 256;
  bool holds_rows = true;
  std::int64_t shared_bytes = 0;
};

/// The most threads whose rows fit into shared memory; rows of many columns stay where they are.
TreeSchedule choose(const TreeProblem& p, const DeviceModel& device) {
  const auto element = static_cast<std::int64_t>(size_of(p.dtype));
  const std::int64_t tables = kNodes * (kNodeBytes + element),
                     most = std::min<std::int64_t>(kMostShared, device.block_shared_bytes);
  for (const int threads : {256, 128, 64})
    if (const std::int64_t all = tables + threads * p.columns * element; all <= most)
      return {threads, true, all};
  return {256, false, tables};
}

std::string_view combine_name(Combine combine) {
  return combine == Combine::kSum ? "kTreeSum" : combine == Combine::kMin ? "kTreeMin" : "kTreeMax";
}

}  // namespace

EmittedKernel emit_trees(const TreeProblem& problem, const KernelRequest& request,
                         ExprTable& exprs) {
  const TreeProblem& p = problem;
  const std::string type(storage_name(p.dtype));
  KernelParameters parameters(exprs);
  parameters.buffer(fmt::format("const {}* __restrict__ x", type), p.x);
  parameters.buffer("const i32* __restrict__ nodes", p.nodes);
  parameters.buffer(fmt::format("const {}* __restrict__ thresholds", type), p.thresholds);
  parameters.buffer("const i32* __restrict__ trees", p.trees);
  parameters.buffer(fmt::format("const {}* __restrict__ weights", type), p.weights);
  parameters.buffer(fmt::format("{}* y", type), p.result);
  const std::string rows = parameters.dim(p.rows);
  const TreeSchedule schedule = choose(p, *request.device);
  const Dim blocks = ir::ceil_div(p.rows, schedule.threads, exprs.ranges());
  const std::string end = parameters.end_of_blocks(blocks, "blockIdx.x");

  EmittedKernel kernel;
  kernel.step.args = parameters.args();
  const std::string text = fmt::format("trees threads={} nodes={} rows={}", schedule.threads,
                                       kNodes, schedule.holds_rows ? "shared" : "global");
  kernel.source = fmt::format(
      "{}#include \"trees.cuh\"\n\n// schedule: {}\n"
      "extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}{}"
      "  const TreeProblem<{}> p = {{x, reinterpret_cast<const TreeNode*>(nodes), thresholds,\n"
      "      reinterpret_cast<const TreeStart*>(trees), weights, y, {}, /*columns*/ {}, /*nodes*/ "
      "{}, "
      "/*trees*/ {},\n      /*width*/ {}, /*targets*/ {}}};\n"
      "  ensemble_of_rows<{}, {}, {}, {}, {}, {}>(p, blockIdx.x);\n}}\n",
      kernel_heading(request.name, request.origins), text, schedule.threads,
      signature_text(request.name, parameters.texts()), parameters.lines(), end, type, rows,
      p.columns, p.node_count, p.tree_count, p.width, p.targets, type, combine_name(p.combine),
      schedule.threads, kNodes, schedule.holds_rows, p.targets == 1);
  auto variant = std::make_unique<KernelVariantT>();
  variant->function = request.name;
  variant->grid = {exprs.intern(blocks), exprs.intern(1), exprs.intern(1)};
  variant->block = {static_cast<std::uint32_t>(schedule.threads), 1, 1};
  variant->schedule = text;
  variant->shared_bytes = static_cast<std::uint32_t>(schedule.shared_bytes);
  kernel.step.variants.push_back(std::move(variant));
  return kernel;
}

}  // namespace sinter::codegen
