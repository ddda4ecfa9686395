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

/// Of the trees in shared memory at a time: three of depth 8.
constexpr int kNodes = 1536;
/// That trees.cuh's HeldNode can say.
constexpr std::int64_t kMostColumns = 1 << 15;
constexpr int kLeastThreads = 64, kMostThreads = 512;
/// Of shared memory, that a multiprocessor takes for each block.
constexpr std::int64_t kReserved = 1024;

struct TreeSchedule {
  int threads = 256, nodes = kNodes;
  bool holds_rows = true;
  std::int64_t shared_bytes = 0;

  std::string to_string() const {
    return fmt::format("trees threads={} nodes={} rows={}", threads, nodes,
                       holds_rows ? "shared" : "global");
  }
};

/// `threads` rows in shared memory, if a multiprocessor has room for two such blocks: one goes down
/// its trees while the other fetches some.
std::optional<TreeSchedule> holding(const TreeProblem& p, const DeviceModel& device, int threads) {
  const auto element = static_cast<std::int64_t>(size_of(p.dtype));
  TreeSchedule result;
  result.threads = threads;
  result.nodes = p.columns <= kMostColumns ? kNodes : 0;
  result.shared_bytes =
      (result.nodes * 2 + threads * std::max<std::int64_t>(1, p.columns)) * element;
  const bool fits = result.shared_bytes <= device.block_shared_bytes &&
                    2 * (result.shared_bytes + kReserved) <= device.shared_bytes;
  return fits ? std::optional(result) : std::nullopt;
}

/// The schedule for rows that fill the device: of the most rows, since each block fetches all
/// trees. Rows of many columns stay where they are.
TreeSchedule choose(const TreeProblem& p, const DeviceModel& device) {
  for (int threads = kMostThreads; threads >= kLeastThreads; threads /= 2)
    if (const auto schedule = holding(p, device, threads)) return *schedule;
  TreeSchedule result;
  result.nodes = p.columns <= kMostColumns ? kNodes : 0;
  result.holds_rows = false;
  result.shared_bytes = result.nodes * 2 * static_cast<std::int64_t>(size_of(p.dtype));
  return result;
}

/// The most rows that a schedule is for; none: all.
using Limited = std::pair<TreeSchedule, std::optional<std::int64_t>>;

/// Rows too few to give each multiprocessor two blocks are spread over more of them.
std::vector<Limited> schedules_of(const TreeProblem& p, const DeviceModel& device,
                                  const ir::Ranges& ranges) {
  const TreeSchedule most = choose(p, device);
  TreeSchedule spread = most;
  spread.threads = kLeastThreads;
  if (most.holds_rows) spread = *holding(p, device, kLeastThreads);
  const std::int64_t few = std::int64_t{2} * device.multiprocessors * most.threads;
  const auto upper = ir::upper_bound(p.rows, ranges);
  if (most.threads == kLeastThreads || (upper && *upper <= few)) return {{spread, std::nullopt}};
  if (ir::lower_bound(p.rows, ranges) > few) return {{most, std::nullopt}};
  return {{spread, few}, {most, std::nullopt}};
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
    const Dim blocks = ir::ceil_div(p.rows, schedule.threads, exprs.ranges());
    choices.push_back({schedule, most_rows, request.name + (most_rows ? "_spread" : ""),
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
        "  ensemble_of_rows<{}, {}, {}, {}, {}, {}>(p, blockIdx.x);\n}}\n",
        schedule.to_string(), schedule.threads, signature_text(function, parameters.texts()),
        parameters.lines(), end, type, rows, p.columns, p.node_count, p.tree_count, p.width,
        p.targets, type, combine_name(p.combine), schedule.threads, schedule.nodes,
        schedule.holds_rows, p.targets == 1);
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
