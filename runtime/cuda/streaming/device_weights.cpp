// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/streaming/device_weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "graphs/stream.h"
#include "runtime/cuda/memory/free_memory.h"
#include "runtime/format_error.h"
#include "runtime/plan/bodies.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;

/// The ranges of steps that a run may execute.
std::vector<plan::StepRange> runs_of(const fb::PlanT& meta) {
  std::vector<plan::StepRange> runs;
  for (const auto& entry : meta.entries) runs.push_back({entry->first_step, entry->step_count});
  if (runs.empty()) runs.push_back({0, meta.steps.size()});
  return runs;
}

}  // namespace

DeviceWeights::DeviceWeights(graphs::ContextPtr context, const plan::PlanData& plan,
                             std::uint64_t budget)
    : context_(std::move(context)), has_budget_(budget > 0) {
  const std::uint64_t bytes = plan.weights.size();
  if (bytes == 0) return;
  if (has_budget_) {
    find_weights(plan.meta);
    place_under(plan, budget);
  } else {
    require_free_memory(*context_, bytes, fmt::format("{} of weights", format_bytes(bytes)));
    device_ = graphs::DeviceMemory(context_, bytes);
    offsets_ = {0};
    sizes_ = {bytes};
    places_ = {0};
    residency_.is_streamed = {false};
    parts_.resize(plan.meta.buffers.size());
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (const fb::BufferT& buffer = *plan.meta.buffers[i]; buffer.kind == fb::BufferKind::Weight)
        parts_[i] = Part{0, buffer.weight_offset};
  }
  write(plan);
}

void DeviceWeights::find_weights(const fb::PlanT& meta) {
  std::vector<std::size_t> buffers;
  for (std::size_t i = 0; i < meta.buffers.size(); ++i)
    if (meta.buffers[i]->kind == fb::BufferKind::Weight) buffers.push_back(i);
  std::ranges::stable_sort(buffers, {},
                           [&](std::size_t i) { return meta.buffers[i]->weight_offset; });
  parts_.resize(meta.buffers.size());
  for (const std::size_t i : buffers) {
    const fb::BufferT& buffer = *meta.buffers[i];
    // verify_plan has checked that a weight's size is constant.
    const auto bytes = static_cast<std::uint64_t>(meta.expressions[buffer.bytes].value());
    if (offsets_.empty() || buffer.weight_offset >= offsets_.back() + sizes_.back()) {
      offsets_.push_back(buffer.weight_offset);
      sizes_.push_back(0);
    }
    const std::uint64_t begin = buffer.weight_offset - offsets_.back();
    sizes_.back() = std::max(sizes_.back(), begin + bytes);
    parts_[i] = Part{sizes_.size() - 1, begin};
  }
}

void DeviceWeights::place_under(const plan::PlanData& plan, std::uint64_t budget) {
  std::vector<WeightRun> runs;
  for (const plan::StepRange range : runs_of(plan.meta))
    runs.push_back(units_of(plan.meta, range).units);
  const auto found = choose_resident(sizes_, runs, budget);
  if (!found)
    throw usage_error(
        "a weight budget of {} is too small: this plan's {} of weights need at least {} "
        "({} bytes), which the largest of its steps decides (SessionOptions::weight_budget)",
        format_bytes(budget), format_bytes(plan.weights.size()),
        format_bytes(least_weight_budget(sizes_, runs)), least_weight_budget(sizes_, runs));
  residency_ = *found;
  std::vector<bool> is_read(sizes_.size(), false);
  for (const WeightRun& run : runs)
    for (const WeightUnit& unit : run)
      for (const std::size_t weight : unit) is_read[weight] = true;
  std::uint64_t device = 0, host = 0;
  places_.resize(sizes_.size());
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (!is_read[i]) sizes_[i] = 0;
    std::uint64_t& end = residency_.is_streamed[i] ? host : device;
    places_[i] = end;
    end += room_for(sizes_[i]);
  }
  require_free_memory(
      *context_, device,
      fmt::format("{} of weights that stay under the budget", format_bytes(device)));
  device_ = graphs::DeviceMemory(context_, device);
  pinned_ = graphs::PinnedMemory(context_, host);
}

CUdeviceptr DeviceWeights::address(std::size_t buffer) const {
  if (buffer >= parts_.size() || !parts_[buffer]) return 0;
  const Part& part = *parts_[buffer];
  if (residency_.is_streamed[part.weight]) return 0;
  return device_.address() + places_[part.weight] + part.offset;
}

std::optional<DeviceWeights::Part> DeviceWeights::streamed(std::size_t buffer) const {
  if (buffer >= parts_.size() || !parts_[buffer] || !residency_.is_streamed[parts_[buffer]->weight])
    return std::nullopt;
  return parts_[buffer];
}

RunUnits DeviceWeights::units_of(const fb::PlanT& meta, plan::StepRange steps) const {
  RunUnits result;
  for (std::size_t i = 0; i < steps.count;) {
    const std::size_t end =
        std::min(steps.count, i + 1 + plan::body_steps(meta.steps[steps.first + i]->work));
    WeightUnit unit;
    for (; i < end; ++i) {
      result.unit_of.push_back(result.units.size());
      for (const std::uint32_t buffer : meta.steps[steps.first + i]->reads)
        if (parts_[buffer] && sizes_[parts_[buffer]->weight] > 0)
          unit.push_back(parts_[buffer]->weight);
    }
    std::ranges::sort(unit);
    unit.erase(std::unique(unit.begin(), unit.end()), unit.end());
    result.units.push_back(std::move(unit));
  }
  return result;
}

void DeviceWeights::write(const plan::PlanData& plan) {
  // An own stream, synchronized: a synchronous copy from pageable memory does not guarantee
  // completion for other streams.
  const graphs::Stream stream(context_);
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i] == 0) continue;
    const std::byte* from = plan.weights.data() + offsets_[i];
    if (residency_.is_streamed[i])
      std::memcpy(pinned_.data() + places_[i], from, sizes_[i]);
    else
      context_->driver().memcpy_htod_async(device_.address() + places_[i], from, sizes_[i],
                                           stream.handle());
  }
  stream.synchronize();
}

}  // namespace sinter::runtime
