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
#include <utility>
#include <vector>

#include <sinter/engine.h>

#include "runtime/engine/executors/paged_executor.h"
#include "tools/cli/console.h"
#include "tools/generate/decoder_executor.h"
#include "tools/generate/generation_config.h"
#include "tools/generate/prompt.h"

namespace sinter::tools {

/// Arguments of --requests: many concurrent texts.
struct RequestArguments {
  std::string file;   // one request per line; empty: none
  std::string draft;  // path of the draft model's plan
  std::int64_t sequences = 0, step_tokens = 0, draft_tokens = 0;
  std::string cache_memory;
  bool no_prefix_cache = false;
};

/// A constraint on the text, as given; at most one of these.
struct ConstraintArguments {
  std::string schema_file, regex, grammar_file;
  std::vector<std::string> choices;
  bool json_object = false;
};

struct GenerateArguments {
  std::string plan, tokenizer, position, mask;
  std::string encoder, start;  // for encoder-decoders: the encoder's plan, and the start token
  PromptOptions prompt;
  DecoderOptions decoder;
  // Options as given; the defaults are greedy, or the model's generation_config.
  std::optional<double> temperature, top_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::uint64_t> seed;
  bool greedy = false;
  GenerationConfig config;  // the model's; given options take precedence
  bool no_generation_config = false;
  SessionOptions session;
  LoadOptions load;
  std::int64_t max_tokens = 128;
  bool no_stop = false, no_rates = false;
  bool chat = false;
  std::string chat_template, system;  // for conversations
  RequestArguments requests;
  ConstraintArguments constraint;
};

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
/// process.
class Interrupts {
 public:
  Interrupts();
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

/// Sampling parameters: given options, else the model's defaults (options.config). Throws
/// Error(kUsage) for a sampling option without sampling.
SamplingParameters sampling_of(const GenerateArguments& options);

/// An engine over a plan of --serve, or of one sequence, that generates one text at a time.
class TextGenerator {
 public:
  /// `prompt`: length of the first prompt, for which steps are prepared; 0: unknown. `stops` end
  /// texts, in addition to the model's stop tokens or, without those, all special tokens. The
  /// tokenizer (null: none) must outlive this.
  TextGenerator(const GenerateArguments& options, const Plan& plan, std::int64_t prompt,
                const std::vector<std::int64_t>& stops, const Tokenizer* tokenizer);

  /// Generates until a stop token, --max-tokens, full caches, Ctrl-C, or the constraint's end.
  /// Throws Error(kUsage) if the caches cannot hold the prompt, or a step fails.
  Generated generate(std::span<const std::int64_t> prompt, Stream& stream);

  /// Maximum tokens of a text, prompt included; the last token needs no cache.
  std::int64_t capacity() const { return capacity_; }

  /// Sets the encoder's output for the next texts, for a paged plan.
  void set_source(std::shared_ptr<const EncoderOutput> encoded) { encoded_ = std::move(encoded); }

  // Not during generate().
  /// For a plan of one sequence; null for a paged plan.
  Decoder* decoder() { return single_ == nullptr ? nullptr : &single_->decoder(); }
  Session& session();
  std::uint64_t cache_bytes();
  /// Bytes of the caches that a run at `position` reads.
  std::uint64_t valid_cache_bytes(std::int64_t position);
  /// Bytes of the weights that a run of one token reads.
  std::uint64_t weight_bytes();

 private:
  std::unique_ptr<engine::Executor> page(const Plan& plan, std::int64_t prompt);

  const GenerateArguments& options_;
  SamplingParameters sampling_;
  std::int64_t capacity_ = 0, vocabulary_ = 0;
  engine::PagedExecutor* paged_ = nullptr;  // owned by the engine; null for a plan of one sequence
  DecoderExecutor* single_ = nullptr;
  std::shared_ptr<const EncoderOutput> encoded_;
  std::unique_ptr<Engine> engine_;
};

/// Answers lines of standard input until its end. Returns the exit code.
int run_chat(const GenerateArguments& options, TextGenerator& generator, const Tokenizer& tokenizer,
             const Console& console);
}  // namespace sinter::tools
