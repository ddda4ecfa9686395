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

/// Constrains the whole text (structured output). The engine masks tokens that cannot continue a
/// valid text, and allows stop tokens only where the text is complete. A text that cannot continue
/// ends with FinishReason::kStop. A text that ends by itself is therefore valid; one that
/// max_tokens cuts off is a prefix of a valid text.
struct Constraint {
  enum class Kind : std::uint8_t {
    kJsonObject,    // any JSON object
    kJsonSchema,    // a value that the JSON Schema `text` describes; properties in the schema's
                    // order, others only if additionalProperties allows them
    kRegex,         // an ECMAScript regular expression without lookaround, back references and \b
    kGrammar,       // GBNF in xgrammar's dialect, rules `name ::= ..`, with start symbol `root`
    kChoice,        // one of `choices`
    kStructuralTag  // xgrammar's structural tags as JSON: sequences and alternatives of the above
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;

  bool operator==(const Constraint&) const = default;
};

/// Sampling and stop conditions of a request. Logits pass, in this order: logit bias, presence and
/// frequency penalty, repetition penalty, constraint, temperature, top-k, top-p, min-p. A draw
/// depends on the seed, the number of tokens drawn before and the logits, never on other requests
/// of the batch.
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
  /// Minimum length of each text in tokens: until then no stop token is drawn and stop strings are
  /// ignored. A constraint that allows no further token still ends the text.
  std::int64_t min_tokens = 0;
  std::vector<TokenId> stop_tokens;       // the text ends with one of them
  std::vector<std::string> stop_strings;  // the text ends before one of them; needs token_bytes
  std::optional<Constraint> constraint;   // applies to each text; needs token_bytes
  /// Changes all logits before each draw; the host then draws. `text` holds the tokens drawn so
  /// far. Called on the engine's thread, never after the text's last output.
  std::function<void(std::span<const TokenId> text, std::span<float> logits)> adjust;
  /// Number of most probable tokens whose log probabilities are returned besides the drawn token's.
  /// They come from the model's own distribution, before bias, penalties and temperature. Not set:
  /// no log probabilities at all.
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

/// An encoder's output for a request's source: tensors [.., positions, columns] in host memory,
/// each for the decoder input of the same name.
struct EncoderOutput {
  struct Tensor {
    std::string name;
    DType dtype = DType::kFloat32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> data;
  };
  std::vector<Tensor> tensors;
};

/// Vectors in place of the embeddings of some tokens of a prompt, such as those of an image's
/// placeholders, and the prompt's positions where a token has several.
struct PromptVectors {
  DType dtype = DType::kFloat32;  // the plan's (`given_vectors`)
  std::int64_t width = 0;
  std::vector<std::byte> data;  // [vectors, width], row-major
  /// Of each token of the prompt: its vector's number, -1 for its own embedding. Empty: no vectors.
  std::vector<std::int32_t> rows;
  /// [axes, tokens of the prompt]; empty: a token's position on each axis is its number.
  std::vector<std::int32_t> rotary;
  /// What is added to a later token's number for its position on each axis.
  std::int32_t rotary_shift = 0;
};

struct GenerationRequest {
  std::vector<TokenId> prompt;  // at least one token
  /// For decoders with cross-attention; null for others.
  std::shared_ptr<const EncoderOutput> encoded;
  /// For decoders that take vectors; null: none.
  std::shared_ptr<const PromptVectors> vectors;
  SamplingParameters sampling;
  /// Higher values run first. A request overtakes those of lower priority that arrived up to
  /// EngineOptions::priority_step earlier for each level of difference.
  int priority = 0;
  std::optional<EngineTime> deadline;  // at this time the request ends with FinishReason::kDeadline
};

enum class FinishReason : std::uint8_t {
  kNone,       // the text continues
  kStop,       // a stop token, a stop string, or a constraint that allows no further token
  kLength,     // max_tokens reached, or the context or the cache is full
  kCancelled,  // Engine::cancel
  kDeadline,
  kError,  // a failed step, a NaN logit, or no token that meets the constraint: see `error`
};

/// Stable lower-case name, OpenAI's where it has one ("stop", "length").
SINTER_API std::string_view to_string(FinishReason reason);

struct TokenLogprobs {
  float logprob = 0;                                 // of the drawn token
  std::vector<std::pair<TokenId, float>> likeliest;  // most probable first
};

/// New output of one text of a request.
struct GenerationOutput {
  RequestId request = 0;
  int sample = 0;               // from 0 to SamplingParameters::samples - 1
  std::vector<TokenId> tokens;  // includes a stop token; excludes tokens after a stop string
  /// Whole characters (UTF-8, invalid bytes replaced by U+FFFD) without stop tokens and stop
  /// strings; empty without EngineOptions::token_bytes. Text that may be the beginning of a stop
  /// string is held back.
  std::string text;
  std::vector<TokenLogprobs> logprobs;  // for each of `tokens`, if asked for
  FinishReason finish = FinishReason::kNone;
  std::string error;
};

/// Streaming detokenizer of one text.
class SINTER_API TokenText {
 public:
  virtual ~TokenText() = default;
  /// Returns the whole UTF-8 characters that this token completes.
  virtual std::string add(TokenId token) = 0;
  /// Returns the pending text after the last token.
  virtual std::string finish() = 0;
};

struct EngineOptions {
  std::int64_t max_waiting = 1024;  // limit of requests that wait for their first step; submit()
                                    // refuses more
  /// Maximum number of tokens in a step; 0: the executor's limit. Must exceed the executor's number
  /// of sequences.
  int max_step_tokens = 0;
  bool prefix_cache = true;  // compute blocks of equal prefixes once
  /// The head start in waiting time that one level of priority is worth.
  std::chrono::nanoseconds priority_step = std::chrono::seconds(1);
  /// The bytes of a token, not necessarily whole characters; empty for special tokens.
  std::function<std::string_view(TokenId)> token_bytes;
  /// Creates a detokenizer for each text. Needed where a text is more than its tokens' bytes, as
  /// when the first blank is dropped or words are joined. Not set: the bytes of token_bytes.
  std::function<std::unique_ptr<TokenText>()> token_text;

  /// Speculative decoding: draft tokens per sequence and step; 0: none. They come from the draft
  /// model or, without one, from prompt lookup. Prompt lookup takes the tokens that followed an
  /// earlier occurrence of the last draft_match_least to draft_match tokens.
  int draft_tokens = 0;
  int draft_match = 4, draft_match_least = 2;
  /// Maximum number of running sequences for which steps have drafts. A step with drafts is not
  /// prepared ahead, since the number of accepted drafts is unknown.
  int draft_sequences = 8;

  /// For an engine made from a plan: bytes of the caches, and the maximum number of concurrent
  /// sequences (0: the plan's limit). cache_bytes = 0 takes most of a GPU's free memory; on the CPU
  /// enough for all sequences, but at most 1 GiB.
  std::uint64_t cache_bytes = 0;
  /// Of models with states of fixed size (state-space layers, linear attention): bytes of states
  /// that are kept behind prefixes and for drafts, beside those of running sequences. 0: a quarter
  /// of what is left on a GPU, 256 MiB on the CPU.
  std::uint64_t state_bytes = 0;
  int max_sequences = 0;
  int max_positions = 0;  // maximum length of a sequence; 0: the plan's limit
};

/// Histogram of durations for a metrics endpoint. Bucket i counts durations up to 2^i x 0.1 ms that
/// exceed bucket i - 1; the last bucket counts the rest.
struct DurationHistogram {
  static constexpr int kBuckets = 24;
  std::array<std::uint64_t, kBuckets> counts = {};
  std::uint64_t count = 0;
  double seconds = 0;  // the sum

  SINTER_API void add(std::chrono::nanoseconds duration);
  SINTER_API static double upper_seconds(int bucket);
};

/// Counters since the engine started, except where noted.
struct EngineStats {
  std::uint64_t requests = 0, finished = 0;          // finished: for any reason
  std::array<std::uint64_t, 6> finished_texts = {};  // by FinishReason
  std::uint64_t steps = 0, prompt_tokens = 0, generated_tokens = 0;
  std::uint64_t failed_steps = 0;  // their requests ended with FinishReason::kError
  std::uint64_t step_sequences = 0, step_tokens = 0, padded_tokens = 0;  // sums over steps
  std::uint64_t preemptions = 0;
  std::uint64_t prefix_tokens = 0, prefix_hit_tokens = 0;  // tokens looked up in the prefix cache,
                                                           // and tokens found
  std::uint64_t draft_tokens = 0, accepted_draft_tokens = 0;
  /// Tokens that each expert computed, by mixture and expert; of plans with expert-counts=1.
  std::vector<std::vector<std::uint64_t>> expert_tokens;
  DurationHistogram queue, first_token, between_tokens;
  double idle_seconds = 0;     // the executor was idle although requests existed
  double waiting_seconds = 0;  // no requests existed
  /// Of models with states of fixed size, current values: slots, those of sequences, and those with
  /// states behind prefixes.
  std::int64_t state_slots = 0, used_state_slots = 0, kept_states = 0;
  // Current values.
  std::int64_t waiting = 0, running = 0;                        // sequences
  std::int64_t blocks = 0, used_blocks = 0, cached_blocks = 0;  // cached blocks are not used ones
};

/// EngineOptions::max_waiting requests already wait. The code is kUsage.
class SINTER_API QueueFullError : public Error {
 public:
  using Error::Error;
};

/// The engine accepts no more requests: it is drained (the code is kUsage), or the executor cannot
/// continue after a failure (kDevice).
class SINTER_API EngineStoppedError : public Error {
 public:
  using Error::Error;
};

/// Schedules and runs requests on a thread of its own. Thread-safe: any thread may call any member,
/// callbacks included, except where noted.
class SINTER_API Engine {
 public:
  /// Called on the engine's thread with the outputs of a sample in order; the last one has a finish
  /// reason. Steps wait for the callback. An exception from it cancels the request.
  using Callback = std::function<void(const GenerationOutput&)>;

  /// Throws Error(kUsage) for invalid options.
  Engine(std::unique_ptr<engine::Executor> executor, EngineOptions options = {});
  /// For a plan of `compile --serve`; throws Error(kUsage) for other plans, and as Session does.
  /// Prepares steps of all sizes before it returns, which may take seconds.
  explicit Engine(const Plan& plan, EngineOptions options = {}, const SessionOptions& session = {});
  /// Speculative decoding with a draft model: it proposes EngineOptions::draft_tokens tokens, which
  /// `plan` verifies in one step. Texts equal those without a draft. Also throws Error(kUsage) if
  /// the two plans differ in tokens, block sizes or lengths.
  Engine(const Plan& plan, const Plan& draft, EngineOptions options,
         const SessionOptions& session = {});
  /// Cancels the remaining requests. Must not be called in a callback.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Throws Error(kUsage) for invalid parameters, unknown tokens, lengths beyond the context, and
  /// constraints that cannot be met or are too large. Throws QueueFullError if the queue is full,
  /// EngineStoppedError after drain() or a failure(). Each of the request's samples ends with one
  /// output that has a finish reason. The calling thread compiles a constraint that is not among
  /// the most recent ones, for at most seconds.
  RequestId submit(GenerationRequest request, Callback callback);

  /// Compiles the constraint of `sampling`, if it has one, before submit(). Throws Error(kUsage) if
  /// the constraint cannot be met or is too large.
  void prepare(const SamplingParameters& sampling);

  /// Ends a request's texts soon, with FinishReason::kCancelled; no effect on an ended request.
  void cancel(RequestId request);

  /// Accepts no more requests and returns when all have ended. Must not be called in a callback.
  void drain();

  EngineStats stats() const;

  /// The reason if the engine has stopped for good: a lost device, or a defect. Other failures end
  /// the requests of their step, and the engine continues.
  std::optional<std::string> failure() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter
