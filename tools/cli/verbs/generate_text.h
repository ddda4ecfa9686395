// SPDX-License-Identifier: Apache-2.0
// Tokens of a decoder plan one after the other, shown as they come: what `generate` does once, and
// in a conversation for each answer.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinter/engine.h>

#include "runtime/grammar/grammar.h"
#include "tools/cli/console.h"
#include "tools/generate/decoder.h"
#include "tools/generate/generation_config.h"
#include "tools/generate/prompt.h"

namespace sinter::tools {

/// Of --requests: many texts at once, by the engine.
struct RequestArguments {
  std::string file;   // of a request a line; empty: none
  std::string draft;  // the plan of a draft model
  std::int64_t sequences = 0, step_tokens = 0, draft_tokens = 0;
  std::string cache_memory;
  bool no_prefix_cache = false;
};

/// What a text must be, as it is given: one of these.
struct ConstraintArguments {
  std::string schema_file, regex, grammar_file;
  std::vector<std::string> choices;
  bool json_object = false;
};

struct GenerateArguments {
  std::string plan, tokenizer, position, mask;
  std::string encoder, start;  // of an encoder and a decoder: its plan, and the first token
  PromptOptions prompt;
  DecoderOptions decoder;
  // As they are given; what is not is greedy, or what the plan does.
  std::optional<double> temperature, top_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::uint64_t> seed;
  bool greedy = false;
  GenerationConfig config;  // of the model's authors; what is given goes before it
  bool no_generation_config = false;
  SessionOptions session;
  LoadOptions load;
  std::int64_t max_tokens = 128;
  bool no_stop = false, no_rates = false;
  bool chat = false;
  std::string chat_template, system;  // of a conversation
  RequestArguments requests;
  ConstraintArguments constraint;
};

double microseconds_since(std::chrono::steady_clock::time_point start);

/// Tokens as they come: text with a tokenizer, else numbers.
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

/// While it lives, a first Ctrl-C ends the text after the token that is due, a second the process.
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
  double first_us = 0;        // from the prompt to the first token; an encoder's run not counted
  std::vector<double> steps;  // microseconds from each token to the next
};

/// Throws Error(kUsage) for more than one, a file that cannot be read, and without a tokenizer.
std::optional<Constraint> constraint_of(const GenerateArguments& options);

/// What the host draws with: as is given, else as the model's authors say (options.config). Throws
/// Error(kUsage) for an option of it that says something else than the plan's own sampler, or means
/// nothing without a draw.
SamplingParameters sampling_of(const GenerateArguments& options,
                               const std::optional<SampleOptions>& plan);

/// Runs `text` but for its first `known` tokens, which ran before, and goes on until a stop token
/// (of `stops`, and those of the model's authors, or else all special ones), --max-tokens, the end
/// of the caches or Ctrl-C, or as `grammar` (of a constraint; may be null) has it. The last token
/// is not run.
Generated generate(const GenerateArguments& options, Decoder& decoder,
                   std::span<const std::int64_t> text, std::size_t known,
                   const std::vector<std::int64_t>& stops, const Tokenizer* tokenizer,
                   const std::shared_ptr<const grammar::Grammar>& grammar, Stream& stream);

/// Of the command's constraint, for the tokens of a plan without a sampler; null if there is none.
std::shared_ptr<const grammar::Grammar> grammar_of(const GenerateArguments& options,
                                                   const Decoder& decoder,
                                                   const Tokenizer* tokenizer);

/// Lines of standard input and their answers, until it ends. Returns the exit code.
int run_chat(const GenerateArguments& options, Decoder& decoder, const Tokenizer& tokenizer,
             const std::vector<std::int64_t>& stops,
             std::shared_ptr<const grammar::Grammar> grammar, const Console& console);
}  // namespace sinter::tools
