// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/state_slots.h"

#include <algorithm>

#include "runtime/format_error.h"

namespace sinter::engine {

StateSlots::StateSlots(int count, int sequences) : count_(count), sequences_(sequences) {
  if (count != 0 && count < sequences)
    throw usage_error("{} slots of states are fewer than the {} sequences", count, sequences);
  for (int slot = count - 1; slot >= 0; --slot) free_.push_back(slot);
}

int StateSlots::take() {
  // lend() leaves one for each sequence.
  if (free_.empty()) throw internal_error("no slot of states is left for a sequence");
  ++taken_;
  const int slot = free_.back();
  free_.pop_back();
  return slot;
}

void StateSlots::give(int slot) {
  --taken_;
  free_.push_back(slot);
}

int StateSlots::lend() {
  if (std::ssize(free_) <= sequences_ - taken_) {
    if (snapshots_.empty() || snapshots_.front().step == step_) return -1;
    forget(snapshots_.front().content);
  }
  const int slot = free_.back();
  free_.pop_back();
  return slot;
}

void StateSlots::give_back(int slot) { free_.push_back(slot); }

int StateSlots::use(ContentId content) {
  const auto snapshot = index_.at(content);
  snapshot->step = step_;
  snapshots_.splice(snapshots_.end(), snapshots_, snapshot);
  return snapshot->slot;
}

void StateSlots::keep(ContentId content, int slot) {
  if (has(content)) return give_back(slot);
  snapshots_.push_back({content, slot, 0});
  index_.emplace(content, std::prev(snapshots_.end()));
}

void StateSlots::forget(ContentId content) {
  const auto found = index_.find(content);
  if (found == index_.end()) return;
  free_.push_back(found->second->slot);
  snapshots_.erase(found->second);
  index_.erase(found);
}

void StateSlots::check(std::vector<int> held) const {
  held.insert(held.end(), free_.begin(), free_.end());
  for (const Snapshot& snapshot : snapshots_) held.push_back(snapshot.slot);
  std::ranges::sort(held);
  for (int slot = 0; slot < count_; ++slot)
    if (std::ssize(held) != count_ || held[static_cast<std::size_t>(slot)] != slot)
      throw internal_error("slot {} of states is lost, or held twice", slot);
  if (index_.size() != snapshots_.size())
    throw internal_error("{} of {} snapshots of states are known", index_.size(),
                         snapshots_.size());
}

}  // namespace sinter::engine
