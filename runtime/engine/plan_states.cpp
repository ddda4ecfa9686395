// SPDX-License-Identifier: Apache-2.0
// States of fixed size: which slots a step reads and writes, and what is kept of them.
//
// States can only be read where they were kept. A prompt keeps them where it parted from a prefix
// that others have computed, at its last end of a block, and every kKeptPositions.
#include <algorithm>

#include "runtime/engine/scheduler.h"

namespace sinter::engine {
namespace {

constexpr int kKeptPositions = 512;

}  // namespace

void Scheduler::begin_states(Sequence& sequence) {
  sequence.state_source = -1;
  if (!states_.exist()) return;
  const int known = blocks_.find_prefix(sequence.tokens).known;
  sequence.shared_end = known * limits_.block_size;
  sequence.last_end =
      static_cast<int>((std::ssize(sequence.tokens) - 1) / limits_.block_size) * limits_.block_size;
}

void Scheduler::give_states(Sequence& sequence) {
  if (sequence.state >= 0) states_.give(sequence.state);
  for (const int slot : sequence.guesses) states_.give_back(slot);
  sequence.state = sequence.state_source = -1;
  sequence.guesses.clear();
}

bool Scheduler::lend_guesses(Sequence& sequence, const std::vector<TokenId>& drafts) {
  if (!states_.exist()) return true;
  while (sequence.guesses.size() < drafts.size()) {
    const int slot = states_.lend();
    if (slot < 0) {
      for (const int each : sequence.guesses) states_.give_back(each);
      sequence.guesses.clear();
      return false;
    }
    sequence.guesses.push_back(slot);
  }
  return true;
}

bool Scheduler::is_kept(const Sequence& sequence, int position) const {
  const int every =
      (kKeptPositions + limits_.block_size - 1) / limits_.block_size * limits_.block_size;
  return position > 0 && (position % every == 0 || position == sequence.shared_end ||
                          position == sequence.last_end);
}

void Scheduler::plan_states(Sequence& sequence, int first_token, int tokens, int drafts,
                            StepPlan& plan) {
  const auto lend = [&](int position) {
    const bool is_wanted = options_.prefix_cache && limits_.shares_blocks && drafts == 0 &&
                           is_kept(sequence, position);
    const int slot = is_wanted ? states_.lend() : -1;
    if (slot >= 0) lent_.push_back(slot);
    return slot;
  };
  for (int i = 0; i + 1 < tokens; ++i) {
    const int position = sequence.planned + i + 1;
    const int slot = lend(position);
    if (slot < 0) continue;
    plan.state_stores.push_back({first_token + i, slot});
    plan.snapshots.push_back({sequence.id, sequence.admission, position, slot});
  }
  plan.state_stores.push_back({first_token + tokens - 1, sequence.state});
  for (int i = 0; i < drafts; ++i)
    plan.state_stores.push_back(
        {first_token + tokens + i, sequence.guesses[static_cast<std::size_t>(i)]});
  sequence.state_source = sequence.state;
  // The last token's slot is the sequence's own: the next step copies it.
  const int end = sequence.planned + tokens;
  if (const int slot = lend(end); slot >= 0) {
    state_copies_.push_back({sequence.state, slot});
    copied_.push_back({sequence.id, sequence.admission, end, slot});
  }
}

void Scheduler::take_guess(Sequence& sequence, int accepted) {
  if (accepted > 0)
    std::swap(sequence.state, sequence.guesses[static_cast<std::size_t>(accepted - 1)]);
  sequence.state_source = sequence.state;
  for (const int slot : sequence.guesses) states_.give_back(slot);
  sequence.guesses.clear();
}

void Scheduler::keep_snapshots(const StepPlan& plan) {
  for (const StateSnapshot& snapshot : plan.snapshots) {
    std::erase(lent_, snapshot.slot);
    Sequence* const sequence = find(snapshot.sequence);
    if (sequence == nullptr || !sequence->is_running || sequence->admission != snapshot.admission) {
      states_.give_back(snapshot.slot);
      continue;
    }
    blocks_.commit(sequence->table, sequence->tokens, snapshot.position);
    const auto block = static_cast<std::size_t>(snapshot.position / limits_.block_size);
    states_.keep(sequence->table.contents.at(block - 1), snapshot.slot);
  }
}

}  // namespace sinter::engine
