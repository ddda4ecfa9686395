// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/engine/fake_executor.h"

#include <algorithm>
#include <array>
#include <set>

#include "runtime/engine/utf8.h"
#include "runtime/format_error.h"
#include "runtime/sampling/random.h"

namespace sinter::testing {

using engine::BlockId;
using engine::StepPlan;
using engine::StepResult;
using sampling::mix;

std::vector<float> fake_logits(std::span<const TokenId> tokens, int vocabulary) {
  std::uint64_t all = 0;
  for (const TokenId token : tokens) all = mix(all ^ static_cast<std::uint64_t>(token + 1));
  const auto last = static_cast<std::uint64_t>(tokens.back());
  const auto unit = [](std::uint64_t bits) { return static_cast<float>(bits >> 40) * 0x1p-24F; };
  std::vector<float> logits(static_cast<std::size_t>(vocabulary));
  for (std::size_t id = 0; id < logits.size(); ++id)
    logits[id] = 6 * unit(mix(last * 1000 + id)) + unit(mix(all + id));
  return logits;
}

std::string_view fake_bytes(TokenId token) {
  static const std::array<std::string, 16> pieces = {"",   "a",  "b", "ab", "\xC3",     "\xA9",
                                                     "ba", "c",  " ", "d",  "\xE2\x82", "\xAC",
                                                     "e",  "bc", "f", "g"};
  return pieces[static_cast<std::size_t>(token) % pieces.size()];
}

std::shared_ptr<const grammar::Grammar> fake_grammar(const GenerationRequest& request,
                                                     int vocabulary) {
  if (!request.sampling.constraint) return nullptr;
  static std::map<int, grammar::Compiler> compilers;
  return compilers.try_emplace(vocabulary, vocabulary, fake_bytes)
      .first->second.compile(*request.sampling.constraint);
}

ExpectedText expected_text(const GenerationRequest& request, int sample, int vocabulary,
                           bool has_text, std::shared_ptr<const grammar::Grammar> grammar) {
  const SamplingParameters& sampling = request.sampling;
  engine::SlotStart start;
  start.sampling = std::make_shared<const SamplingParameters>(sampling);
  start.seed = sampling::seed_of_sample(sampling.seed, sample);
  start.tokens = request.prompt;
  start.grammar = std::move(grammar);
  engine::SlotSampler sampler(start);
  ExpectedText result{{}, {}, FinishReason::kLength};
  auto tokens = request.prompt;
  std::string bytes;
  std::size_t from = 0;  // stop strings are looked for
  while (std::ssize(result.tokens) < sampling.max_tokens) {
    const engine::SampleResult drawn = sampler.sample(fake_logits(tokens, vocabulary), {});
    if (!drawn.error.empty()) {
      result.finish = FinishReason::kError;
      break;
    }
    const TokenId token = drawn.tokens.front();
    tokens.push_back(token), result.tokens.push_back(token);
    if (std::ranges::find(sampling.stop_tokens, token) != sampling.stop_tokens.end()) {
      result.finish = FinishReason::kStop;
      break;
    }
    if (has_text) bytes += fake_bytes(token);
    if (drawn.ends) result.finish = FinishReason::kStop;
    // A character that is not whole yet is not text.
    engine::Utf8Stream characters;
    const std::string text = characters.add(bytes);
    if (std::ssize(result.tokens) < sampling.min_tokens) from = text.size();
    std::size_t stop = std::string::npos;
    for (const std::string& each : sampling.stop_strings)
      stop = std::min(stop, text.find(each, from));
    if (stop != std::string::npos) {
      result.text = text.substr(0, stop);
      result.finish = FinishReason::kStop;
      return result;
    }
    if (drawn.ends) break;
  }
  const std::string text = engine::repaired_utf8(bytes);
  std::size_t stop = text.size();
  for (const std::string& each : sampling.stop_strings)
    stop = std::min(stop, text.find(each, from));
  result.text = text.substr(0, stop);
  return result;
}

FakeExecutor::FakeExecutor(engine::ExecutorLimits limits) : limits_(std::move(limits)) {
  cells_.assign(
      static_cast<std::size_t>(limits_.block_count) * static_cast<std::size_t>(limits_.block_size),
      -1);
  states_.resize(static_cast<std::size_t>(limits_.state_slots));
}

TokenId FakeExecutor::token_at(const StepPlan& plan, const engine::SequenceStep& step,
                               int i) const {
  TokenId token = plan.tokens[static_cast<std::size_t>(step.first_token + i)];
  if (token == engine::kLastDrawn) token = slots_.at(step.slot).last();
  if (token < 0) throw internal_error("a slot has drawn no token");
  return token;
}

void FakeExecutor::check_states(const StepPlan& plan) const {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw internal_error("plan: {}", what);
  };
  if (limits_.state_slots == 0)
    return require(plan.state_stores.empty() && plan.state_copies.empty(), "no states");
  std::map<int, engine::SequenceId> owners;  // of slots that the step reads or writes
  std::set<int> written;
  auto store = plan.state_stores.begin();
  for (const auto& step : plan.sequences) {
    const auto own = [&](int slot) {
      require(slot < limits_.state_slots, "slot of states");
      require(owners.try_emplace(slot, step.sequence).first->second == step.sequence,
              "one sequence writes what another reads or writes");
    };
    const auto drafts =
        std::ranges::find(plan.samples, step.sequence, &engine::SamplePlan::sequence);
    int least = step.tokens - 1 - (drafts == plan.samples.end() ? 0 : drafts->drafts);
    for (int i = 0; i < step.tokens; ++i) {
      const bool is_stored =
          store != plan.state_stores.end() && store->token == step.first_token + i;
      require(is_stored || i < least, "the last state and those of drafts are stored");
      if (!is_stored) continue;
      own(store->slot);
      require(written.insert(store->slot).second, "a slot is written once");
      ++store;
    }
  }
  require(store == plan.state_stores.end(), "stores are of tokens, in their order");
  // Several may read a prefix.
  for (const auto& step : plan.sequences)
    if (const auto owner = owners.find(step.state_source); owner != owners.end())
      require(owner->second == step.sequence, "a slot that is read is another's");
}

std::vector<std::vector<TokenId>> FakeExecutor::run_states(const StepPlan& plan) {
  check_states(plan);
  const auto at = [&](int slot) -> std::vector<TokenId>& {
    return states_.at(static_cast<std::size_t>(slot));
  };
  for (const auto& copy : plan.state_copies) at(copy.to) = at(copy.from);
  std::vector<std::vector<TokenId>> all;
  for (const auto& step : plan.sequences) {
    auto& tokens = all.emplace_back();
    if (step.state_source >= 0) tokens = at(step.state_source);
    if (std::ssize(tokens) != step.first_position)
      throw internal_error("the states are behind {} tokens, not {}", tokens.size(),
                           step.first_position);
  }
  auto store = plan.state_stores.begin();
  for (std::size_t s = 0; s < all.size(); ++s)
    for (int i = 0; i < plan.sequences[s].tokens; ++i) {
      all[s].push_back(token_at(plan, plan.sequences[s], i));
      if (store->token == plan.sequences[s].first_token + i) at(store++->slot) = all[s];
    }
  return all;
}

void FakeExecutor::check(const StepPlan& plan) const {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw internal_error("plan: {}", what);
  };
  require(!plan.empty() && std::ssize(plan.tokens) <= limits_.max_step_tokens, "tokens");
  require(plan.tokens.size() == plan.positions.size(), "positions");
  require(std::ssize(plan.sequences) <= limits_.max_sequences, "sequences");
  require(plan.padded_tokens >= std::ssize(plan.tokens), "padded tokens");
  require(plan.padded_sequences >= std::ssize(plan.sequences), "padded sequences");
  const auto is_of = [](const std::vector<int>& sizes, int size) {
    return sizes.empty() || std::ranges::find(sizes, size) != sizes.end();
  };
  require(is_of(limits_.token_sizes, plan.padded_tokens), "size of the ladder");
  require(is_of(limits_.sequence_sizes, plan.padded_sequences), "size of the ladder");
  std::set<int> slots;
  int next = 0;
  for (const auto& step : plan.sequences) {
    require(step.first_token == next && step.tokens > 0, "tokens end to end");
    require(slots.insert(step.slot).second, "one slot a sequence");
    require(step.first_position + step.tokens <= limits_.max_positions, "positions in a sequence");
    require(step.first_position + step.tokens <= step.blocks * limits_.block_size, "blocks");
    for (int i = 0; i < step.tokens; ++i)
      require(plan.positions[static_cast<std::size_t>(next + i)] == step.first_position + i,
              "positions one after the other");
    next += step.tokens;
  }
  require(next == std::ssize(plan.tokens), "all tokens");
  for (const auto& sample : plan.samples) require(sample.drafts <= limits_.max_drafts, "drafts");
}

StepResult FakeExecutor::run(const StepPlan& plan) {
  check(plan);
  if (limits_.state_slots == 0) check_states(plan);
  for (const auto& start : plan.starts)
    slots_.insert_or_assign(start.slot, engine::SlotSampler(start));
  const auto size = static_cast<std::size_t>(limits_.block_size);
  const auto cell = [&](BlockId block, std::size_t place) -> TokenId& {
    return cells_.at(static_cast<std::size_t>(block) * size + place);
  };
  for (const auto& copy : plan.copies)
    for (std::size_t i = 0; i < size; ++i) cell(copy.to, i) = cell(copy.from, i);

  std::vector<std::vector<float>> rows(plan.tokens.size());
  std::set<int> wanted;
  for (const auto& sample : plan.samples)
    for (int i = 0; i <= sample.drafts; ++i) wanted.insert(sample.row + i);
  std::vector<TokenId> drafts(plan.tokens);
  // All is written before anything is read, as by a kernel of many blocks.
  const auto table_of = [&](const engine::SequenceStep& step) {
    return std::span(plan.block_tables)
        .subspan(static_cast<std::size_t>(step.first_block), static_cast<std::size_t>(step.blocks));
  };
  for (const auto& step : plan.sequences)
    for (int i = 0; i < step.tokens; ++i) {
      const auto position = static_cast<std::size_t>(step.first_position + i);
      cell(table_of(step)[position / size], position % size) = token_at(plan, step, i);
    }
  const auto states =
      limits_.state_slots > 0 ? run_states(plan) : std::vector<std::vector<TokenId>>();
  for (const auto& step : plan.sequences) {
    std::vector<TokenId> read;
    for (int i = 0; i < step.tokens; ++i) {
      const auto row = static_cast<std::size_t>(step.first_token + i);
      const auto position = static_cast<std::size_t>(step.first_position + i);
      if (!wanted.contains(static_cast<int>(row))) continue;
      while (read.size() <= position)
        read.push_back(cell(table_of(step)[read.size() / size], read.size() % size));
      if (limits_.state_slots > 0) {
        const auto& own = states[static_cast<std::size_t>(&step - plan.sequences.data())];
        if (!std::equal(read.begin(), read.end(), own.begin()))
          throw internal_error("states are of other tokens than the cache");
      }
      rows[row] = logits_of(read);
    }
  }
  StepResult result;
  for (const auto& sample : plan.samples) {
    std::vector<float> logits;
    const auto first = static_cast<std::size_t>(sample.row);
    const auto count = static_cast<std::size_t>(sample.drafts);
    for (std::size_t i = 0; i <= count; ++i)
      logits.insert(logits.end(), rows[first + i].begin(), rows[first + i].end());
    result.samples.push_back(
        slots_.at(sample.slot).sample(logits, std::span(drafts).subspan(first + 1, count)));
  }
  return result;
}

void FakeExecutor::start(const StepPlan& plan) {
  if (std::ssize(results_) >= limits_.steps_in_flight) throw internal_error("too many steps");
  results_.push_back(run(plan));
}

StepResult FakeExecutor::finish() {
  StepResult result = std::move(results_.front());
  results_.pop_front();
  return result;
}

ThreadedExecutor::ThreadedExecutor(engine::ExecutorLimits limits, std::uint64_t failing,
                                   bool is_lost)
    : model_(std::move(limits)), failing_(failing), is_lost_(is_lost), thread_([this] { run(); }) {}

ThreadedExecutor::~ThreadedExecutor() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
  }
  changes_.notify_all();
  thread_.join();
}

void ThreadedExecutor::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changes_.wait(lock, [&] { return is_stopping_ || !plans_.empty(); });
    if (plans_.empty()) return;
    const StepPlan plan = std::move(plans_.front());
    plans_.pop_front();
    is_busy_ = true;
    bool has_failed = has_failed_;
    lock.unlock();
    std::optional<StepResult> result;
    if (plan.number == failing_) has_failed = true;
    if (!has_failed) result = model_.run(plan);  // nothing runs behind a failure
    lock.lock();
    is_busy_ = false;
    has_failed_ = has_failed;
    results_.push_back(std::move(result));
    changes_.notify_all();
  }
}

void ThreadedExecutor::start(const StepPlan& plan) {
  const std::scoped_lock lock(mutex_);
  plans_.push_back(plan);
  changes_.notify_all();
}

StepResult ThreadedExecutor::finish() {
  std::unique_lock lock(mutex_);
  changes_.wait(lock, [&] { return !results_.empty(); });
  const auto result = std::move(results_.front());
  results_.pop_front();
  if (!result) throw Error(ErrorCode::kDevice, "the device is lost");
  return *result;
}

void ThreadedExecutor::recover() {
  std::unique_lock lock(mutex_);
  changes_.wait(lock, [&] { return plans_.empty() && !is_busy_; });
  results_.clear();
  has_failed_ = false;
  if (is_lost_) throw Error(ErrorCode::kDevice, "the device is lost for good");
}

}  // namespace sinter::testing
