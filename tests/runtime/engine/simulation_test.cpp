// SPDX-License-Identifier: Apache-2.0
// The scheduler under random requests, cancels and times: every text is what its request gives
// alone, nobody is overtaken against the rule, no block or slot is lost.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>

#include "runtime/engine/executors/block_table_rows.h"
#include "runtime/engine/scheduler.h"
#include "tests/runtime/engine/fake_executor.h"

namespace sinter::testing {
namespace {

using engine::ExecutorLimits;
using engine::Scheduler;
using engine::StepPlan;

constexpr int kVocabulary = 16;

struct Shape {
  ExecutorLimits limits;
  EngineOptions options;
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : random_(seed),
        shape_(random_shape()),
        scheduler_(shape_.limits, shape_.options),
        executor_(shape_.limits),
        block_tables_(shape_.limits.max_sequences, row_blocks()),
        rows_(block_tables_.size()) {}

  void run(int events) {
    for (int i = 0; i < events; ++i) {
      event();
      if (i % 64 == 0) scheduler_.check_invariants();
    }
    // No more requests: all end.
    for (int steps = 0; scheduler_.has_requests() || !in_flight_.empty(); ++steps) {
      ASSERT_LT(steps, 20000) << "it never ends";
      if (!start()) finish();
      take_outputs();
    }
    scheduler_.check_invariants();
    const EngineStats stats = scheduler_.stats();
    ASSERT_EQ(stats.used_blocks, 0) << "blocks are lost";
    ASSERT_EQ(stats.running + stats.waiting, 0);
    ASSERT_EQ(stats.finished, stats.requests);
    ASSERT_TRUE(live_.empty()) << live_.size() << " requests were never answered";
    total.preemptions += stats.preemptions;
    total.failed_steps += stats.failed_steps;
    total.prefix_hit_tokens += stats.prefix_hit_tokens;
    if (shape_.limits.state_slots > 0) {
      ASSERT_EQ(stats.used_state_slots, 0) << "slots of states are lost";
      hits_by_states += stats.prefix_hit_tokens;
      guesses_by_states += stats.accepted_draft_tokens;
      kept_states += static_cast<std::uint64_t>(stats.kept_states);
    }
    total.accepted_draft_tokens += stats.accepted_draft_tokens;
    total.steps += stats.steps;
    total.generated_tokens += stats.generated_tokens;
    for (std::size_t i = 0; i < total.finished_texts.size(); ++i)
      total.finished_texts[i] += stats.finished_texts[i];
  }

  static inline EngineStats total;
  static inline std::uint64_t copies = 0, ahead = 0, constrained = 0;
  static inline std::uint64_t table_blocks = 0, written_blocks = 0;
  static inline std::uint64_t hits_by_states = 0, guesses_by_states = 0, kept_states = 0,
                              state_copies = 0;

 private:
  struct Live {
    GenerationRequest request;
    EngineTime arrival;
    std::map<int, GenerationOutput> texts;  // by sample, so far
    int ended = 0;
  };

  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  Shape random_shape() {
    Shape shape;
    ExecutorLimits& limits = shape.limits;
    limits.vocabulary = kVocabulary;
    limits.block_size = std::array{1, 2, 4, 16}[static_cast<std::size_t>(pick(0, 3))];
    limits.max_positions = 48;
    // From one sequence's need to more than all need.
    limits.block_count = pick(48, 48 * 6) / limits.block_size;
    limits.max_sequences = pick(1, 8);
    limits.max_step_tokens = limits.max_sequences + pick(1, 32);
    limits.max_drafts = 3;
    limits.steps_in_flight = pick(1, 3);
    limits.shares_blocks = pick(0, 3) > 0;
    if (pick(0, 1) == 0) limits.state_slots = limits.max_sequences + pick(0, 24);
    if (pick(0, 1) == 0) {
      limits.token_sizes = {1, 2, 4, 8, 16, 32, 64};
      limits.sequence_sizes = {1, 3, 8};
    }
    EngineOptions& options = shape.options;
    options.prefix_cache = pick(0, 3) > 0;
    options.priority_step = std::chrono::milliseconds(pick(0, 50));
    if (pick(0, 1) == 0) options.token_bytes = fake_bytes;
    if (pick(0, 1) == 0) options.draft_tokens = pick(1, 3), options.draft_match_least = 1;
    options.draft_sequences = pick(1, 8);
    return shape;
  }

  GenerationRequest random_request() {
    GenerationRequest request;
    const int most = std::min(48, shape_.limits.block_count * shape_.limits.block_size);
    const int prompt = pick(1, most - 1);
    // A few beginnings that many share.
    std::mt19937_64 words(static_cast<std::uint64_t>(pick(0, 3)));
    for (int i = 0; i < prompt; ++i)
      request.prompt.push_back(static_cast<TokenId>(words() % kVocabulary));
    if (pick(0, 1) == 0) request.prompt.back() = pick(0, kVocabulary - 1);
    SamplingParameters& sampling = request.sampling;
    sampling.max_tokens = pick(1, std::min(24, most - prompt + 1));
    sampling.samples = pick(0, 3) == 0 ? pick(1, shape_.limits.max_sequences) : 1;
    if (pick(0, 1) == 0) {
      sampling.temperature = 0.25 * pick(1, 6);
      sampling.seed = random_();
      sampling.top_k = pick(0, 5);
      if (pick(0, 2) == 0) sampling.top_p = 0.9;
    }
    if (pick(0, 3) == 0) sampling.repetition_penalty = 1.3;
    if (pick(0, 3) == 0) sampling.presence_penalty = 0.25 * pick(-2, 4);
    if (pick(0, 3) == 0) sampling.frequency_penalty = 0.25 * pick(-2, 4);
    if (pick(0, 3) == 0) sampling.min_tokens = pick(0, static_cast<int>(sampling.max_tokens));
    if (pick(0, 3) == 0) sampling.logit_bias = {{pick(0, kVocabulary - 1), 2.0F}};
    if (pick(0, 3) == 0) sampling.stop_tokens = {pick(0, kVocabulary - 1)};
    if (shape_.options.token_bytes && pick(0, 2) == 0) add_constraint(sampling);
    if (shape_.options.token_bytes && pick(0, 2) == 0) sampling.stop_strings = {"bab", "\xC3\xA9"};
    request.priority = pick(0, 3) == 0 ? pick(-2, 2) : 0;
    if (pick(0, 9) == 0) request.deadline = now_ + std::chrono::milliseconds(pick(0, 200));
    return request;
  }

  /// Languages that end of themselves, or by a stop token, or never; of whole characters, or parts;
  /// the last one gets to where no token goes on.
  void add_constraint(SamplingParameters& sampling) {
    using Kind = Constraint::Kind;
    static const std::vector<Constraint> all = {
        {Kind::kRegex, "[abc ]*", {}},
        {Kind::kRegex, "(ab|ba|c)+d?", {}},
        {Kind::kRegex, "(\u00e9|\u20ac|[a-g]){2,9}", {}},
        {Kind::kChoice, "", {"abba", "bacd", "ab", "gfe", "bcbcbcbcbcbcbc"}},
        {Kind::kGrammar, "root ::= \"a\" root \"b\" | \"c\" | root \"d\"\n", {}},
        {Kind::kRegex, "[a-g ]{3}z", {}}};
    sampling.constraint = all[static_cast<std::size_t>(pick(0, static_cast<int>(all.size()) - 1))];
    GenerationRequest request;
    request.sampling = sampling;
    // As the engine, which takes none whose text cannot begin.
    const auto grammar = fake_grammar(request, kVocabulary);
    if (grammar::Matcher(grammar, sampling.stop_tokens).is_stuck()) sampling.constraint.reset();
    constrained += sampling.constraint.has_value();
  }

  void event() {
    const int kind = pick(0, 99);
    if (kind < 8) {
      if (live_.size() < 40) submit();
    } else if (kind < 10) {
      if (!live_.empty())
        scheduler_.cancel(
            std::next(live_.begin(), pick(0, static_cast<int>(live_.size()) - 1))->first);
    } else if (kind < 30) {
      now_ += std::chrono::microseconds(pick(0, 4000));
    } else if (kind < 65) {
      start();
    } else {
      finish();
    }
    take_outputs();
  }

  void submit() {
    auto request = random_request();
    scheduler_.check(request);
    const RequestId id = ++last_;
    scheduler_.submit(id, request, now_, fake_grammar(request, kVocabulary));
    unstarted_.insert(rank_of(request, now_, id));
    // Sequences are numbered as they come.
    for (int sample = 0; sample < request.sampling.samples; ++sample)
      ranks_.push_back(rank_of(request, now_, id));
    live_[id] = {std::move(request), now_, {}, 0};
  }

  /// The rule, as the README has it.
  using RankOf = std::pair<std::int64_t, RequestId>;
  RankOf rank_of(const GenerationRequest& request, EngineTime arrival, RequestId id) const {
    return {std::chrono::nanoseconds(arrival.time_since_epoch()).count() -
                request.priority * shape_.options.priority_step.count(),
            id};
  }

  bool start() {
    if (std::ssize(in_flight_) >= shape_.limits.steps_in_flight || !scheduler_.can_plan_ahead())
      return false;
    StepPlan plan = scheduler_.plan(now_);
    take_outputs();  // of deadlines
    if (plan.empty()) {
      EXPECT_TRUE(!in_flight_.empty() || !scheduler_.has_requests()) << "nothing runs";
      return false;
    }
    check_order(plan);
    copies += plan.copies.size();
    state_copies += plan.state_copies.size();
    ahead += !in_flight_.empty();
    executor_.start(plan);
    block_tables_.take(plan, changes_.emplace_back());
    in_flight_.push_back(std::move(plan));
    if (in_flight_.size() == 1) launch();
    return true;
  }

  int row_blocks() const { return shape_.limits.max_positions / shape_.limits.block_size; }

  /// The first step in flight begins: the rows that it reads are its sequences' tables.
  void launch() {
    const StepPlan& plan = in_flight_.front();
    changes_.front().write_to(rows_);
    written_blocks += changes_.front().blocks.size();
    table_blocks += plan.block_tables.size();
    changes_.pop_front();
    for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
      const auto& step = plan.sequences[s];
      const auto table = plan.block_tables.begin() + step.first_block;
      const auto row = rows_.begin() + static_cast<std::ptrdiff_t>(s) * row_blocks();
      ASSERT_TRUE(std::equal(table, table + step.blocks, row))
          << "step " << plan.number << ", row " << s;
    }
  }

  /// Requests that begin with this step were the first of those that had not.
  void check_order(const StepPlan& plan) {
    std::optional<RankOf> last;
    for (const auto& step : plan.sequences) {
      const RankOf& rank = ranks_.at(step.sequence - 1);
      if (unstarted_.erase(rank) > 0) last = std::max(last, std::optional(rank));
    }
    if (last && !unstarted_.empty()) {
      ASSERT_LT(*last, *unstarted_.begin()) << "one was overtaken";
    }
    ASSERT_EQ(std::ssize(unstarted_), scheduler_.waiting_requests());
  }

  void finish() {
    if (in_flight_.empty()) return;
    const StepPlan plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    now_ += std::chrono::microseconds(pick(0, 2000));
    if (pick(0, 199) == 0) return fail(plan);
    scheduler_.complete(plan, executor_.finish(), now_);
    if (!in_flight_.empty()) launch();
  }

  /// Its requests end, and the others go on as if it and the steps behind it had not been.
  void fail(const StepPlan& plan) {
    in_flight_.clear();
    changes_.clear();
    executor_.recover();
    block_tables_ = engine::BlockTableRows(shape_.limits.max_sequences, row_blocks());
    std::ranges::fill(rows_, 0);
    scheduler_.fail(plan, kFailure);
    scheduler_.check_invariants();
    for (const auto& step : plan.sequences) {
      const auto& running = scheduler_.request_ids();
      ASSERT_EQ(std::ranges::count(running, std::get<1>(ranks_.at(step.sequence - 1))), 0);
    }
  }

  void take_outputs() {
    for (const GenerationOutput& output : scheduler_.take_outputs()) {
      const auto found = live_.find(output.request);
      ASSERT_NE(found, live_.end());
      Live& live = found->second;
      GenerationOutput& text = live.texts[output.sample];
      ASSERT_EQ(text.finish, FinishReason::kNone) << "something came behind the end";
      text.tokens.insert(text.tokens.end(), output.tokens.begin(), output.tokens.end());
      text.text += output.text;
      text.finish = output.finish;
      text.error = output.error;
      if (output.finish == FinishReason::kNone) continue;
      check_text(live.request, output.sample, text);
      if (++live.ended < live.request.sampling.samples) continue;
      unstarted_.erase(rank_of(live.request, live.arrival, output.request));
      live_.erase(found);
    }
  }

  void check_text(const GenerationRequest& request, int sample, const GenerationOutput& text) {
    const bool has_text = static_cast<bool>(shape_.options.token_bytes);
    const ExpectedText expected =
        expected_text(request, sample, kVocabulary, has_text, fake_grammar(request, kVocabulary));
    if (text.finish != FinishReason::kCancelled && text.finish != FinishReason::kDeadline &&
        text.error != kFailure) {
      ASSERT_EQ(text.tokens, expected.tokens);
      ASSERT_EQ(text.finish, expected.finish);
      ASSERT_EQ(text.text, expected.text);
      return;
    }
    ASSERT_LE(text.tokens.size(), expected.tokens.size());
    ASSERT_TRUE(std::equal(text.tokens.begin(), text.tokens.end(), expected.tokens.begin()));
  }

  static constexpr const char* kFailure = "the step has failed";

  std::mt19937_64 random_;
  Shape shape_;
  Scheduler scheduler_;
  FakeExecutor executor_;
  std::deque<StepPlan> in_flight_;
  engine::BlockTableRows block_tables_;
  std::deque<engine::BlockTableChanges> changes_;  // of steps that have not begun
  std::vector<engine::BlockId> rows_;
  EngineTime now_{};
  RequestId last_ = 0;
  std::map<RequestId, Live> live_;
  std::set<RankOf> unstarted_;
  std::vector<RankOf> ranks_;  // of sequences
};

TEST(Simulation, AMillionEvents) {
  constexpr int kRuns = 100, kEvents = 10000;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    SCOPED_TRACE(seed);
    Simulation(seed).run(kEvents);
    if (HasFatalFailure()) return;
  }
  // All that it is for has happened.
  const EngineStats& total = Simulation::total;
  EXPECT_GT(total.preemptions, 1000U);
  EXPECT_GT(total.failed_steps, 100U);
  EXPECT_GT(total.prefix_hit_tokens, 10000U);
  EXPECT_GT(total.accepted_draft_tokens, 1000U);
  EXPECT_GT(Simulation::copies, 100U);
  EXPECT_GT(Simulation::hits_by_states, 3000U);
  EXPECT_GT(Simulation::guesses_by_states, 300U);
  EXPECT_GT(Simulation::kept_states, 50U);
  EXPECT_GT(Simulation::state_copies, 100U);
  EXPECT_GT(Simulation::ahead, 10000U);
  EXPECT_GT(Simulation::constrained, 1000U);
  EXPECT_LT(Simulation::written_blocks, Simulation::table_blocks);
  for (const auto reason : {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled,
                            FinishReason::kDeadline, FinishReason::kError})
    EXPECT_GT(total.finished_texts[static_cast<std::size_t>(reason)], 100U) << to_string(reason);
}

}  // namespace
}  // namespace sinter::testing
