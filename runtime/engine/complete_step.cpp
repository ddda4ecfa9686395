// SPDX-License-Identifier: Apache-2.0
// The scheduler's handling of step results.
#include <algorithm>

#include "runtime/engine/scheduler.h"
#include "runtime/format_error.h"

namespace sinter::engine {

void Scheduler::complete(const StepPlan& plan, const StepResult& result, EngineTime now) {
  --steps_in_flight_;
  if (result.samples.size() != plan.samples.size())
    throw internal_error("the executor drew {} samples of {}", result.samples.size(),
                         plan.samples.size());
  stats_.expert_tokens.resize(std::max(stats_.expert_tokens.size(), result.expert_tokens.size()));
  for (std::size_t m = 0; m < result.expert_tokens.size(); ++m) {
    const auto& counts = result.expert_tokens[m];
    auto& all = stats_.expert_tokens[m];
    all.resize(std::max(all.size(), counts.size()));
    for (std::size_t e = 0; e < counts.size(); ++e) all[e] += counts[e];
  }
  // A sequence may have ended or been preempted since the step was planned. After preemption its
  // blocks differ, but its drawn token still counts.
  for (const SequenceStep& step : plan.sequences) {
    Sequence* sequence = find(step.sequence);
    if (sequence == nullptr || sequence->admission != step.admission || !sequence->is_running)
      continue;
    sequence->computed = step.first_position + step.tokens;
  }
  keep_snapshots(plan);  // of texts that end with this step, too
  for (std::size_t i = 0; i < plan.samples.size(); ++i) {
    const SamplePlan& sample = plan.samples[i];
    Sequence* sequence = find(sample.sequence);
    if (sequence == nullptr) continue;
    const SampleResult& drawn = result.samples[i];
    const bool has_none = drawn.tokens.empty() && drawn.error.empty();
    if (has_none || std::ssize(drawn.tokens) > sample.drafts + 1)
      throw internal_error("the executor drew {} tokens behind {} drafts", drawn.tokens.size(),
                           sample.drafts);
    --sequence->pending;
    if (sequence->is_running && sequence->admission == sample.admission) {
      const int failed = sample.drafts + 1 - static_cast<int>(drawn.tokens.size());
      sequence->computed =
          plan.positions[static_cast<std::size_t>(sample.row)] + 1 + sample.drafts - failed;
      if (sample.drafts > 0) {
        sequence->planned = sequence->computed;
        if (states_.exist()) take_guess(*sequence, sample.drafts - failed);
      }
    }
    // One drawn token follows the accepted drafts, unless the constraint allows none.
    stats_.accepted_draft_tokens += drawn.tokens.size() - (drawn.error.empty() ? 1 : 0);
    take_tokens(*sequence, drawn, now);
  }
  for (const SequenceStep& step : plan.sequences) {
    Sequence* sequence = find(step.sequence);
    if (sequence != nullptr && sequence->is_running && sequence->admission == step.admission)
      blocks_.commit(sequence->table, sequence->tokens, sequence->computed);
  }
}

void Scheduler::fail(const StepPlan& plan, const std::string& error) {
  ++stats_.failed_steps;
  steps_in_flight_ = 0;
  // Other samples wait for the first one's prompt, so the whole request ends.
  for (const SequenceStep& step : plan.sequences)
    if (const Sequence* sequence = find(step.sequence))
      cancel(sequence->request->id, FinishReason::kError, error);
  // Forgotten draws are repeated with the same numbers.
  for (const auto& [id, sequence] : sequences_) sequence->pending = 0;
  while (!running_.empty()) preempt(**running_.rbegin());
  // Steps in flight were to write them.
  for (const int slot : lent_) states_.give_back(slot);
  lent_.clear();
  state_copies_.clear();
  copied_.clear();
}

void Scheduler::take_tokens(Sequence& sequence, const SampleResult& drawn, EngineTime now) {
  const SamplingParameters& sampling = *sequence.sampling;
  GenerationOutput output;
  FinishReason reason = FinishReason::kNone;
  for (std::size_t i = 0; i < drawn.tokens.size() && reason == FinishReason::kNone; ++i) {
    const TokenId token = drawn.tokens[i];
    sequence.tokens.push_back(token);
    output.tokens.push_back(token);
    if (i < drawn.logprobs.size()) output.logprobs.push_back(drawn.logprobs[i]);
    ++stats_.generated_tokens;
    if (std::ranges::find(sampling.stop_tokens, token) != sampling.stop_tokens.end()) {
      reason = FinishReason::kStop;
      break;
    }
    sequence.text.look_for_stops(sequence.generated() >= sampling.min_tokens);
    if (sequence.words)
      output.text += sequence.text.add_characters(sequence.words->add(token));
    else if (options_.token_bytes)
      output.text += sequence.text.add(options_.token_bytes(token));
    const bool is_last = i + 1 == drawn.tokens.size();
    if (sequence.text.has_stopped() || (is_last && drawn.ends))
      reason = FinishReason::kStop;
    else if (sequence.generated() >= sequence.request->max_tokens)
      reason = FinishReason::kLength;
  }
  if (reason == FinishReason::kNone && !drawn.error.empty()) {
    reason = FinishReason::kError;
    output.error = drawn.error;
  }
  if (sequence.last_token)
    stats_.between_tokens.add(now - *sequence.last_token);
  else
    stats_.first_token.add(now - sequence.request->arrival);
  sequence.last_token = now;
  if (reason != FinishReason::kNone) {
    end(sequence, reason, std::move(output));
    return;
  }
  output.request = sequence.request->id;
  output.sample = sequence.rank.sample;
  outputs_.push_back(std::move(output));
}

void Scheduler::end(Sequence& sequence, FinishReason reason, GenerationOutput output) {
  output.request = sequence.request->id;
  output.sample = sequence.rank.sample;
  output.finish = reason;
  if (sequence.words && !sequence.text.has_stopped())
    output.text += sequence.text.add_characters(sequence.words->finish());
  output.text += sequence.text.finish();
  outputs_.push_back(std::move(output));
  ++stats_.finished_texts[static_cast<std::size_t>(reason)];
  remove(sequence);
}

void Scheduler::remove(Sequence& sequence) {
  RequestState& request = *sequence.request;
  *sequence.ended = true;
  std::erase(request.following, &sequence);
  std::erase(request.sequences, sequence.id);
  running_.erase(&sequence);
  waiting_.erase(&sequence);
  blocks_.release(sequence.table);
  give_slot(sequence);
  if (!sequence.first_planned && sequence.rank.sample == 0) --new_requests_;
  sequences_.erase(sequence.id);
  if (!request.sequences.empty()) return;
  if (request.request.deadline) deadlines_.erase({*request.request.deadline, request.id});
  ++stats_.finished;
  requests_.erase(request.id);
}

}  // namespace sinter::engine
