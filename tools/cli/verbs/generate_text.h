// SPDX-License-Identifier: Apache-2.0
// Generates one text at a time with the engine and streams it: once for `generate`, and for each
// answer of a conversation.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/engine.h>

#include "runtime/engine/executors/paged_executor.h"
#include "tools/cli/console.h"
#include "tools/cli/verbs/plan_source.h"
#include "tools/generate/generation_config.h"
#include "tools/generate/prompt.h"

namespace sinter::tools {

/// Arguments of --requests: many concurrent texts.
struct RequestArguments {
  std::string file;   // one request per line; empty: none
  std::string draft;  // path of the draft model's plan
  std::int64_t sequences = 0, step_tokens = 0, draft_tokens = 0;
  std::string cache_memory, state_memory;
  bool no_prefix_cache = false;
};

/// A constraint on the text, as given; at most one of these.
struct ConstraintArguments {
  std::string schema_file, regex, grammar_file;
  std::vector<std::string> choices;
  bool json_object = false;
};

/// What the command line says of a row of sampling_rows().
struct GivenDraw {
  const SamplingRow* row = nullptr;
  std::optional<double> number;
  std::optional<std::int64_t> whole;

  std::optional<double> value() const {
    return whole ? std::optional(static_cast<double>(*whole)) : number;
  }
};
struct DrawArguments {
  std::vector<GivenDraw> given;  // of all rows

  DrawArguments() {
    for (const SamplingRow& row : sampling_rows()) given.push_back({&row, {}, {}});
  }
  std::optional<double> value(std::string_view name) const {
    for (const GivenDraw& draw : given)
      if (draw.row->name == name) return draw.value();
    return std::nullopt;
  }
};

struct GenerateArguments {
  std::string plan;  // the model, as it is named
  ModelTexts model;
  std::string tokenizer;
  std::string encoder, start;  // of an encoder and a decoder: its plan, and the first token
  PromptOptions prompt;
  std::int64_t context = 0;  // tokens that the caches hold; 0: as many as are asked for
  // As they are given; what is not is greedy, or as the model's authors say.
  DrawArguments draws;
  std::optional<std::uint64_t> seed;
  bool greedy = false;
  GenerationConfig config;  // the model's; given options take precedence
  bool no_generation_config = false;
  SessionOptions session;
  LoadOptions load;
  std::int64_t max_tokens = 128;
  bool no_stop = false, no_rates = false;
  std::string chat_template, system;  // for conversations
  RequestArguments requests;
  ConstraintArguments constraint;
};

/// Help of the argument that names a model.
inline constexpr const char* kModelHelp =
    "Plan, ONNX or GGUF file, Hugging Face folder, or name in the hub's cache (org/name)";

/// Declares where texts end, how tokens are drawn, and constraints.
void add_text_options(Command& verb, GenerateArguments& options);

/// Reads generation_config.json beside the tokenizer into options.config, with a note if it draws.
void read_generation_config(GenerateArguments& options, const Console& console);

double microseconds_since(std::chrono::steady_clock::time_point start);

/// Prints tokens as they arrive: text with a tokenizer, else numbers.
class Stream {
 public:
  Stream(const Console& console, const Tokenizer* tokenizer) : shows_(!console.json) {
    if (tokenizer != nullptr) text_.emplace(tokenizer->stream(true));
  }

  void add(std::int64_t id) {
    write(text_ ? text_->add(id) : fmt::format("{}{}", is_first_ ? "" : " ", id));
    is_first_ = false;
  }
  void finish() { write((text_ ? text_->finish() : "") + "\n"); }

 private:
  void write(const std::string& text) const {
    if (!shows_) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  bool shows_, is_first_ = true;
  std::optional<Tokenizer::Stream> text_;
};

/// During its lifetime the first Ctrl-C ends the text after the next token, the second ends the
/// process, unless each `ends_texts` alone.
class Interrupts {
 public:
  explicit Interrupts(bool ends_texts = false);
  /// Forgets a Ctrl-C.
  static void reset();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts() { sigaction(SIGINT, &previous_, nullptr); }

 private:
  struct sigaction previous_ {};
};

struct Generated {
  std::vector<std::int64_t> tokens;
  std::string stopped_by;     // "stop token", "constraint", "max tokens", "context" or "interrupt"
  double first_us = 0;        // from the prompt to the first token, without the encoder's run
  std::vector<double> steps;  // microseconds between consecutive tokens
  std::uint64_t cached_tokens = 0;  // tokens of the prompt found in the caches and not computed
                                    // again
};

/// Throws Error(kUsage) for several constraints, an unreadable file, and a missing tokenizer.
std::optional<Constraint> constraint_of(const GenerateArguments& options);

/// "--top-p".
std::string flag_of(const SamplingRow& row);

/// How tokens are drawn: as is given, else as the model's authors say (options.config). Throws
/// Error(kUsage) for an option that means nothing without a draw.
SamplingParameters sampling_of(const GenerateArguments& options);

/// A decoder's plan, and an engine over it that has one text at a time.
class TextGenerator {
 public:
  /// `prompt`: length of the first prompt, for which steps are prepared; 0: unknown. `stops` end
  /// texts, in addition to the model's stop tokens or, without those, all special tokens. The
  /// tokenizer (null: none) must outlive this.
  TextGenerator(const GenerateArguments& options, const Plan& plan, std::int64_t prompt,
                const std::vector<std::int64_t>& stops, const Tokenizer* tokenizer,
                bool has_encoder = false);

  /// Generates until a stop token, --max-tokens, full caches, Ctrl-C, or the constraint's end.
  /// Throws Error(kUsage) if the caches cannot hold the prompt, or a step fails.
  Generated generate(std::span<const std::int64_t> prompt, Stream& stream);

  /// Maximum tokens of a text, prompt included; the last token needs no cache.
  std::int64_t capacity() const { return capacity_; }

  /// What an encoder made of the next texts' source.
  void set_source(std::shared_ptr<const EncoderOutput> encoded) { encoded_ = std::move(encoded); }

  // Not while generate() runs.
  Session& session() { return executor_->session(); }
  std::uint64_t cache_bytes() const { return executor_->cache_bytes(); }
  /// Of the caches, those that a run at `position` reads; of states, those that it reads and
  /// writes.
  std::uint64_t valid_cache_bytes(std::int64_t position) const {
    const plan::ServingPlan& plan = executor_->plan();
    return plan.position_bytes * static_cast<std::uint64_t>(position) +
           (plan.states ? 2 * plan.states->bytes : 0);
  }
  /// Of the weights, those that a run of one token reads.
  std::uint64_t weight_bytes();

 private:
  std::unique_ptr<engine::PagedExecutor> page(const Plan& plan, std::int64_t prompt) const;

  const GenerateArguments& options_;
  SamplingParameters sampling_;
  std::int64_t capacity_ = 0, vocabulary_ = 0;
  engine::PagedExecutor* executor_ = nullptr;  // the engine's
  std::shared_ptr<const EncoderOutput> encoded_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace sinter::tools
