// SPDX-License-Identifier: Apache-2.0
// How the scheduler fills a step.
#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/engine/scheduler.h"
#include "runtime/engine/speculation.h"
#include "runtime/sampling/random.h"

namespace sinter::engine {
StepPlan Scheduler::plan(EngineTime now) {
  expire(now);
  states_.begin_step();
  preempt_for_urgent();
  has_preempted_ = false;
  Parts parts;
  std::vector<BlockCopy> copies;
  int budget = limits_.max_step_tokens;
  plan_decode(parts, copies, budget);
  // Longest sequences first: attention's blocks then balance better.
  std::ranges::stable_sort(parts, std::greater{},
                           [](const Part& part) { return part.sequence->planned; });
  plan_prefill(parts, budget);
  // Blocks are short: a newly admitted sequence would be preempted next.
  if (!has_preempted_) admit(parts, now, budget);
  add_drafts(parts, budget);
  return pack(parts, std::move(copies));
}

bool Scheduler::speculates() const {
  return options_.draft_tokens > 0 && std::ssize(running_) <= options_.draft_sequences;
}

bool Scheduler::can_admit(const Sequence& sequence, std::span<Sequence* const> victims) const {
  if (sequence.pending > 0) return false;  // its tokens are not known yet
  std::size_t slots = free_slots_.size();
  int available = blocks_.available();
  for (const Sequence* victim : victims) {
    slots += slots_for(*victim);
    available += blocks_.releasable(victim->table);
  }
  if (slots_for(sequence) > slots) return false;
  const BlockManager::Prefix prefix = blocks_.find_prefix(sequence.tokens);
  const int needed = blocks_.blocks_for(std::ssize(sequence.tokens)) - prefix.blocks;
  // Reserves a block for each running sequence that will need one, so that admission does not cause
  // preemption. With none running, any sequence fits: check() ensures it. Victims are the last
  // running sequences.
  const auto staying = static_cast<std::ptrdiff_t>(running_.size() - victims.size());
  const auto spare = std::count_if(
      running_.begin(), std::next(running_.begin(), staying), [&](const Sequence* running) {
        const std::int64_t positions = running->prompt_tokens + running->request->max_tokens - 1;
        return std::ssize(running->table.blocks) < blocks_.blocks_for(positions);
      });
  return needed + spare <= available - prefix.free_blocks;
}

void Scheduler::preempt_for_urgent() {
  if (waiting_.empty()) return;
  const Sequence& first = **waiting_.begin();
  if (first.pending > 0) return;
  // The fewest victims; none if preempting all candidates would not suffice.
  std::vector<Sequence*> victims;
  auto last = running_.rbegin();
  while (!can_admit(first, victims)) {
    if (last == running_.rend() || !(first.rank < (*last)->rank)) return;
    victims.push_back(*last++);
  }
  for (Sequence* victim : victims) preempt(*victim);
}

bool Scheduler::hold(Sequence& sequence, int end, std::vector<BlockCopy>& copies) {
  const std::size_t before = copies.size();
  const auto try_hold = [&] {
    return blocks_.extend(sequence.table, end) &&
           blocks_.make_writable(sequence.table, sequence.planned, end, copies);
  };
  while (!try_hold()) {
    Sequence& last = **running_.rbegin();
    preempt(last);
    if (&last == &sequence) {
      copies.resize(before);  // drop copies into blocks that it lost
      return false;
    }
  }
  return true;
}

void Scheduler::plan_decode(Parts& parts, std::vector<BlockCopy>& copies, int& budget) {
  // Victims have a worse rank, so planned parts stay valid.
  for (auto next = running_.begin(); next != running_.end();) {
    Sequence& sequence = **next;
    if (sequence.to_run() != 1 || sequence.is_complete()) {
      ++next;
      continue;
    }
    const bool holds = hold(sequence, sequence.planned + 1, copies);
    next = running_.upper_bound(&sequence);
    if (!holds) continue;
    parts.push_back({&sequence, 1, {}});
    --budget;
  }
}

void Scheduler::plan_prefill(Parts& parts, int& budget) {
  for (Sequence* sequence : running_) {
    if (budget == 0) return;
    if (sequence->to_run() <= 1) continue;
    parts.push_back({sequence, std::min(budget, sequence->to_run()), {}});
    budget -= parts.back().tokens;
  }
}

void Scheduler::admit(Parts& parts, EngineTime now, int& budget) {
  // In rank order: a sequence that does not fit holds up the later ones.
  while (budget > 0 && !waiting_.empty()) {
    Sequence& sequence = **waiting_.begin();
    if (!can_admit(sequence, {})) return;
    waiting_.erase(waiting_.begin());
    take_slots(sequence);
    begin_states(sequence);
    blocks_.take_prefix(sequence.tokens, sequence.table);
    if (states_.exist() && sequence.table.committed() > 0)
      sequence.state_source = states_.use(sequence.table.content());
    sequence.planned = sequence.computed = sequence.table.committed() * limits_.block_size;
    blocks_.extend(sequence.table, std::ssize(sequence.tokens));
    stats_.prefix_tokens += sequence.tokens.size();
    stats_.prefix_hit_tokens += static_cast<std::uint64_t>(sequence.planned);
    ++sequence.admission;
    sequence.is_running = true;
    running_.insert(&sequence);
    if (!sequence.first_planned) {
      sequence.first_planned = now;
      stats_.queue.add(now - sequence.request->arrival);
      --new_requests_;
    }
    parts.push_back({&sequence, std::min(budget, sequence.to_run()), {}});
    budget -= parts.back().tokens;
  }
}

void Scheduler::add_drafts(Parts& parts, int& budget) {
  if (!speculates()) return;
  for (Part& part : parts) {
    Sequence& sequence = *part.sequence;
    if (budget == 0) return;
    if (part.tokens != 1 || sequence.to_run() != 1 || sequence.pending > 0 ||
        sequence.generated() == 0)
      continue;
    // A step draws one token more than the accepted drafts.
    const std::int64_t most = std::min<std::int64_t>(
        {options_.draft_tokens, budget, sequence.request->max_tokens - sequence.generated() - 1});
    if (most < 1) continue;
    auto drafts = limits_.drafts ? std::vector(static_cast<std::size_t>(most), kDrafted)
                                 : look_up_drafts(sequence.tokens, options_.draft_match_least,
                                                  options_.draft_match, static_cast<int>(most));
    const int end = sequence.planned + 1 + static_cast<int>(drafts.size());
    // No preemption for drafts. Blocks after the one being written are never shared.
    if (drafts.empty() || !blocks_.extend(sequence.table, end) || !lend_guesses(sequence, drafts))
      continue;
    budget -= static_cast<int>(drafts.size());
    stats_.draft_tokens += drafts.size();
    part.drafts = std::move(drafts);
  }
}

void Scheduler::begin_following(Sequence& first, StepPlan& plan, int row) {
  for (Sequence* other : first.request->following) {
    other->table = blocks_.fork(first.table);
    other->planned = first.planned;
    other->computed = first.computed;
    other->pending = 1;
    ++other->admission;
    other->is_running = true;
    other->first_planned = first.first_planned;
    if (states_.exist()) {
      state_copies_.push_back({first.state, other->state});
      other->state_source = other->state;
    }
    running_.insert(other);
    plan.samples.push_back({other->id, other->admission, other->slot, row, 0});
  }
  first.request->following.clear();
}

StepPlan Scheduler::pack(const Parts& parts, std::vector<BlockCopy> copies) {
  StepPlan plan;
  if (parts.empty()) return plan;
  plan.number = ++last_step_;
  plan.copies = std::move(copies);
  // Of the states behind the step before.
  plan.state_copies = std::exchange(state_copies_, {});
  plan.snapshots = std::exchange(copied_, {});
  const auto start_slot = [&](Sequence& sequence) {
    if (!sequence.starts_slot) return;
    sequence.starts_slot = false;
    const SamplingParameters& sampling = *sequence.sampling;
    SlotStart& start = plan.starts.emplace_back();
    start.slot = sequence.slot;
    start.sampling = sequence.sampling;
    start.seed = sampling::seed_of_sample(sampling.seed, sequence.rank.sample);
    start.draws = static_cast<std::uint64_t>(sequence.generated());
    if (sampling.repetition_penalty != 1) start.tokens = sequence.tokens;
    start.grammar = sequence.request->grammar;
    start.encoded = sequence.request->request.encoded;
    start.ended = sequence.ended;
    if (start.grammar != nullptr || sampling.presence_penalty != 0 ||
        sampling.frequency_penalty != 0 || sampling.adjust)
      start.text.assign(sequence.tokens.begin() + sequence.prompt_tokens, sequence.tokens.end());
  };
  for (const Part& part : parts) {
    Sequence& sequence = *part.sequence;
    start_slot(sequence);
    const int first = static_cast<int>(plan.tokens.size());
    const auto drafts = static_cast<int>(part.drafts.size());
    const int count = part.tokens + drafts;
    const auto& blocks = sequence.table.blocks;
    plan.sequences.push_back({sequence.id, sequence.admission, sequence.slot, first, count,
                              sequence.planned, static_cast<int>(plan.block_tables.size()),
                              static_cast<int>(blocks.size()), sequence.prompt_tokens,
                              sequence.state_source, sequence.request->request.vectors});
    plan.block_tables.insert(plan.block_tables.end(), blocks.begin(), blocks.end());
    for (int i = 0; i < part.tokens; ++i) {
      const auto position =
          static_cast<std::size_t>(sequence.planned) + static_cast<std::size_t>(i);
      plan.tokens.push_back(position < sequence.tokens.size() ? sequence.tokens[position]
                                                              : kLastDrawn);
    }
    plan.tokens.insert(plan.tokens.end(), part.drafts.begin(), part.drafts.end());
    for (int i = 0; i < count; ++i) plan.positions.push_back(sequence.planned + i);
    if (states_.exist()) plan_states(sequence, first, part.tokens, drafts, plan);
    const bool draws = part.tokens == sequence.to_run();
    stats_.step_tokens += static_cast<std::uint64_t>(count);
    stats_.prompt_tokens +=
        static_cast<std::uint64_t>(std::clamp(sequence.prompt_tokens - sequence.planned, 0, count));
    sequence.planned += count;
    if (!draws) continue;
    const int row = first + part.tokens - 1;
    plan.samples.push_back({sequence.id, sequence.admission, sequence.slot, row, drafts});
    ++sequence.pending;
    if (sequence.rank.sample == 0) {
      for (Sequence* other : sequence.request->following) start_slot(*other);
      begin_following(sequence, plan, row);
    }
  }
  plan.padded_tokens = padded_size(limits_.token_sizes, static_cast<int>(plan.tokens.size()));
  plan.padded_sequences =
      padded_size(limits_.sequence_sizes, static_cast<int>(plan.sequences.size()));
  ++steps_in_flight_;
  ++stats_.steps;
  stats_.step_sequences += plan.sequences.size();
  stats_.padded_tokens += static_cast<std::uint64_t>(plan.padded_tokens);
  return plan;
}

}  // namespace sinter::engine
