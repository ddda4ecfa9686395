// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/dnnl/packed_weights.h"

#include <algorithm>
#include <utility>

namespace sinter::runtime::cpu {

// Many weights share a chunk, so that small ones are also in large pages.
PackedWeights::PackedWeights(std::shared_ptr<const plan::PlanData> plan)
    : plan_(std::move(plan)),
      chunk_bytes_(std::clamp<std::size_t>(plan_->weights.size(), 1 << 12, 8 << 20)) {}

PackedWeights::~PackedWeights() = default;

namespace {

/// Packed weights by plan.
struct Registry {
  std::mutex mutex;
  std::map<std::weak_ptr<const plan::PlanData>, std::weak_ptr<PackedWeights>, std::owner_less<>>
      all;

  static Registry& instance() {
    static Registry registry;
    return registry;
  }
};

}  // namespace

std::shared_ptr<PackedWeights> PackedWeights::of(
    const std::shared_ptr<const plan::PlanData>& plan) {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<PackedWeights>& known = registry.all[plan];
  std::shared_ptr<PackedWeights> weights = known.lock();
  if (!weights) {
    weights = std::make_shared<PackedWeights>(plan);
    known = weights;
  }
  return weights;
}

void PackedWeights::replace(const std::shared_ptr<PackedWeights>& weights,
                            const std::shared_ptr<const plan::PlanData>& plan) {
  Registry& registry = Registry::instance();
  const std::lock_guard registering(registry.mutex);
  const std::lock_guard lock(weights->values_mutex_);
  for (const auto& fill : weights->fills_) fill(plan->weights.data());
  // New sessions of either plan get that plan's weights.
  const auto old = registry.all.find(weights->plan_);
  if (old != registry.all.end() && old->second.lock() == weights) registry.all.erase(old);
  weights->plan_ = plan;
  std::weak_ptr<PackedWeights>& place = registry.all[plan];
  if (place.expired()) place = weights;
}

void PackedWeights::fill_by(std::function<void(const std::byte* section)> fill) {
  fill(section());
  fills_.push_back(std::move(fill));
}

std::byte* PackedWeights::allocate(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  if (chunks_.empty() || size > chunks_.back().capacity() - used_) {
    HostBuffer chunk;
    chunk.reserve(std::max(size, chunk_bytes_), "the weights in oneDNN's layout");
    chunks_.push_back(std::move(chunk));
    used_ = 0;
  }
  used_ += size;
  return chunks_.back().data() + (used_ - size);
}

std::uint64_t PackedWeights::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (const HostBuffer& chunk : chunks_) total += chunk.capacity();
  return total;
}

}  // namespace sinter::runtime::cpu
