// SPDX-License-Identifier: Apache-2.0
// A program in C that generates text for many requests: the engine of sinter_c.h, right and wrong.
#include <sinter/sinter_c.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "c_checks.h"
#include "c_program.h"

enum { kTokens = 8, kLikeliest = 2 };

/* What came to a request, sample by sample. */
typedef struct {
  sinter_engine* engine;
  int32_t tokens[2][kTokens];
  size_t counts[2];
  char text[64];
  int ends, wrong;
  sinter_finish finish;
  int cancels, frees; /* do so in the callback */
} answer;

static const char* letter(void* user, int32_t token, size_t* bytes) {
  *bytes = 1;
  return (const char*)user + token % 26;
}

/* A text of letters with a dash in front and a dot behind. */
typedef struct {
  const char* alphabet;
  char text[2];
  int begun;
} dashed;

static void* start_text(void* user) {
  dashed* text = (dashed*)calloc(1, sizeof *text);
  text->alphabet = (const char*)user;
  return text;
}
static const char* add_text(void* user, void* text, int32_t token, size_t* bytes) {
  dashed* of = (dashed*)text;
  (void)user;
  *bytes = of->begun ? 1 : 2;
  of->text[0] = '-';
  of->text[of->begun ? 0 : 1] = of->alphabet[token % 26];
  of->begun = 1;
  return of->text;
}
static const char* finish_text(void* user, void* text, size_t* bytes) {
  (void)user, (void)text;
  *bytes = 1;
  return ".";
}
static void free_text(void* user, void* text) {
  (void)user;
  free(text);
}

static void add(void* user, const sinter_generation_output* output) {
  answer* to = (answer*)user;
  size_t i;
  if (output->struct_size != sizeof *output || output->sample > 1) ++to->wrong;
  for (i = 0; i < output->token_count; ++i)
    if (to->counts[output->sample] < kTokens)
      to->tokens[output->sample][to->counts[output->sample]++] = output->tokens[i];
  if (strlen(output->text) != output->text_bytes) ++to->wrong;
  if (output->sample == 0) strncat(to->text, output->text, sizeof to->text - strlen(to->text) - 1);
  if (output->logprobs != NULL && output->token_count > 0) {
    /* Greedy tokens are the likeliest ones. */
    if (output->likeliest_count != kLikeliest || output->likeliest[0].token != output->tokens[0] ||
        output->likeliest[0].logprob != output->logprobs[0] ||
        output->likeliest[1].logprob > output->logprobs[0] || output->logprobs[0] > 0)
      ++to->wrong;
  }
  if (to->cancels && sinter_engine_cancel(to->engine, output->request) != SINTER_OK) ++to->wrong;
  if (output->finish == SINTER_FINISH_NONE) return;
  ++to->ends;
  to->finish = output->finish;
  if (to->frees) sinter_engine_free(to->engine);
}

static int one(sinter_engine* engine, sinter_generation_request* request, answer* to) {
  to->engine = engine;
  OK(sinter_engine_submit(engine, request, add, to, NULL));
  OK(sinter_engine_drain(engine));
  CHECK(to->wrong == 0);
  return 0;
}

static int refused(sinter_engine* engine, const int* prompt, size_t prompt_count) {
  sinter_generation_request request = {sizeof request};
  FAILS(sinter_engine_submit(engine, NULL, add, NULL, NULL), SINTER_ERROR_USAGE, "generation");
  FAILS(sinter_engine_submit(engine, &request, NULL, NULL, NULL), SINTER_ERROR_USAGE, "callback");
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE, "no tokens");
  request.prompt_count = prompt_count;
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE, "prompt");
  request.prompt = prompt;
  request.top_p = 2;
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE, "top-p");
  request.top_p = 0;
  request.max_tokens = 1 << 20;
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE, "positions");
  request.max_tokens = 0;
  request.timeout_seconds = -1;
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE, "timeout");
  request.timeout_seconds = 0;
  request.likeliest = 3;
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE,
        "with_logprobs");
  request.likeliest = 0;
  request.stop_string_count = 1;
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE,
        "stop_strings is NULL");
  request.stop_string_count = 0;
  request.constraint_text = "a*";
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE, "say which");
  request.constraint = 77;
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE,
        "constraint 77");
  request.constraint = SINTER_CONSTRAINT_REGEX;
  request.constraint_text = "(a";
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE,
        "regular expression: ");
  request.constraint_text = "7";
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE,
        "can begin a text");
  request.constraint = SINTER_CONSTRAINT_CHOICE;
  request.constraint_text = NULL;
  request.choice_count = 1;
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE,
        "choices is NULL");
  request.struct_size = 4;
  FAILS(sinter_engine_submit(engine, &request, add, NULL, NULL), SINTER_ERROR_USAGE,
        "struct_size of 4");
  return 0;
}

int sinter_test_c_engine(const char* path, const int* prompt, size_t prompt_count,
                         const int* tokens) {
  static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz";
  sinter_plan* plan = NULL;
  sinter_engine* engine = NULL;
  sinter_session_options session = {sizeof session};
  sinter_engine_options options = {sizeof options};
  sinter_engine_stats stats = {sizeof stats};
  sinter_generation_request request = {sizeof request};
  answer both = {0}, stopped = {0}, cancelled = {0}, late = {0}, last = {0}, chosen = {0},
         old = {0}, made = {0};
  char text[kTokens + 1] = {0}, stop[2] = {0};
  const char* stops[1];
  static const char* const words[] = {"zebra", "yak"};
  uint64_t id = 0;
  size_t i;
  session.threads = 1;
  options.session = &session;
  options.cache_bytes = 1 << 20;
  options.max_sequences = 4;
  options.token_bytes = letter;
  options.user = (void*)alphabet;
  for (i = 0; i < kTokens; ++i) text[i] = alphabet[tokens[i] % 26];
  OK(sinter_plan_load(path, &plan));

  /* Two texts for a prompt, and their log probabilities. */
  OK(sinter_engine_create(plan, &options, &engine));
  STEP(refused(engine, prompt, prompt_count));
  request.prompt = prompt;
  request.prompt_count = prompt_count;
  request.max_tokens = kTokens;
  request.samples = 2;
  request.with_logprobs = 1;
  request.likeliest = kLikeliest;
  OK(sinter_engine_submit(engine, &request, add, &both, &id));
  CHECK(id > 0);
  OK(sinter_engine_drain(engine));
  CHECK(both.wrong == 0 && both.ends == 2 && both.finish == SINTER_FINISH_LENGTH);
  CHECK(both.counts[0] == kTokens && both.counts[1] == kTokens);
  CHECK(memcmp(both.tokens[0], tokens, sizeof both.tokens[0]) == 0);
  CHECK(memcmp(both.tokens[1], tokens, sizeof both.tokens[1]) == 0);
  CHECK(strcmp(both.text, text) == 0);
  OK(sinter_engine_get_stats(engine, &stats));
  CHECK(stats.requests == 1 && stats.finished == 1 && stats.generated_tokens == 2 * kTokens);
  CHECK(stats.first_token.count == 2 && stats.blocks > 0 && stats.used_blocks == 0);
  FAILS(sinter_engine_submit(engine, &request, add, &both, &id), SINTER_ERROR_ENGINE_STOPPED,
        "drained");
  OK(sinter_engine_cancel(engine, id));
  sinter_engine_free(engine);
  FAILS(sinter_engine_drain(engine), SINTER_ERROR_USAGE, "this engine was freed");

  /* Texts that the caller makes; a program that was built before there were such. */
  options.text_start = start_text;
  FAILS(sinter_engine_create(plan, &options, &engine), SINTER_ERROR_USAGE, "given together");
  options.text_add = add_text;
  options.text_finish = finish_text;
  options.text_free = free_text;
  request.samples = 1;
  OK(sinter_engine_create(plan, &options, &engine));
  STEP(one(engine, &request, &made));
  CHECK(made.text[0] == '-' && strncmp(made.text + 1, text, kTokens) == 0);
  CHECK(strcmp(made.text + 1 + kTokens, ".") == 0);
  sinter_engine_free(engine);
  options.struct_size = offsetof(sinter_engine_options, text_start);
  OK(sinter_engine_create(plan, &options, &engine));
  sinter_engine_free(engine);
  options = (sinter_engine_options){sizeof options};
  options.session = &session;
  options.cache_bytes = 1 << 20;
  options.max_sequences = 4;
  options.token_bytes = letter;
  options.user = (void*)alphabet;

  /* Until a letter. */
  request = (sinter_generation_request){sizeof request};
  request.prompt = prompt;
  request.prompt_count = prompt_count;
  request.max_tokens = kTokens;
  request.stop_strings = stops;
  request.stop_string_count = 1;
  stop[0] = text[5];
  stops[0] = stop;
  OK(sinter_engine_create(plan, &options, &engine));
  STEP(one(engine, &request, &stopped));
  CHECK(stopped.finish == SINTER_FINISH_STOP && stopped.ends == 1);
  *strchr(text, stop[0]) = 0;
  CHECK(strcmp(stopped.text, text) == 0);
  sinter_engine_free(engine);

  /* One of two words; and a program that was built before there were constraints. */
  request.stop_string_count = 0;
  request.constraint = SINTER_CONSTRAINT_CHOICE;
  request.choices = words;
  request.choice_count = 2;
  OK(sinter_engine_create(plan, &options, &engine));
  STEP(one(engine, &request, &chosen));
  CHECK(chosen.finish == SINTER_FINISH_STOP && chosen.ends == 1);
  CHECK(strcmp(chosen.text, words[0]) == 0 || strcmp(chosen.text, words[1]) == 0);
  sinter_engine_free(engine);
  request.struct_size = offsetof(sinter_generation_request, constraint);
  OK(sinter_engine_create(plan, &options, &engine));
  STEP(one(engine, &request, &old));
  CHECK(old.finish == SINTER_FINISH_LENGTH && old.ends == 1);
  sinter_engine_free(engine);
  request = (sinter_generation_request){sizeof request};
  request.prompt = prompt;
  request.prompt_count = prompt_count;

  /* Cancelled in its first callback, and behind its time before that. */
  cancelled.cancels = 1;
  OK(sinter_engine_create(plan, &options, &engine));
  request.timeout_seconds = 1e-9;
  OK(sinter_engine_submit(engine, &request, add, &late, NULL));
  request.timeout_seconds = 1e6;
  request.max_tokens = 24;
  STEP(one(engine, &request, &cancelled));
  CHECK(cancelled.finish == SINTER_FINISH_CANCELLED && late.finish == SINTER_FINISH_DEADLINE);
  sinter_engine_free(engine);

  /* Freed in its last callback. */
  OK(sinter_engine_create(plan, &options, &engine));
  sinter_plan_free(plan); /* the engine keeps what it needs */
  last.frees = 1;
  last.engine = engine;
  OK(sinter_engine_submit(engine, &request, add, &last, NULL));
  while (sinter_engine_get_stats(engine, &stats) == SINTER_OK) {
  }
  CHECK(strstr(sinter_last_error(), "this engine was freed") != NULL);
  return 0;
}
