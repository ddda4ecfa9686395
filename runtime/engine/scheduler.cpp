// SPDX-License-Identifier: Apache-2.0
// Arrival and end of requests; plan_step.cpp plans steps, complete_step.cpp handles their results.
#include "runtime/engine/scheduler.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>

#include "runtime/engine/sampler.h"
#include "runtime/format_error.h"
#include "runtime/sampling/random.h"

namespace sinter::engine {
namespace {

// Ranks are nanoseconds in 64 bits.
constexpr std::chrono::nanoseconds kMostPriorityStep = std::chrono::hours(24);
constexpr int kMostPriority = 1000;

void check_sizes(const std::vector<int>& sizes, int most, const char* what) {
  if (sizes.empty()) return;
  if (!std::ranges::is_sorted(sizes) || sizes.front() < 1 || sizes.back() < most)
    throw usage_error("the executor's sizes of {} must be positive, ascending, and end at {}", what,
                      most);
}

}  // namespace

Scheduler::Scheduler(const ExecutorLimits& limits, const EngineOptions& options)
    : limits_(limits),
      options_(options),
      blocks_(limits.block_count, limits.block_size, options.prefix_cache && limits.shares_blocks),
      states_(limits.state_slots, limits.max_sequences) {
  if (states_.exist())
    blocks_.set_states([this](ContentId content) { return states_.has(content); },
                       [this](ContentId content) { states_.forget(content); });
  if (options.max_step_tokens < 0)
    throw usage_error("max_step_tokens is {}, and must be 1 or more", options.max_step_tokens);
  if (options.max_step_tokens > limits.max_step_tokens)
    throw usage_error("max_step_tokens {} is more than the {} that the executor takes",
                      options.max_step_tokens, limits.max_step_tokens);
  if (options.max_step_tokens > 0) limits_.max_step_tokens = options.max_step_tokens;
  if (limits.max_sequences < 1 || limits.max_positions < 1)
    throw usage_error(
        "the executor must take 1 or more sequences of 1 or more positions, not {} of {}",
        limits.max_sequences, limits.max_positions);
  // Budget remains for prompts even if all sequences decode.
  if (limits_.max_step_tokens <= limits.max_sequences)
    throw usage_error("max_step_tokens {} must exceed the number of sequences, {}",
                      limits_.max_step_tokens, limits.max_sequences);
  check_sizes(limits.token_sizes, limits_.max_step_tokens, "tokens");
  check_sizes(limits.sequence_sizes, limits.max_sequences, "sequences");
  if (options.priority_step.count() < 0 || options.priority_step > kMostPriorityStep)
    throw usage_error("priority_step must be from 0 to 24 hours");
  if (options.max_waiting < 1)
    throw usage_error("max_waiting is {}, and must be 1 or more", options.max_waiting);
  if (options.draft_tokens < 0)
    throw usage_error("draft_tokens is {}, and must be 0 or more", options.draft_tokens);
  if (options.draft_tokens > limits.max_drafts)
    throw usage_error("draft_tokens {}: the executor checks at most {} drafts of a sequence",
                      options.draft_tokens, limits.max_drafts);
  if (options.draft_tokens > 0 && options.draft_sequences < 1)
    throw usage_error("draft_sequences is {}, and must be 1 or more", options.draft_sequences);
  if (options.draft_tokens > 0 &&
      (options.draft_match_least < 1 || options.draft_match < options.draft_match_least))
    throw usage_error("draft_match_least {} and draft_match {} must be positive and ascending",
                      options.draft_match_least, options.draft_match);
  for (int slot = limits.max_sequences - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  stats_.blocks = limits.block_count;
}

void Scheduler::check_constraint(const SamplingParameters& sampling) const {
  check_sampling(sampling, limits_.vocabulary);
  if (sampling.constraint && !options_.token_bytes)
    throw usage_error("a constraint needs the bytes of tokens: give EngineOptions::token_bytes");
}

void Scheduler::check_encoded(const EncoderOutput* given) const {
  if (limits_.crossed.empty()) {
    if (given != nullptr) throw usage_error("the plan takes no encoder outputs");
    return;
  }
  if (given == nullptr)
    throw usage_error("the plan takes encoder outputs ('{}', ..): give the encoder's plan, too",
                      limits_.crossed[0].name);
  std::optional<std::int64_t> positions;
  for (const CrossInput& input : limits_.crossed) {
    const auto found = std::ranges::find(given->tensors, input.name, &EncoderOutput::Tensor::name);
    if (found == given->tensors.end())
      throw usage_error("the encoder has no output '{}'", input.name);
    std::vector<std::int64_t> shape = found->shape;
    const std::size_t axis = input.shape.size() - 2;
    const std::int64_t own = shape.size() == input.shape.size() ? shape[axis] : 0;
    if (own >= 1) shape[axis] = input.shape[axis];
    const TensorView view{found->dtype, found->shape};
    if (found->dtype != input.dtype || shape != input.shape || own > input.shape[axis] ||
        own != positions.value_or(own) || found->data.size() != view.byte_count())
      throw usage_error(
          "what the encoder gives as '{}' is {} [{}]: the plan takes {} [{}], or fewer of its {} "
          "positions, as many as of the others",
          input.name, to_string(found->dtype), fmt::join(found->shape, ", "),
          to_string(input.dtype), fmt::join(input.shape, ", "), input.shape[axis]);
    positions = own;
  }
}

void Scheduler::check_vectors(const GenerationRequest& request) const {
  if (request.vectors == nullptr) return;
  const PromptVectors& given = *request.vectors;
  const std::size_t tokens = request.prompt.size();
  if (limits_.given_width == 0 && !given.rows.empty())
    throw usage_error("the plan takes no vectors in place of tokens");
  const auto axes = static_cast<std::size_t>(limits_.rotary_axes);
  if (!given.rotary.empty() && given.rotary.size() != axes * tokens)
    throw usage_error("{} rotary positions of {} tokens: the plan has {} of a token",
                      given.rotary.size(), tokens, axes);
  if (given.rows.empty()) return;
  const std::size_t row = static_cast<std::size_t>(limits_.given_width) * size_of(given.dtype);
  if (given.dtype != limits_.given_type || given.width != limits_.given_width ||
      given.rows.size() != tokens || given.data.size() % row != 0)
    throw usage_error(
        "vectors of {} {} in place of {} of {} tokens: the plan takes {} {} for each token",
        given.width, to_string(given.dtype), given.rows.size(), tokens, limits_.given_width,
        to_string(limits_.given_type));
  const auto count = static_cast<std::int64_t>(given.data.size() / row);
  for (const std::int32_t at : given.rows)
    if (at < -1 || at >= count) throw usage_error("a token has vector {} of {}", at, count);
}

void Scheduler::check(const GenerationRequest& request) const {
  const SamplingParameters& sampling = request.sampling;
  check_constraint(sampling);
  check_encoded(request.encoded.get());
  if (request.prompt.empty()) throw usage_error("the prompt has no tokens");
  check_vectors(request);
  for (const TokenId token : request.prompt)
    if (token < 0 || (limits_.vocabulary > 0 && token >= limits_.vocabulary))
      throw usage_error("token {} of the prompt is not in the model's vocabulary of {}", token,
                        limits_.vocabulary);
  if (request.priority < -kMostPriority || request.priority > kMostPriority)
    throw usage_error("priority {} is not from {} to {}", request.priority, -kMostPriority,
                      kMostPriority);
  if (!sampling.stop_strings.empty() && !options_.token_bytes && !options_.token_text)
    throw usage_error("stop strings need the text of tokens: give EngineOptions::token_bytes");
  if (sampling.samples > limits_.max_sequences)
    throw usage_error("{} samples are more than the {} sequences that run at once",
                      sampling.samples, limits_.max_sequences);
  // The last generated token is never run.
  const auto prompt = std::ssize(request.prompt);
  const std::int64_t most = most_positions();
  const bool has_limit = sampling.max_tokens != SamplingParameters::kNoLimit;
  const std::int64_t wanted = has_limit ? sampling.max_tokens : 1;
  if (wanted > most - prompt + 1)
    throw usage_error(
        "a prompt of {} tokens and {} behind it do not fit the {} positions of {}: shorten the "
        "prompt{}",
        prompt, wanted, most, most < limits_.max_positions ? "the whole cache" : "a sequence",
        has_limit ? " or lower max_tokens" : "");
}

std::int64_t Scheduler::most_positions() const {
  return std::min<std::int64_t>(limits_.max_positions,
                                std::int64_t{limits_.block_size} * limits_.block_count);
}

void Scheduler::submit(RequestId id, GenerationRequest request, EngineTime now,
                       std::shared_ptr<const grammar::Grammar> grammar) {
  auto owned = std::make_unique<RequestState>();
  RequestState& state = *owned;
  state.id = id;
  state.request = std::move(request);
  state.sampling = std::make_shared<const SamplingParameters>(std::move(state.request.sampling));
  state.grammar = std::move(grammar);
  state.arrival = now;
  state.max_tokens = state.sampling->max_tokens;
  // Up to the context's length, prompt included; the last token takes no cache position.
  if (state.max_tokens == SamplingParameters::kNoLimit)
    state.max_tokens =
        std::max<std::int64_t>(1, most_positions() - std::ssize(state.request.prompt));
  const auto step = std::chrono::nanoseconds(options_.priority_step).count();
  for (int sample = 0; sample < state.sampling->samples; ++sample) {
    auto sequence = std::make_unique<Sequence>(state);
    if (options_.token_text) sequence->words = options_.token_text();
    sequence->id = ++last_sequence_;
    sequence->rank = {
        std::chrono::nanoseconds(now.time_since_epoch()).count() - step * state.request.priority,
        id, sample};
    sequence->tokens = state.request.prompt;
    sequence->prompt_tokens = static_cast<int>(state.request.prompt.size());
    state.sequences.push_back(sequence->id);
    if (sample == 0)
      waiting_.insert(sequence.get());
    else
      state.following.push_back(sequence.get());
    sequences_.emplace(sequence->id, std::move(sequence));
  }
  if (state.request.deadline) deadlines_.emplace(*state.request.deadline, id);
  requests_.emplace(id, std::move(owned));
  ++stats_.requests;
  ++new_requests_;
}

void Scheduler::cancel(RequestId id, FinishReason reason, const std::string& error) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const std::vector<SequenceId> sequences = found->second->sequences;  // a copy: the last one
                                                                       // destroys the request
  for (const SequenceId sequence : sequences) {
    GenerationOutput output;
    output.error = error;
    end(*find(sequence), reason, std::move(output));
  }
}

void Scheduler::expire(EngineTime now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now)
    cancel(deadlines_.begin()->second, FinishReason::kDeadline);
}

std::vector<RequestId> Scheduler::request_ids() const {
  std::vector<RequestId> ids;
  for (const auto& [id, request] : requests_) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

Sequence* Scheduler::find(SequenceId id) {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : found->second.get();
}

std::size_t Scheduler::slots_for(const Sequence& sequence) const {
  return 1 + (sequence.rank.sample == 0 ? sequence.request->following.size() : 0);
}

void Scheduler::take_slots(Sequence& sequence) {
  const auto take = [&](Sequence& one) {
    one.slot = free_slots_.back();
    one.starts_slot = true;
    free_slots_.pop_back();
    if (states_.exist()) one.state = states_.take();
  };
  take(sequence);
  // The other samples must be able to start with the first one's draw.
  if (sequence.rank.sample == 0)
    for (Sequence* other : sequence.request->following) take(*other);
}

void Scheduler::give_slot(Sequence& sequence) {
  if (sequence.slot >= 0) free_slots_.push_back(sequence.slot);
  sequence.slot = -1;
  give_states(sequence);
}

void Scheduler::preempt(Sequence& sequence) {
  running_.erase(&sequence);
  sequence.is_running = false;
  blocks_.release(sequence.table);
  sequence.planned = sequence.computed = 0;
  give_slot(sequence);
  if (sequence.rank.sample == 0)
    for (Sequence* other : sequence.request->following) give_slot(*other);
  waiting_.insert(&sequence);
  has_preempted_ = true;
  ++stats_.preemptions;
}

EngineStats Scheduler::stats() const {
  EngineStats stats = stats_;
  stats.waiting = static_cast<std::int64_t>(waiting_.size());
  stats.running = static_cast<std::int64_t>(running_.size());
  stats.used_blocks = blocks_.block_count() - blocks_.available();
  stats.cached_blocks = blocks_.cached();
  stats.state_slots = states_.count();
  stats.used_state_slots = states_.used() - states_.snapshots();
  stats.kept_states = states_.snapshots();
  return stats;
}

void Scheduler::check_invariants() const {
  std::vector<const BlockTable*> tables;
  std::vector<int> slots = free_slots_;
  std::size_t following = 0, listed = 0;
  for (const auto& [id, sequence] : sequences_) {
    tables.push_back(&sequence->table);
    if (sequence->slot >= 0) slots.push_back(sequence->slot);
    if (!sequence->is_running && !sequence->table.blocks.empty())
      throw internal_error("sequence {} waits and holds blocks", id);
  }
  for (const auto& [id, request] : requests_) {
    following += request->following.size();
    listed += request->sequences.size();
  }
  blocks_.check(tables);
  std::vector<int> states = lent_;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->state >= 0) states.push_back(sequence->state);
    states.insert(states.end(), sequence->guesses.begin(), sequence->guesses.end());
  }
  states_.check(std::move(states));
  std::ranges::sort(slots);
  for (int slot = 0; slot < limits_.max_sequences; ++slot)
    if (std::ssize(slots) != limits_.max_sequences || slots[static_cast<std::size_t>(slot)] != slot)
      throw internal_error("slot {} is lost, or held twice", slot);
  if (running_.size() + waiting_.size() + following != sequences_.size() ||
      listed != sequences_.size())
    throw internal_error("{} running, {} waiting and {} following are not all {} sequences",
                         running_.size(), waiting_.size(), following, sequences_.size());
}

}  // namespace sinter::engine
