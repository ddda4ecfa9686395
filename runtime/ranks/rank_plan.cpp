// SPDX-License-Identifier: Apache-2.0
#include "runtime/ranks/rank_plan.h"

#include <map>
#include <mutex>
#include <utility>

namespace sinter::runtime {

std::shared_ptr<const plan::PlanData> plan_of_rank(
    const std::shared_ptr<const plan::PlanData>& plan, int rank) {
  if (rank == 0) return plan;
  static std::mutex mutex;
  static std::map<std::pair<const plan::PlanData*, int>, std::weak_ptr<const plan::PlanData>> known;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = known.find({plan.get(), rank}); found != known.end())
    if (auto made = found->second.lock()) return made;
  auto own = std::make_shared<plan::PlanData>();
  own->meta = plan->meta;
  own->meta.graph_text.clear();
  own->meta.refit.clear();
  for (const auto& buffer : own->meta.buffers)
    buffer->weight_offset +=
        static_cast<std::uint64_t>(rank) / buffer->sharing * std::exchange(buffer->rank_step, 0);
  own->weights = plan->weights;
  own->modules = plan->modules;
  own->sources = plan->sources;
  own->owner = plan;
  own->path = plan->path;
  own->format_version = plan->format_version;
  known[{plan.get(), rank}] = own;
  return own;
}

std::optional<std::size_t> rank_symbol(const plan::fb::PlanT& plan) {
  for (std::size_t s = 0; s < plan.symbols.size(); ++s)
    if (plan.symbols[s]->is_rank) return s;
  return std::nullopt;
}

}  // namespace sinter::runtime
