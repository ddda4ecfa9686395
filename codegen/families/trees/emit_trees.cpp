// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/trees/emit_trees.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

/// Nodes in shared memory at a time: three trees of depth 8.
constexpr int kNodes = 1536;
/// Limit of HeldNode in trees.cuh.
constexpr std::int64_t kMostColumns = 1 << 15;
constexpr int kLeastThreads = 64, kMostThreads = 512;
constexpr int kTreeLanes = 4;  // as in trees.cuh
/// Shared memory that the system reserves for each block.
constexpr std::int64_t kReserved = 1024;

struct TreeSchedule {
  int threads = 256, nodes = kNodes;
  bool holds_rows = true;
  std::int64_t shared_bytes = 0;
  int rows = 0;  // of a block whose threads divide the trees; 0: a thread for each row

  int rows_of_block() const { return rows > 0 ? rows : threads; }
  std::string to_string() const {
    const std::string_view memory = holds_rows ? "shared" : "global";
    if (rows > 0)
      return fmt::format("trees threads={} block_rows={} rows={}", threads, rows, memory);
    return fmt::format("trees threads={} nodes={} rows={}", threads, nodes, memory);
  }
  std::string call(std::string_view type, std::string_view combine, bool one) const {
    if (rows > 0)
      return fmt::format("ensemble_of_few_rows<{}, {}, {}, {}, {}, {}>(p, blockIdx.x);", type,
                         combine, threads, rows, holds_rows, one);
    return fmt::format("ensemble_of_rows<{}, {}, {}, {}, {}, {}>(p, blockIdx.x);", type, combine,
                       threads, nodes, holds_rows, one);
  }
};

/// A schedule with `threads` rows in shared memory, if two such blocks fit a multiprocessor: one
/// traverses its trees while the other loads some.
std::optional<TreeSchedule> holding(const TreeProblem& p, const DeviceModel& device, int threads) {
  const auto element = static_cast<std::int64_t>(size_of(p.dtype));
  TreeSchedule result;
  result.threads = threads;
  result.nodes = p.columns <= kMostColumns ? kNodes : 0;
  result.shared_bytes =
      (std::int64_t{2} * result.nodes + threads * std::max<std::int64_t>(1, p.columns)) * element;
  const bool fits = result.shared_bytes <= device.block_shared_bytes &&
                    2 * (result.shared_bytes + kReserved) <= device.shared_bytes;
  return fits ? std::optional(result) : std::nullopt;
}

/// The schedule for rows that fill the device: the most rows for each block, as each block loads
/// all trees. Rows of many columns stay in global memory.
TreeSchedule choose(const TreeProblem& p, const DeviceModel& device) {
  for (int threads = kMostThreads; threads >= kLeastThreads; threads /= 2)
    if (const auto schedule = holding(p, device, threads)) return *schedule;
  TreeSchedule result;
  result.nodes = p.columns <= kMostColumns ? kNodes : 0;
  result.holds_rows = false;
  result.shared_bytes =
      std::int64_t{2} * result.nodes * static_cast<std::int64_t>(size_of(p.dtype));
  return result;
}

/// A schedule of `rows` rows for each block, whose threads divide the trees.
TreeSchedule sharing(const TreeProblem& p, const DeviceModel& device, int rows) {
  const auto element = static_cast<std::int64_t>(size_of(p.dtype));
  TreeSchedule result;
  result.rows = rows;
  result.shared_bytes = std::int64_t{kTreeLanes} * result.threads * element;
  const std::int64_t held = rows * p.columns * element;
  result.holds_rows = 2 * (result.shared_bytes + held + kReserved) <= device.shared_bytes &&
                      result.shared_bytes + held <= device.block_shared_bytes;
  if (result.holds_rows) result.shared_bytes += held;
  return result;
}

/// A schedule with its maximum number of rows; empty: unlimited.
using Limited = std::pair<TreeSchedule, std::optional<std::int64_t>>;

/// With too few rows for two blocks on each multiprocessor, blocks get fewer rows. With a thread
/// for each row, every block traverses all trees in sequence; for still fewer rows, threads divide
/// the trees.
std::vector<Limited> schedules_of(const TreeProblem& p, const DeviceModel& device,
                                  const ir::Ranges& ranges) {
  const TreeSchedule most = choose(p, device);
  TreeSchedule spread = most;
  spread.threads = kLeastThreads;
  if (most.holds_rows) spread = *holding(p, device, kLeastThreads);
  const auto multiprocessors = std::int64_t{device.multiprocessors};
  constexpr std::int64_t kFewRows = 8, kShared = 128;  // per block; per multiprocessor
  const std::vector<Limited> all = {{sharing(p, device, 1), 2 * multiprocessors},
                                    {sharing(p, device, kFewRows), kShared * multiprocessors},
                                    {spread, 2 * multiprocessors * most.threads},
                                    {most, std::nullopt}};
  const auto upper = ir::upper_bound(p.rows, ranges);
  const std::int64_t lower = ir::lower_bound(p.rows, ranges).value_or(0);
  std::vector<Limited> result;
  for (const auto& [schedule, limit] : all) {
    if (limit && lower > *limit) continue;
    const bool is_last = !limit || (upper && *upper <= *limit);
    result.emplace_back(schedule, is_last ? std::nullopt : limit);
    if (is_last) break;
  }
  return result;
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
  struct Choice {
    TreeSchedule schedule;
    std::optional<std::int64_t> most_rows;
    std::string function, end;
    Dim blocks;
  };
  std::vector<Choice> choices;
  for (const auto& [schedule, most_rows] : schedules_of(p, *request.device, exprs.ranges())) {
    const Dim blocks = ir::ceil_div(p.rows, schedule.rows_of_block(), exprs.ranges());
    choices.push_back({schedule, most_rows,
                       most_rows ? fmt::format("{}_{}", request.name, *most_rows) : request.name,
                       parameters.end_of_blocks(blocks, "blockIdx.x"), blocks});
  }

  EmittedKernel kernel;
  kernel.step.args = parameters.args();
  kernel.source = kernel_heading(request.name, request.origins) + "#include \"trees.cuh\"\n";
  for (const auto& [schedule, most_rows, function, end, blocks] : choices) {
    kernel.source += fmt::format(
        "\n// schedule: {}\nextern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}{}"
        "  const TreeProblem<{}> p = {{x, reinterpret_cast<const TreeNode*>(nodes), thresholds,\n"
        "      reinterpret_cast<const TreeStart*>(trees), weights, y, {}, /*columns*/ {}, "
        "/*nodes*/ {}, /*trees*/ {},\n      /*width*/ {}, /*targets*/ {}}};\n"
        "  {}\n}}\n",
        schedule.to_string(), schedule.threads, signature_text(function, parameters.texts()),
        parameters.lines(), end, type, rows, p.columns, p.node_count, p.tree_count, p.width,
        p.targets, schedule.call(type, combine_name(p.combine), p.targets == 1));
    auto variant = std::make_unique<KernelVariantT>();
    if (most_rows) variant->conditions.emplace_back(exprs.intern(p.rows), 1, *most_rows);
    variant->function = function;
    variant->grid = {exprs.intern(blocks), exprs.intern(1), exprs.intern(1)};
    variant->block = {static_cast<std::uint32_t>(schedule.threads), 1, 1};
    variant->schedule = schedule.to_string();
    variant->shared_bytes = static_cast<std::uint32_t>(schedule.shared_bytes);
    kernel.step.variants.push_back(std::move(variant));
  }
  return kernel;
}

}  // namespace sinter::codegen
