// SPDX-License-Identifier: Apache-2.0
// Generates text for many requests at once: continuous batching over a language model.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/error.h>
#include <sinter/export.h>
#include <sinter/session.h>

namespace sinter {

namespace engine {
class Executor;
}

using TokenId = std::int32_t;
using RequestId = std::uint64_t;

/// What a text must be, whole. Tokens that cannot be a part of such a text are not drawn; stop
/// tokens are drawn where it may end alone. One that can only end does, with FinishReason::kStop.
/// So a text that ends by itself is as asked for; one that max_tokens cuts off is a beginning of
/// such a text.
struct Constraint {
  enum class Kind : std::uint8_t {
    kJsonObject,  // any object of JSON
    kJsonSchema,  // a value that `text`, a JSON Schema, describes; without properties that it does
                  // not name unless it allows them (additionalProperties), which come in its order
    kRegex,       // a regular expression as ECMAScript's, without lookaround, back references, \b
    kGrammar,     // GBNF as xgrammar has it, rules `name ::= ..`, of which `root` is the text
    kChoice,      // one of `choices`
    kStructuralTag  // JSON of xgrammar's structural tags: sequences and alternatives of the above
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;

  bool operator==(const Constraint&) const = default;
};

/// How tokens are drawn and when a text ends. The order: logit bias, presence and frequency
/// penalty, repetition penalty, constraint, temperature, top-k, top-p, min-p. Draws depend on
/// the seed, on how many tokens were drawn before and on the logits, and not on what else is in the
/// batch.
struct SamplingParameters {
  /// `temperature`, `top_k`, `top_p` ..: sampling_rows().
#define SINTER_SAMPLING(type, name, standard, ...) type name = standard;
#define SINTER_SAMPLING_ADDED SINTER_SAMPLING
#include <sinter/sampling_rows.inc>
  std::uint64_t seed = 0;  // equal requests give equal texts; sample 0 draws with it as it is
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to these tokens' logits
  int samples = 1;                                    // texts for one prompt (n), from 1 on
  /// Of each text, from 1 on; kNoLimit: until it ends, or the context or the cache is full.
  std::int64_t max_tokens = 16;
  static constexpr std::int64_t kNoLimit = -1;
  /// Of each text: before, no stop token is drawn and no stop string looked for. A constraint that
  /// allows nothing more ends the text before.
  std::int64_t min_tokens = 0;
  std::vector<TokenId> stop_tokens;       // the text ends with one of them
  std::vector<std::string> stop_strings;  // the text ends before one of them; needs token_bytes
  std::optional<Constraint> constraint;   // of each text; needs token_bytes
  /// Changes the logits of all tokens in front of each draw, which the host makes then: `text` is
  /// what was drawn before. Called on the engine's thread.
  std::function<void(std::span<const TokenId> text, std::span<float> logits)> adjust;
  /// How many of the likeliest tokens have their log probability given, beside the drawn one's: by
  /// the model's own distribution, before bias, penalty and temperature. Not set: none, not even
  /// the drawn one's.
  std::optional<int> logprobs;
};

inline constexpr double kSamplingAny = -std::numeric_limits<double>::max();

/// A number among SamplingParameters: a row of <sinter/sampling_rows.inc>.
struct SamplingRow {
  const char* name = "";  // "top_p"
  double standard = 0;    // the default
  bool is_whole = false;
  /// What the engine takes; `least` itself unless the value is to be above it.
  double least = 0, most = std::numeric_limits<double>::max();
  bool above_least = false;
  /// What bodies of HTTP and generation_config.json may say. Whole numbers below `least` are it.
  double clients_least = 0, clients_most = 0;
  bool of_draws = false;   // without a temperature it means nothing
  bool in_config = false;  // generation_config.json has it
  const char* type = "";   // what --help calls the value
  const char* help = "";
  double (*get)(const SamplingParameters&) = nullptr;
  void (*set)(SamplingParameters&, double) = nullptr;

  SINTER_API bool takes(double value) const;
};
/// In the order of their file.
SINTER_API std::span<const SamplingRow> sampling_rows();

using EngineTime = std::chrono::steady_clock::time_point;

/// What an encoder made of a request's source, for the inputs of a decoder that have these names:
/// [.., positions, columns] in host memory.
struct EncoderOutput {
  struct Tensor {
    std::string name;
    DType dtype = DType::kFloat32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> data;
  };
  std::vector<Tensor> tensors;
};

struct GenerationRequest {
  std::vector<TokenId> prompt;  // one token or more
  /// Of decoders that read an encoder's keys and values; else null.
  std::shared_ptr<const EncoderOutput> encoded;
  SamplingParameters sampling;
  /// A request goes in front of those of a lower priority that came up to
  /// EngineOptions::priority_step for each level earlier.
  int priority = 0;
  std::optional<EngineTime> deadline;  // then it ends with FinishReason::kDeadline
};

enum class FinishReason : std::uint8_t {
  kNone,       // it goes on
  kStop,       // a stop token or string, or the constraint allows nothing more
  kLength,     // max_tokens; without a limit the context or the cache is full
  kCancelled,  // Engine::cancel
  kDeadline,
  kError,  // a step failed, a logit is NaN, no token goes on as the constraint wants: `error` says
};

/// Stable lower-case name, as OpenAI's where it has one ("stop", "length").
SINTER_API std::string_view to_string(FinishReason reason);

struct TokenLogprobs {
  float logprob = 0;                                 // of the token that was drawn
  std::vector<std::pair<TokenId, float>> likeliest;  // most likely first
};

/// What came to one text of a request.
struct GenerationOutput {
  RequestId request = 0;
  int sample = 0;               // from 0 to SamplingParameters::samples - 1
  std::vector<TokenId> tokens;  // a stop token is one of them; tokens behind a stop string are not
  /// Whole characters (UTF-8, repaired with U+FFFD) without stop token and stop string; empty
  /// without EngineOptions::token_bytes. What may become a stop string comes later.
  std::string text;
  std::vector<TokenLogprobs> logprobs;  // for each of `tokens`, if asked for
  FinishReason finish = FinishReason::kNone;
  std::string error;
};

/// Makes text of the tokens of one text, as they come.
class SINTER_API TokenText {
 public:
  virtual ~TokenText() = default;
  /// What a further token makes certain: whole characters (UTF-8).
  virtual std::string add(TokenId token) = 0;
  /// What is left, behind the last token.
  virtual std::string finish() = 0;
};

struct EngineOptions {
  std::int64_t max_waiting = 1024;  // requests that wait for their first step; more are refused
  /// Tokens in a step; 0: as many as the executor takes. More than it has sequences.
  int max_step_tokens = 0;
  bool prefix_cache = true;  // blocks of equal prefixes are computed once
  /// What one level of priority is worth in waiting.
  std::chrono::nanoseconds priority_step = std::chrono::seconds(1);
  /// The bytes of a token, which need not be whole characters; nothing for special tokens.
  std::function<std::string_view(TokenId)> token_bytes;
  /// Called for each text, where that is not only its tokens' bytes: a first blank that is dropped,
  /// words that are joined. Not set: the characters of token_bytes.
  std::function<std::unique_ptr<TokenText>()> token_text;

  /// Draft tokens of a step for each sequence, of the draft model or, without one, found by prompt
  /// lookup: what followed the last `draft_match` (at least `draft_match_least`) tokens where these
  /// stood before. 0: none.
  int draft_tokens = 0;
  int draft_match = 4, draft_match_least = 2;
  /// The most running sequences with which steps have drafts. Such a step is not prepared ahead,
  /// because the number of accepted drafts is not known.
  int draft_sequences = 8;

  /// Of an engine that is made of a plan: bytes of the caches (0: of a GPU most of what is left, of
  /// the host's memory enough for all sequences, a GiB at most), and sequences that run at once
  /// (0: as many as the plan takes).
  std::uint64_t cache_bytes = 0;
  int max_sequences = 0;
  int max_positions = 0;  // of a sequence; 0: as many as the plan has
};

/// Counts of durations, for a metric of type histogram. Bucket i counts what is at most 2^i x 0.1
/// ms and above that of bucket i - 1; the last counts the rest.
struct DurationHistogram {
  static constexpr int kBuckets = 24;
  std::array<std::uint64_t, kBuckets> counts = {};
  std::uint64_t count = 0;
  double seconds = 0;  // the sum

  SINTER_API void add(std::chrono::nanoseconds duration);
  SINTER_API static double upper_seconds(int bucket);
};

/// Since the engine started, unless said otherwise.
struct EngineStats {
  std::uint64_t requests = 0, finished = 0;          // finished: for whatever reason
  std::array<std::uint64_t, 6> finished_texts = {};  // by FinishReason
  std::uint64_t steps = 0, prompt_tokens = 0, generated_tokens = 0;
  std::uint64_t failed_steps = 0;  // their requests ended with FinishReason::kError
  std::uint64_t step_sequences = 0, step_tokens = 0, padded_tokens = 0;  // summed over steps
  std::uint64_t preemptions = 0;
  std::uint64_t prefix_tokens = 0, prefix_hit_tokens = 0;  // looked up in the prefix cache, found
  std::uint64_t draft_tokens = 0, accepted_draft_tokens = 0;
  DurationHistogram queue, first_token, between_tokens;
  double idle_seconds = 0;     // the executor had nothing to do though there were requests
  double waiting_seconds = 0;  // there were none
  // Now.
  std::int64_t waiting = 0, running = 0;                        // sequences
  std::int64_t blocks = 0, used_blocks = 0, cached_blocks = 0;  // cached ones are not used
};

/// EngineOptions::max_waiting requests wait. The code is kUsage.
class SINTER_API QueueFullError : public Error {
 public:
  using Error::Error;
};

/// The engine takes no more requests: it is drained (the code is kUsage), or the executor cannot go
/// on behind a failure (kDevice).
class SINTER_API EngineStoppedError : public Error {
 public:
  using Error::Error;
};

/// Schedules requests and runs them, on a thread of its own. Members may be called from any thread,
/// callbacks included where nothing else is said.
class SINTER_API Engine {
 public:
  /// Called on the engine's thread, with outputs of a sample in order, the last of which has a
  /// finish reason; steps wait for it. An exception from it cancels the request.
  using Callback = std::function<void(const GenerationOutput&)>;

  /// Throws Error(kUsage) for options that mean nothing.
  Engine(std::unique_ptr<engine::Executor> executor, EngineOptions options = {});
  /// Of a plan of `compile --serve`; throws Error(kUsage) for others, and as Session does. Steps of
  /// all sizes are prepared before this returns, which may take seconds.
  explicit Engine(const Plan& plan, EngineOptions options = {}, const SessionOptions& session = {});
  /// With a draft model, which guesses EngineOptions::draft_tokens that `plan` checks in one step;
  /// texts are those without it. Throws Error(kUsage) also if the two have other tokens, blocks or
  /// lengths.
  Engine(const Plan& plan, const Plan& draft, EngineOptions options,
         const SessionOptions& session = {});
  /// Cancels what is left. Not from a callback.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Throws Error(kUsage) for parameters that mean nothing, tokens that the model does not have,
  /// lengths beyond its context, and constraints that cannot be met or are too large;
  /// QueueFullError; and EngineStoppedError after drain(), or if failure() says why. Each of the
  /// request's samples ends with one output that has a finish reason. A constraint that is not one
  /// of the last is compiled on the caller's thread, for seconds at most.
  RequestId submit(GenerationRequest request, Callback callback);

  /// Compiles the constraint of `sampling`, if it has one, ahead of submit(). Throws Error(kUsage)
  /// if that cannot be met or is too large.
  void prepare(const SamplingParameters& sampling);

  /// Ends a request's texts with FinishReason::kCancelled, soon; nothing if it has ended.
  void cancel(RequestId request);

  /// Takes no more requests and returns when all have ended. Not from a callback.
  void drain();

  EngineStats stats() const;

  /// Why the engine has stopped for good, if it has: the device is lost, or a defect. Other
  /// failures end the requests of their step, and the engine goes on.
  std::optional<std::string> failure() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter
