// SPDX-License-Identifier: Apache-2.0
// The engine, for C: text for many requests at once, over a plan of `compile --serve`. A part of
// sinter_c.h, which includes it and says what errors, versions, handles and lifetimes are.
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
  SINTER_FINISH_NONE = 0,    // it goes on
  SINTER_FINISH_STOP = 1,    // a stop token or string, or the constraint allows nothing more
  SINTER_FINISH_LENGTH = 2,  // max_tokens, or no room in the context or the cache
  SINTER_FINISH_CANCELLED = 3,
  SINTER_FINISH_DEADLINE = 4,
  SINTER_FINISH_ERROR = 5  // a step failed, or no token goes on as the constraint wants;
                           // sinter_generation_output.error says how
};
/// "stop", "length"; "unknown" for a number that is none. Never NULL, never freed.
SINTER_API const char* sinter_finish_name(sinter_finish finish);

typedef struct sinter_engine_options {
  size_t struct_size;
  const sinter_session_options* session;  // NULL: the defaults
  uint64_t cache_bytes;          // of the caches; 0: most of a GPU's memory that is left, of the
                                 // host's enough for all sequences, a GiB at most
  int32_t max_sequences;         // that run at once; 0: as many as the plan takes
  int32_t max_step_tokens;       // 0: as many as the plan takes
  int64_t max_waiting;           // requests that wait for their first step; 0: 1,024
  int32_t without_prefix_cache;  // 1: blocks of equal prefixes are computed each time
  int32_t draft_tokens;          // of a step for each sequence, found by prompt lookup; 0: none
  int32_t draft_match;           // how many last tokens are looked up, at most; 0: 4
  int32_t draft_match_least;     // and at least; 0: 2
  int32_t draft_sequences;       // the most running sequences with drafts; 0: 8
  double priority_seconds;       // what a level of priority is worth in waiting; 0: 1
  /// The `bytes` bytes of a token, which need not be whole characters: 0 of them for special
  /// tokens. They are there as long as the engine. Called on the engine's thread, and for all
  /// tokens on the thread that submits the first constraint. NULL: texts are empty, and stop
  /// strings and constraints are refused.
  const char* (*token_bytes)(void* user, int32_t token, size_t* bytes);
  void* user;  // handed to token_bytes, and to what follows
  /// Where a text is not only its tokens' bytes (a first blank that is dropped, words that are
  /// joined): what makes a text of its tokens. All four are given, or none. `text_start` begins
  /// one; `text_add` gives the whole characters that a further token makes certain, `text_finish`
  /// what is left, each valid until the next call on this text; `text_free` ends it. On the
  /// engine's thread.
  void* (*text_start)(void* user);
  const char* (*text_add)(void* user, void* text, int32_t token, size_t* bytes);
  const char* (*text_finish)(void* user, void* text, size_t* bytes);
  void (*text_free)(void* user, void* text);
} sinter_engine_options;

/// `options` of NULL: the defaults. Steps of all sizes are prepared before this returns, which may
/// take seconds.
SINTER_API sinter_status sinter_engine_create(const sinter_plan* plan,
                                              const sinter_engine_options* options,
                                              sinter_engine** engine);
/// Cancels what is left and waits for its end; in a callback, and while another thread is in a call
/// on the engine, the end comes later.
SINTER_API void sinter_engine_free(sinter_engine* engine);

/// Never grows. Added to the logit of a token.
typedef struct sinter_logit_bias {
  int32_t token;
  float bias;
} sinter_logit_bias;

/// What a text must be; sinter/engine.h says more.
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

/// What is asked for; sinter/engine.h says more. All of it is copied.
typedef struct sinter_generation_request {
  size_t struct_size;
  const int32_t* prompt;  // one token or more
  size_t prompt_count;
  int64_t max_tokens;         // of each text; 0: 16; -1: until it ends, or there is no room
  int32_t samples;            // texts for the prompt; 0: 1
  int32_t priority;           // higher ones go in front
  double timeout_seconds;     // then it ends with SINTER_FINISH_DEADLINE; 0: never
  double temperature;         // 0: greedy
  int64_t top_k;              // 0: of all tokens
  double top_p;               // (0, 1]; 0: 1
  double min_p;               // [0, 1]
  double repetition_penalty;  // above 0; 0: 1
  uint64_t seed;
  const sinter_logit_bias* logit_bias;
  size_t logit_bias_count;
  const int32_t* stop_tokens;
  size_t stop_token_count;
  const char* const* stop_strings;
  size_t stop_string_count;
  int32_t with_logprobs;  // 1: the log probability of each token
  int32_t likeliest;      // how many of the likeliest tokens have theirs, too
  sinter_constraint constraint;
  const char* constraint_text;  // the schema, regular expression, grammar or structural tag
  const char* const* choices;   // of SINTER_CONSTRAINT_CHOICE
  size_t choice_count;
  double presence_penalty;   // taken off logits of tokens of the text so far
  double frequency_penalty;  // the same for each time that a token is there
  int64_t min_tokens;        // of each text, before a stop token or string ends it
  /* 0: the default. */
#define SINTER_SAMPLING(type, name, ...)
#define SINTER_SAMPLING_ADDED(type, name, ...) type name;
#include <sinter/sampling_rows.inc>
} sinter_generation_request;

/// Never grows. The log probability of a token by the model's own distribution.
typedef struct sinter_logprob {
  int32_t token;
  float logprob;
} sinter_logprob;

/// What came to one text of a request. `struct_size` is the library's: members beyond it are not
/// there. Pointers are valid in the callback.
typedef struct sinter_generation_output {
  size_t struct_size;
  uint64_t request;
  int32_t sample;  // from 0 on
  sinter_finish finish;
  const int32_t* tokens;  // a stop token is one of them; tokens behind a stop string are not
  size_t token_count;
  const char* text;  // whole characters without stop token and stop string
  size_t text_bytes;
  const float* logprobs;            // of each token; NULL unless asked for
  const sinter_logprob* likeliest;  // [token_count, likeliest_count], most likely first
  size_t likeliest_count;
  const char* error;  // empty but for SINTER_FINISH_ERROR
} sinter_generation_output;

/// Called on the engine's thread, with outputs of a sample in order; the last has a finish other
/// than SINTER_FINISH_NONE. Steps wait for it. All calls but sinter_engine_drain may be made in it.
typedef void (*sinter_generation_callback)(void* user, const sinter_generation_output* output);

/// `request` (which may be NULL) is given the request's number, perhaps after the first callback.
/// SINTER_ERROR_USAGE for parameters that mean nothing, tokens that the model does not have and
/// lengths beyond its positions, constraints that cannot be met or are too large;
/// SINTER_ERROR_QUEUE_FULL; SINTER_ERROR_ENGINE_STOPPED.
SINTER_API sinter_status sinter_engine_submit(sinter_engine* engine,
                                              const sinter_generation_request* generation,
                                              sinter_generation_callback callback, void* user,
                                              uint64_t* request);
/// Ends a request's texts with SINTER_FINISH_CANCELLED, soon; nothing if it has ended.
SINTER_API sinter_status sinter_engine_cancel(sinter_engine* engine, uint64_t request);
/// Takes no more requests and returns when all have ended.
SINTER_API sinter_status sinter_engine_drain(sinter_engine* engine);

#define SINTER_DURATION_BUCKETS 24
/// Never grows. Counts of durations: bucket i has what is at most 2^i x 0.1 ms and above that of
/// bucket i - 1; the last has the rest.
typedef struct sinter_durations {
  uint64_t counts[SINTER_DURATION_BUCKETS];
  uint64_t count;
  double seconds;  // the sum
} sinter_durations;

/// Since the engine started, unless said otherwise.
typedef struct sinter_engine_stats {
  size_t struct_size;
  uint64_t requests, finished;
  uint64_t steps, prompt_tokens, generated_tokens;
  uint64_t step_sequences, step_tokens, padded_tokens;  // summed over steps
  uint64_t preemptions;
  uint64_t prefix_tokens, prefix_hit_tokens;  // looked up in the prefix cache, found
  uint64_t draft_tokens, accepted_draft_tokens;
  double idle_seconds;                         // nothing ran though there were requests
  double waiting_seconds;                      // there were none
  int64_t waiting, running;                    // sequences, now
  int64_t blocks, used_blocks, cached_blocks;  // now; cached ones are not used
  sinter_durations queue, first_token, between_tokens;
} sinter_engine_stats;
SINTER_API sinter_status sinter_engine_get_stats(const sinter_engine* engine,
                                                 sinter_engine_stats* stats);

#ifdef __cplusplus
}
#endif

#endif
