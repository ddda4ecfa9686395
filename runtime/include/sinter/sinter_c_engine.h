// SPDX-License-Identifier: Apache-2.0
// The engine for C: generates text for many concurrent requests, with a plan of `compile --serve`.
// Part of sinter_c.h, which includes it and documents errors, versions, handles and lifetimes.
#ifndef SINTER_C_ENGINE_H
#define SINTER_C_ENGINE_H

#ifndef SINTER_C_H
#error "include <sinter/sinter_c.h>: it has this header"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// Why a text ended.
typedef int32_t sinter_finish;
enum {
  SINTER_FINISH_NONE = 0,    // the text continues
  SINTER_FINISH_STOP = 1,    // a stop token, a stop string, or a constraint that allows no further
                             // token
  SINTER_FINISH_LENGTH = 2,  // max_tokens reached, or the context or the cache is full
  SINTER_FINISH_CANCELLED = 3,
  SINTER_FINISH_DEADLINE = 4,
  SINTER_FINISH_ERROR = 5  // a failed step, or no token that meets the constraint: see
                           // sinter_generation_output.error
};
/// "stop", "length"; "unknown" for an invalid number. Never NULL, never freed.
SINTER_API const char* sinter_finish_name(sinter_finish finish);

typedef struct sinter_engine_options {
  size_t struct_size;
  const sinter_session_options* session;  // NULL: the defaults
  uint64_t cache_bytes;     // cache size; 0: most of a GPU's free memory; on the CPU enough for all
                            // sequences, at most 1 GiB
  int32_t max_sequences;    // maximum number of concurrent sequences; 0: the plan's limit
  int32_t max_step_tokens;  // maximum number of tokens in a step; 0: the plan's limit
  int64_t max_waiting;      // limit of requests that wait for their first step; 0: 1,024
  int32_t without_prefix_cache;  // 1: no reuse of blocks of equal prefixes
  int32_t draft_tokens;       // draft tokens per sequence and step, found by prompt lookup; 0: none
  int32_t draft_match;        // maximum number of last tokens looked up; 0: 4
  int32_t draft_match_least;  // minimum number of last tokens looked up; 0: 2
  int32_t draft_sequences;    // maximum number of running sequences with drafts; 0: 8
  double priority_seconds;    // head start in seconds of waiting per level of priority; 0: 1
  /// The bytes of a token, not necessarily whole characters; 0 bytes for special tokens. They stay
  /// valid as long as the engine. Called on the engine's thread, and for all tokens on the thread
  /// that submits the first constraint. NULL: texts are empty, and stop strings and constraints are
  /// refused.
  const char* (*token_bytes)(void* user, int32_t token, size_t* bytes);
  void* user;  // passed to token_bytes and to the functions below
  /// A streaming detokenizer, for texts that are more than their tokens' bytes (a first blank that
  /// is dropped, words that are joined). Give all four functions or none. `text_start` begins a
  /// text; `text_add` returns the whole characters that a token completes; `text_finish` returns
  /// the rest; `text_free` frees the text. Returned strings are valid until the next call for this
  /// text. Called on the engine's thread.
  void* (*text_start)(void* user);
  const char* (*text_add)(void* user, void* text, int32_t token, size_t* bytes);
  const char* (*text_finish)(void* user, void* text, size_t* bytes);
  void (*text_free)(void* user, void* text);
} sinter_engine_options;

/// `options` = NULL: the defaults. Prepares steps of all sizes before it returns, which may take
/// seconds.
SINTER_API sinter_status sinter_engine_create(const sinter_plan* plan,
                                              const sinter_engine_options* options,
                                              sinter_engine** engine);
/// Cancels the remaining requests and waits for their end. In a callback, or during another
/// thread's call on the engine, the engine is freed later.
SINTER_API void sinter_engine_free(sinter_engine* engine);

/// Never grows. A bias added to the logit of a token.
typedef struct sinter_logit_bias {
  int32_t token;
  float bias;
} sinter_logit_bias;

/// Kinds of constraints on a text; sinter/engine.h says more.
typedef int32_t sinter_constraint;
enum {
  SINTER_CONSTRAINT_NONE = 0,
  SINTER_CONSTRAINT_JSON_OBJECT = 1,
  SINTER_CONSTRAINT_JSON_SCHEMA = 2,
  SINTER_CONSTRAINT_REGEX = 3,
  SINTER_CONSTRAINT_GRAMMAR = 4,
  SINTER_CONSTRAINT_CHOICE = 5,
  SINTER_CONSTRAINT_STRUCTURAL_TAG = 6
};

/// A request; sinter/engine.h says more. The engine copies all of it.
typedef struct sinter_generation_request {
  size_t struct_size;
  const int32_t* prompt;  // at least one token
  size_t prompt_count;
  int64_t max_tokens;      // maximum length of each text; 0: 16; -1: until the text ends, or the
                           // context or the cache is full
  int32_t samples;         // number of texts for the prompt; 0: 1
  int32_t priority;        // higher values run first
  double timeout_seconds;  // after this time the request ends with SINTER_FINISH_DEADLINE; 0: never
  double temperature;      // 0: greedy
  int64_t top_k;           // 0: all tokens
  double top_p;            // (0, 1]; 0: 1
  double min_p;            // [0, 1]
  double repetition_penalty;  // above 0; 0: 1
  uint64_t seed;
  const sinter_logit_bias* logit_bias;
  size_t logit_bias_count;
  const int32_t* stop_tokens;
  size_t stop_token_count;
  const char* const* stop_strings;
  size_t stop_string_count;
  int32_t with_logprobs;  // 1: the log probability of each token
  int32_t likeliest;      // number of most probable tokens with log probabilities
  sinter_constraint constraint;
  const char* constraint_text;  // the schema, regular expression, grammar or structural tag
  const char* const* choices;   // for SINTER_CONSTRAINT_CHOICE
  size_t choice_count;
  double presence_penalty;   // taken off logits of tokens of the text so far
  double frequency_penalty;  // the same for each time that a token is there
  int64_t min_tokens;        // of each text, before a stop token or string ends it
  /* 0: the default. */
#define SINTER_SAMPLING(type, name, ...)
#define SINTER_SAMPLING_ADDED(type, name, ...) type name;
#include <sinter/sampling_rows.inc>
} sinter_generation_request;

/// Never grows. The log probability of a token in the model's own distribution.
typedef struct sinter_logprob {
  int32_t token;
  float logprob;
} sinter_logprob;

/// New output of one text of a request. `struct_size` is the library's: members beyond it do not
/// exist. Pointers are valid during the callback.
typedef struct sinter_generation_output {
  size_t struct_size;
  uint64_t request;
  int32_t sample;  // from 0 on
  sinter_finish finish;
  const int32_t* tokens;  // includes a stop token; excludes tokens after a stop string
  size_t token_count;
  const char* text;  // whole characters without stop tokens and stop strings
  size_t text_bytes;
  const float* logprobs;            // for each token; NULL unless requested
  const sinter_logprob* likeliest;  // [token_count, likeliest_count], most probable first
  size_t likeliest_count;
  const char* error;  // empty except for SINTER_FINISH_ERROR
} sinter_generation_output;

/// Called on the engine's thread with the outputs of a sample in order; the last has a finish other
/// than SINTER_FINISH_NONE. Steps wait for the callback, which may make all calls except
/// sinter_engine_drain.
typedef void (*sinter_generation_callback)(void* user, const sinter_generation_output* output);

/// Writes the request's number to `request` (which may be NULL), possibly after the first callback.
/// SINTER_ERROR_USAGE for invalid parameters, unknown tokens, lengths beyond the context, and
/// constraints that cannot be met or are too large. SINTER_ERROR_QUEUE_FULL;
/// SINTER_ERROR_ENGINE_STOPPED.
SINTER_API sinter_status sinter_engine_submit(sinter_engine* engine,
                                              const sinter_generation_request* generation,
                                              sinter_generation_callback callback, void* user,
                                              uint64_t* request);
/// Ends a request's texts soon, with SINTER_FINISH_CANCELLED; no effect on an ended request.
SINTER_API sinter_status sinter_engine_cancel(sinter_engine* engine, uint64_t request);
/// Accepts no more requests and returns when all have ended.
SINTER_API sinter_status sinter_engine_drain(sinter_engine* engine);

#define SINTER_DURATION_BUCKETS 24
/// Never grows. Histogram of durations: bucket i counts durations up to 2^i x 0.1 ms that exceed
/// bucket i - 1; the last bucket counts the rest.
typedef struct sinter_durations {
  uint64_t counts[SINTER_DURATION_BUCKETS];
  uint64_t count;
  double seconds;  // the sum
} sinter_durations;

/// Counters since the engine started, except where noted.
typedef struct sinter_engine_stats {
  size_t struct_size;
  uint64_t requests, finished;
  uint64_t steps, prompt_tokens, generated_tokens;
  uint64_t step_sequences, step_tokens, padded_tokens;  // sums over steps
  uint64_t preemptions;
  uint64_t prefix_tokens, prefix_hit_tokens;  // tokens looked up in the prefix cache, and tokens
                                              // found
  uint64_t draft_tokens, accepted_draft_tokens;
  double idle_seconds;                         // the executor was idle although requests existed
  double waiting_seconds;                      // no requests existed
  int64_t waiting, running;                    // current number of sequences
  int64_t blocks, used_blocks, cached_blocks;  // current values; cached blocks are not used ones
  sinter_durations queue, first_token, between_tokens;
} sinter_engine_stats;
SINTER_API sinter_status sinter_engine_get_stats(const sinter_engine* engine,
                                                 sinter_engine_stats* stats);

#ifdef __cplusplus
}
#endif

#endif
