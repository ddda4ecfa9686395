// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/executors/drafting_executor.h"

#include <algorithm>

#include "runtime/format_error.h"

namespace sinter::engine {
namespace {

void pad(StepPlan& plan, const ExecutorLimits& limits) {
  plan.padded_tokens = padded_size(limits.token_sizes, static_cast<int>(plan.tokens.size()));
  plan.padded_sequences =
      padded_size(limits.sequence_sizes, static_cast<int>(plan.sequences.size()));
}

/// The sample of `step` if it has drafts, else null.
const SamplePlan* drafts_of(const StepPlan& plan, const SequenceStep& step) {
  for (const SamplePlan& sample : plan.samples)
    if (sample.sequence == step.sequence && sample.drafts > 0) return &sample;
  return nullptr;
}

/// Index of the sample's draft token number `draft` in the plan's tokens.
std::size_t place_of(const SamplePlan& sample, int draft) {
  return static_cast<std::size_t>(sample.row) + 1 + static_cast<std::size_t>(draft);
}

}  // namespace

DraftingExecutor::DraftingExecutor(std::unique_ptr<Executor> target,
                                   std::unique_ptr<Executor> draft, std::uint64_t cache_bytes)
    : target_(std::move(target)),
      draft_(std::move(draft)),
      limits_(target_->limits()),
      cache_bytes_(cache_bytes),
      most_likely_(std::make_shared<const SamplingParameters>()) {
  const ExecutorLimits& other = draft_->limits();
  if (other.state_slots > 0)
    throw usage_error(
        "the draft model has states of fixed size, which do not follow the model's guesses: take "
        "one with attention alone, or none");
  const auto require = [](int own, int drafts, const char* what) {
    if (drafts < own)
      throw usage_error("the draft model has {} {}, and the model {}: they must fit each other",
                        drafts, what, own);
  };
  if (other.vocabulary != limits_.vocabulary)
    throw usage_error("the draft model has {} tokens and the model {}: they must be the same",
                      other.vocabulary, limits_.vocabulary);
  if (other.block_size != limits_.block_size)
    throw usage_error(
        "blocks of the draft model's caches have {} positions, those of the model's {}: compile "
        "both with the same --serve=block=N",
        other.block_size, limits_.block_size);
  require(limits_.block_count, other.block_count, "blocks");
  require(limits_.max_positions, other.max_positions, "positions of a sequence");
  require(limits_.max_sequences, other.max_sequences, "sequences at once");
  require(limits_.max_step_tokens, other.max_step_tokens, "tokens in a step");
  limits_.steps_in_flight = 1;
  limits_.drafts = true;
}

StepResult DraftingExecutor::run(StepPlan plan) {
  pad(plan, draft_->limits());
  draft_->start(plan);
  return draft_->finish();
}

StepPlan DraftingExecutor::plan_known(const StepPlan& plan) const {
  StepPlan known;
  known.number = plan.number;
  known.copies = plan.copies;
  known.block_tables = plan.block_tables;
  for (const SlotStart& start : plan.starts) {
    SlotStart& own = known.starts.emplace_back();
    own.slot = start.slot;
    own.sampling = most_likely_;
  }
  for (SequenceStep step : plan.sequences) {
    const SamplePlan* const sample = drafts_of(plan, step);
    const int count = step.tokens - (sample != nullptr ? sample->drafts : 0);
    const auto first = plan.tokens.begin() + step.first_token;
    const auto position = plan.positions.begin() + step.first_token;
    step.first_token = static_cast<int>(known.tokens.size());
    step.tokens = count;
    known.tokens.insert(known.tokens.end(), first, first + count);
    known.positions.insert(known.positions.end(), position, position + count);
    known.sequences.push_back(step);
    if (sample == nullptr) continue;
    SamplePlan& own = known.samples.emplace_back(*sample);
    own.row = step.first_token + count - 1;
    own.drafts = 0;
  }
  return known;
}

StepPlan DraftingExecutor::plan_next(const StepPlan& plan, int drafted) const {
  StepPlan next;
  next.number = plan.number;
  next.block_tables = plan.block_tables;
  for (SequenceStep step : plan.sequences) {
    const SamplePlan* const sample = drafts_of(plan, step);
    if (sample == nullptr || sample->drafts <= drafted) continue;
    const auto at = place_of(*sample, drafted);
    step.first_token = static_cast<int>(next.tokens.size());
    step.tokens = 1;
    step.first_position = plan.positions[at];
    next.tokens.push_back(plan.tokens[at]);
    next.positions.push_back(step.first_position);
    next.sequences.push_back(step);
    // The last draft also runs, because the next step needs its keys and values.
    if (sample->drafts == drafted + 1) continue;
    SamplePlan& own = next.samples.emplace_back(*sample);
    own.row = step.first_token;
    own.drafts = 0;
  }
  return next;
}

void DraftingExecutor::start(const StepPlan& plan) {
  StepPlan filled = plan;
  StepPlan step = plan_known(plan);
  for (int drafted = 0; !step.empty(); ++drafted) {
    const std::vector<SamplePlan> samples = step.samples;
    const StepResult found = run(std::move(step));
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto sample =
          std::ranges::find(filled.samples, samples[i].sequence, &SamplePlan::sequence);
      // NaN logits of the draft model: any valid token will do as a guess.
      const auto& tokens = found.samples[i].tokens;
      filled.tokens[place_of(*sample, drafted)] = tokens.empty() ? 0 : tokens.front();
    }
    step = plan_next(filled, drafted);
  }
  target_->start(filled);
}

void DraftingExecutor::recover() {
  draft_->recover();
  target_->recover();
}

std::unique_ptr<DraftingExecutor> make_drafting_executor(const Plan& plan, const Plan& draft,
                                                         PagedExecutorOptions options) {
  for (const Plan* each : {&plan, &draft})
    if (!PagedExecutor::takes(*each))
      throw usage_error(
          "the {} is of one sequence at a time: compile it with --serve, as a draft model needs",
          each == &plan ? "model's plan" : "draft model's plan");
  options.beside = &draft;
  auto target = std::make_unique<PagedExecutor>(plan, options);
  options.beside = nullptr;
  options.block_count = target->limits().block_count;
  options.max_sequences = target->limits().max_sequences;
  options.max_step_tokens = target->limits().max_step_tokens;
  auto guesser = with_context("the draft model",
                              [&] { return std::make_unique<PagedExecutor>(draft, options); });
  const std::uint64_t bytes = target->cache_bytes() + guesser->cache_bytes();
  return std::make_unique<DraftingExecutor>(std::move(target), std::move(guesser), bytes);
}

ExecutorOfPlan make_executor(const Plan& plan, const Plan* draft, const EngineOptions& options,
                             const SessionOptions& session) {
  PagedExecutorOptions paged;
  paged.session = session;
  paged.cache_bytes = options.cache_bytes;
  paged.state_bytes = options.state_bytes;
  paged.max_sequences = options.max_sequences;
  paged.max_step_tokens = options.max_step_tokens;
  paged.max_positions = options.max_positions;
  const auto made = [](auto executor) {
    const std::uint64_t bytes = executor->cache_bytes();
    return ExecutorOfPlan{std::move(executor), bytes};
  };
  return draft ? made(make_drafting_executor(plan, *draft, paged))
               : made(std::make_unique<PagedExecutor>(plan, paged));
}

int draft_tokens_of(int asked, bool has_draft_model) {
  constexpr int kUsual = 4;
  return asked == 0 && has_draft_model ? kUsual : asked;
}

}  // namespace sinter::engine
