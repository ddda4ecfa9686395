// SPDX-License-Identifier: Apache-2.0
// Decides what each step runs. It has no thread, clock or model: its decisions depend only on calls
// and the times passed to them, so tests simulate it.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sinter/engine.h>

#include "runtime/engine/executor.h"
#include "runtime/engine/sequence.h"
#include "runtime/engine/state_slots.h"

namespace sinter::engine {

/// Continuous batching with chunked prefill. README.md explains how a step is filled.
class Scheduler {
 public:
  /// Throws Error(kUsage) for invalid or contradictory limits and options.
  Scheduler(const ExecutorLimits& limits, const EngineOptions& options);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Throws Error(kUsage) if `request` can never run, as Engine::submit says. Thread-safe: reads
  /// only constant data.
  void check(const GenerationRequest& request) const;
  /// The part of check() for constraints and log probabilities.
  void check_constraint(const SamplingParameters& sampling) const;
  /// The part of check() for the encoder output; null: the request has none.
  void check_encoded(const EncoderOutput* given) const;
  void check_vectors(const GenerationRequest& request) const;

  /// Adds a request that passed check(). `id` must be unused; `grammar` is that of its constraint.
  void submit(RequestId id, GenerationRequest request, EngineTime now,
              std::shared_ptr<const grammar::Grammar> grammar = nullptr);
  /// Ends a request if it still exists.
  void cancel(RequestId id, FinishReason reason = FinishReason::kCancelled,
              const std::string& error = {});

  /// Plans the next step; empty if nothing can run now. Steps planned but not completed are in
  /// flight.
  StepPlan plan(EngineTime now);
  /// Whether planning with steps in flight omits nothing: drafts need all steps completed.
  bool can_plan_ahead() const { return steps_in_flight_ == 0 || !speculates(); }
  /// Applies the result of the oldest step in flight.
  void complete(const StepPlan& plan, const StepResult& result, EngineTime now);
  /// Handles the failure of step `plan`, which is in flight: its requests end with `error`. Other
  /// steps in flight are forgotten and recomputed.
  void fail(const StepPlan& plan, const std::string& error);

  /// Outputs of requests since the last call.
  std::vector<GenerationOutput> take_outputs() { return std::exchange(outputs_, {}); }

  bool has_requests() const { return !requests_.empty(); }
  /// Requests that never had a sequence admitted.
  std::int64_t waiting_requests() const { return new_requests_; }
  /// All statistics but the idle times.
  EngineStats stats() const;
  std::vector<RequestId> request_ids() const;

  /// Throws Error(kInternal) if blocks or slots are lost or have no owner.
  void check_invariants() const;

 private:
  /// The tokens of one sequence in a step.
  struct Part {
    Sequence* sequence;
    int tokens;
    std::vector<TokenId> drafts;
  };
  using Parts = std::vector<Part>;
  struct ByRank {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->rank < b->rank; }
  };
  using Ranked = std::set<Sequence*, ByRank>;

  /// Maximum positions of a sequence: limited by its context and by the whole cache.
  std::int64_t most_positions() const;
  bool speculates() const;
  void expire(EngineTime now);
  // Stages of plan(), in order (plan_step.cpp).
  void preempt_for_urgent();
  void plan_decode(Parts& parts, std::vector<BlockCopy>& copies, int& budget);
  void plan_prefill(Parts& parts, int& budget);
  void admit(Parts& parts, EngineTime now, int& budget);
  void add_drafts(Parts& parts, int& budget);
  StepPlan pack(const Parts& parts, std::vector<BlockCopy> copies);
  void begin_following(Sequence& first, StepPlan& plan, int row);

  bool hold(Sequence& sequence, int end, std::vector<BlockCopy>& copies);
  /// Whether the sequence fits after preempting `victims`, the last running sequences.
  bool can_admit(const Sequence& sequence, std::span<Sequence* const> victims) const;
  std::size_t slots_for(const Sequence& sequence) const;
  void take_slots(Sequence& sequence);
  void give_slot(Sequence& sequence);
  void preempt(Sequence& sequence);

  // States of fixed size (plan_states.cpp).
  void begin_states(Sequence& sequence);
  bool lend_guesses(Sequence& sequence, const std::vector<TokenId>& drafts);
  void give_states(Sequence& sequence);
  void plan_states(Sequence& sequence, int first_token, int tokens, int drafts, StepPlan& plan);
  bool is_kept(const Sequence& sequence, int position) const;
  void take_guess(Sequence& sequence, int accepted);
  void keep_snapshots(const StepPlan& plan);

  // Stages of complete() (complete_step.cpp).
  Sequence* find(SequenceId id);
  void take_tokens(Sequence& sequence, const SampleResult& result, EngineTime now);
  void end(Sequence& sequence, FinishReason reason, GenerationOutput output);
  void remove(Sequence& sequence);

  ExecutorLimits limits_;
  EngineOptions options_;
  BlockManager blocks_;
  std::vector<int> free_slots_;
  StateSlots states_;
  std::vector<StateCopy> state_copies_;  // of the next step
  std::vector<StateSnapshot> copied_;    // snapshots among these
  std::vector<int> lent_;                // slots of snapshots of steps in flight and of copies
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  Ranked running_, waiting_;
  std::set<std::pair<EngineTime, RequestId>> deadlines_;
  std::vector<GenerationOutput> outputs_;
  SequenceId last_sequence_ = 0;
  std::uint64_t last_step_ = 0;
  int steps_in_flight_ = 0;
  bool has_preempted_ = false;  // in the step being planned
  std::int64_t new_requests_ = 0;
  EngineStats stats_;
};

}  // namespace sinter::engine
