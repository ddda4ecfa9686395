// SPDX-License-Identifier: Apache-2.0
// Decides what each step runs. No thread, no clock, no model: what it does follows from the calls
// and the times that it is given, so that it is tested by simulation.
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

namespace sinter::engine {

/// Continuous batching with chunked prefill. README.md says how a step is filled.
class Scheduler {
 public:
  /// Throws Error(kUsage) for limits and options that mean nothing or contradict each other.
  Scheduler(const ExecutorLimits& limits, const EngineOptions& options);

  /// Throws Error(kUsage) if `request` can never run, as Engine::submit says. Depends on nothing
  /// that changes: any thread may ask.
  void check(const GenerationRequest& request) const;
  /// The part of it that is about a constraint and what is said of tokens.
  void check_constraint(const SamplingParameters& sampling) const;
  /// The part of it that is about an encoder; null: the request has none.
  void check_encoded(const EncoderOutput* given) const;

  /// Takes a request that passed check(), under an id of its own; `grammar` of its constraint.
  void submit(RequestId id, GenerationRequest request, EngineTime now,
              std::shared_ptr<const grammar::Grammar> grammar = nullptr);
  /// Ends a request, if there is one.
  void cancel(RequestId id, FinishReason reason = FinishReason::kCancelled,
              const std::string& error = {});

  /// The next step; empty if there is nothing to run now. Steps that were planned before and are
  /// not completed are in flight.
  StepPlan plan(EngineTime now);
  /// Whether plan() would leave nothing out because of steps that are in flight.
  bool can_plan_ahead() const { return steps_in_flight_ == 0 || !speculates(); }
  /// What came of the step that was planned first of those that are not completed.
  void complete(const StepPlan& plan, const StepResult& result, EngineTime now);
  /// Step `plan`, which is in flight, has failed: its requests end with `error`. Other steps in
  /// flight are forgotten, and what runs is computed again.
  void fail(const StepPlan& plan, const std::string& error);

  /// What happened to requests since the last call.
  std::vector<GenerationOutput> take_outputs() { return std::exchange(outputs_, {}); }

  bool has_requests() const { return !requests_.empty(); }
  /// Requests none of whose sequences was ever admitted.
  std::int64_t waiting_requests() const { return new_requests_; }
  /// All but the idle times.
  EngineStats stats() const;
  std::vector<RequestId> request_ids() const;

  /// Throws Error(kInternal) if blocks or slots are lost, or held by nobody.
  void check_invariants() const;

 private:
  /// What a step runs of a sequence.
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

  /// Positions that a sequence has alone: of its context or of the whole cache.
  std::int64_t most_positions() const;
  bool speculates() const;
  void expire(EngineTime now);
  // Parts of plan(), in their order (plan_step.cpp).
  void preempt_for_urgent();
  void plan_decode(Parts& parts, std::vector<BlockCopy>& copies, int& budget);
  void plan_prefill(Parts& parts, int& budget);
  void admit(Parts& parts, EngineTime now, int& budget);
  void add_drafts(Parts& parts, int& budget);
  StepPlan pack(const Parts& parts, std::vector<BlockCopy> copies);
  void begin_following(Sequence& first, StepPlan& plan, int row);

  bool hold(Sequence& sequence, int end, std::vector<BlockCopy>& copies);
  /// Whether there is room, once `victims`, the last that run, have gone.
  bool can_admit(const Sequence& sequence, std::span<Sequence* const> victims) const;
  std::size_t slots_for(const Sequence& sequence) const;
  void take_slots(Sequence& sequence);
  void give_slot(Sequence& sequence);
  void preempt(Sequence& sequence);

  // Parts of complete() (complete_step.cpp).
  Sequence* find(SequenceId id);
  void take_tokens(Sequence& sequence, const SampleResult& result, EngineTime now);
  void end(Sequence& sequence, FinishReason reason, GenerationOutput output);
  void remove(Sequence& sequence);

  ExecutorLimits limits_;
  EngineOptions options_;
  BlockManager blocks_;
  std::vector<int> free_slots_;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  Ranked running_, waiting_;
  std::set<std::pair<EngineTime, RequestId>> deadlines_;
  std::vector<GenerationOutput> outputs_;
  SequenceId last_sequence_ = 0;
  std::uint64_t last_step_ = 0;
  int steps_in_flight_ = 0;
  bool has_preempted_ = false;  // in the step that is planned
  std::int64_t new_requests_ = 0;
  EngineStats stats_;
};

}  // namespace sinter::engine
