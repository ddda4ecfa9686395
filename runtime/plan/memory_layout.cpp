// SPDX-License-Identifier: Apache-2.0
// Places arena buffers for one bound shape.
#include <algorithm>

#include "runtime/format_error.h"
#include "runtime/plan/entries.h"
#include "runtime/plan/plan_data.h"

namespace sinter::plan {
namespace {

/// Suffices for 16-byte vectors, TMA and cache lines of all targets.
constexpr std::uint64_t kArenaAlignment = 256;
/// Beyond any machine's memory, and sums of it do not overflow.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 60;

std::uint64_t checked_size(std::size_t buffer, std::int64_t bytes) {
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) > kMaxBytes)
    throw invalid_plan_error(
        "buffer {} of the plan has the size {} for these dimensions, which is "
        "not possible: recompile the model",
        buffer, bytes);
  return (static_cast<std::uint64_t>(bytes) + kArenaAlignment - 1) / kArenaAlignment *
         kArenaAlignment;
}

struct Placed {
  std::uint64_t offset, size;
  std::uint32_t first, last;
};

}  // namespace

MemoryLayout plan_memory(const fb::PlanT& plan, std::span<const std::int64_t> expressions,
                         StepRange steps) {
  MemoryLayout layout;
  layout.offsets.assign(plan.buffers.size(), 0);
  std::vector<std::uint64_t> sizes(plan.buffers.size(), 0);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    if (!is_used(*plan.buffers[i], steps)) continue;
    sizes[i] = checked_size(i, expressions[plan.buffers[i]->bytes]);
    if (plan.buffers[i]->kind != fb::BufferKind::Arena || sizes[i] == 0) continue;
    order.push_back(i);
    layout.unshared_bytes += sizes[i];
    if (layout.unshared_bytes > kMaxBytes)
      throw invalid_plan_error(
          "the plan's buffers are larger than any memory for these dimensions: use smaller "
          "dimensions or recompile the model");
  }
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });

  std::vector<Placed> placed;  // sorted by offset
  for (const std::size_t index : order) {
    const fb::BufferT& buffer = *plan.buffers[index];
    std::uint64_t offset = 0;
    for (const Placed& other : placed) {
      if (other.last < buffer.first_step || buffer.last_step < other.first) continue;
      if (offset + sizes[index] <= other.offset) break;
      offset = std::max(offset, other.offset + other.size);
    }
    layout.offsets[index] = offset;
    layout.arena_bytes = std::max(layout.arena_bytes, offset + sizes[index]);
    const Placed entry{offset, sizes[index], buffer.first_step, buffer.last_step};
    placed.insert(std::ranges::upper_bound(placed, entry.offset, {}, &Placed::offset), entry);
  }
  return layout;
}

}  // namespace sinter::plan
