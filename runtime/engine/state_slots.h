// SPDX-License-Identifier: Apache-2.0
// Slots of states of fixed size: of running sequences, of guesses, and behind prefixes.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/engine/block_manager.h"

namespace sinter::engine {

/// Each running sequence has a slot. The others are kept ones: lent for a while, or snapshots,
/// which are states behind the tokens of a cached prefix. The least recently used snapshot is
/// evicted first. Says only which slot is whose; steps read and write them in order, so that a slot
/// given back may be taken at once.
class StateSlots {
 public:
  /// `count` slots, 0: the model has no states. Throws Error(kUsage) if they are fewer than the
  /// sequences.
  StateSlots(int count, int sequences);

  bool exist() const { return count_ > 0; }
  int count() const { return count_; }
  int snapshots() const { return static_cast<int>(snapshots_.size()); }
  int used() const { return count_ - static_cast<int>(free_.size()); }

  /// A slot for one of the sequences.
  int take();
  void give(int slot);

  /// A slot beside those of the sequences, for which a snapshot may be evicted; -1: there is none.
  int lend();
  void give_back(int slot);

  /// What use() says until then may not be evicted: a step reads it.
  void begin_step() { ++step_; }
  bool has(ContentId content) const { return index_.contains(content); }
  /// The slot of the snapshot, which becomes the latest used.
  int use(ContentId content);
  /// Makes the lent slot the snapshot behind `content`, or gives it back if there is one.
  void keep(ContentId content, int slot);
  /// Drops the snapshot, if there is one.
  void forget(ContentId content);

  /// Throws Error(kInternal) unless `held` (of sequences and lent), snapshots and free slots are
  /// all slots.
  void check(std::vector<int> held) const;

 private:
  struct Snapshot {
    ContentId content;
    int slot;
    std::uint64_t step;  // in which it was used last
  };

  int count_, sequences_, taken_ = 0;
  std::uint64_t step_ = 1;
  std::vector<int> free_;
  std::list<Snapshot> snapshots_;  // the least recently used first
  std::unordered_map<ContentId, std::list<Snapshot>::iterator> index_;
};

}  // namespace sinter::engine
