// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>

#include <sinter/profile.h>

#include "runtime/format_error.h"
#include "runtime/sandbox/sandbox.h"
#include "tools/cli/machine.h"
#include "tools/cli/session_options.h"
#include "tools/cli/signature_option.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/generate_text.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/run/measure.h"
#include "tools/generate/chat_template.h"
#include "tools/generate/encoder.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kInterruptedExit = 128 + SIGINT;

/// Size and time of the encoder's run.
struct Encoded {
  std::size_t tokens = 0;
  double microseconds = 0;
};

void report(const GenerateArguments& options, const Plan& plan, TextGenerator& generator,
            const Generated& result, const std::vector<std::int64_t>& prompt,
            const Tokenizer* tokenizer, const std::optional<Encoded>& encoded, double load_us,
            const Console& console) {
  const auto steps = statistics_of(result.steps);
  const double prompt_tokens = static_cast<double>(prompt.size());
  nlohmann::ordered_json json = {{"plan", options.plan},
                                 {"target", plan.target()},
                                 {"prompt_tokens", prompt.size()},
                                 {"tokens", result.tokens}};
  if (encoded)
    json.update({{"encoder", options.encoder},
                 {"encoder_tokens", encoded->tokens},
                 {"encoder_us", encoded->microseconds}});
  if (tokenizer != nullptr) json["text"] = tokenizer->decode(result.tokens, true);
  json.update({{"stopped_by", result.stopped_by},
               {"capacity", generator.capacity()},
               {"load_us", load_us},
               {"first_token_us", result.first_us},
               {"prompt_tokens_per_s", prompt_tokens / result.first_us * 1e6}});
  console.note(fmt::format(
      "{} tokens behind {} of the prompt ({}); first token after {}, {:.0f} tokens/s; loading {}",
      result.tokens.size(), prompt.size(), result.stopped_by, format_time(result.first_us),
      prompt_tokens / result.first_us * 1e6, format_time(load_us)));
  if (encoded)
    console.note(fmt::format("the encoder took {} for {} tokens",
                             format_time(encoded->microseconds), encoded->tokens));
  if (!result.steps.empty()) {
    // The steps ended at the last position, so this is the middle one.
    const auto steps_run = std::ssize(result.steps);
    const std::int64_t middle = std::ssize(prompt) + steps_run - (steps_run + 1) / 2;
    const std::uint64_t weights = generator.weight_bytes();
    const std::uint64_t caches = generator.valid_cache_bytes(middle);
    const std::uint64_t bytes = weights + caches;
    json.update({{"between_tokens_us", to_json(steps)},
                 {"tokens_per_s", 1e6 / steps.mean},
                 {"kernels_per_token", generator.session().launches()},
                 {"weight_bytes", plan.weight_bytes()},
                 {"cache_bytes", generator.cache_bytes()},
                 {"weight_bytes_per_token", weights},
                 {"cache_bytes_per_token", caches},
                 {"bytes_per_token", bytes}});
    std::string line =
        fmt::format("between tokens {} (median), {} (p99): {:.1f} tokens/s, {} a token",
                    format_time(steps.median), format_time(steps.p99), 1e6 / steps.mean,
                    format_bytes(static_cast<double>(bytes)));
    if (!options.no_rates) {
      const auto rates = measure_rates(generator.session());
      const double share =
          static_cast<double>(bytes) / steps.median * 1e6 / rates.copy_bytes_per_second;
      json.update(
          {{"copy_bytes_per_s", rates.copy_bytes_per_second}, {"share_of_copy_rate", share}});
      line += fmt::format(", {:.0f} % of what {} copies ({}/s)", 100 * share, rates.machine,
                          format_bytes(rates.copy_bytes_per_second));
    }
    console.note(line);
  }
  console.result(json);
}

/// The first token of a decoder behind an encoder.
std::int64_t start_id(const GenerateArguments& given, const Tokenizer* tokenizer) {
  if (given.start.empty() && given.config.decoder_start_token)
    return *given.config.decoder_start_token;
  if (given.start.empty())
    throw usage_error(
        "which token the decoder begins with is not known: give --start TOKEN (or "
        "decoder_start_token_id in generation_config.json beside the tokenizer)");
  PromptOptions options;
  options.stops = {given.start};
  return with_context("--start", [&] { return stop_ids(options, tokenizer)[0]; });
}

/// A model of conversations may end at once a text that is none of them.
void note_of_silence(const GenerateArguments& options, const Generated& result,
                     const Console& console) {
  if (result.stopped_by != "stop token" || result.tokens.size() > 1) return;
  try {
    if (!ChatTemplate::beside(options.tokenizer)) return;
  } catch (const Error&) {  // one that cannot be read helps nobody
    return;
  }
  console.note("the model continues this text with nothing; it holds conversations: `sinter chat`");
}

int run_generate(GenerateArguments options, RunRequests run_requests, const Console& console) {
  auto start = Clock::now();
  OpenModel model = open_model(options.plan, options.model, options.load, console);
  double load_us = microseconds_since(start);
  if (options.tokenizer.empty()) options.tokenizer = model.tokenizer;
  std::optional<Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer = Tokenizer::load(options.tokenizer);
  read_generation_config(options, console);
  const Tokenizer* words = tokenizer ? &*tokenizer : nullptr;
  if (const auto note = tokenizer ? lengths_note(*tokenizer) : ""; !note.empty())
    console.note(note);
  if (!options.requests.file.empty()) {
    if (run_requests == nullptr) throw usage_error("--requests: this command has no `serve`");
    return run_requests(options, model, stop_ids(options.prompt, words), console);
  }
  auto prompt = prompt_ids(options.prompt, words);
  if (!options.encoder.empty())
    model.encoder = open_model(options.encoder, options.model, options.load, console).plan;
  std::vector<std::int64_t> source;  // the encoder's input
  if (model.encoder) {
    source = std::move(prompt);
    prompt = {start_id(options, words)};
  }
  const auto stops = stop_ids(options.prompt, words);
  const auto tokens = std::ssize(prompt);
  if (options.context == 0) options.context = tokens + options.max_tokens - 1;
  const Plan& plan = model.plan;
  create_context(plan, options.session.device);  // excludes the driver's start-up from the measured
                                                 // time
  start = Clock::now();
  std::optional<Encoder> encoder;
  std::optional<Encoded> encoded;
  if (model.encoder) {
    Encoder::require_pair(*model.encoder, plan);
    encoder.emplace(*model.encoder, options.session);
  }
  TextGenerator generator(options, plan, tokens, stops, words, encoder.has_value());
  if (encoder) {
    encoder->set_tokens(source);
    encoder->run(plan);  // which prepares it
    const auto second = Clock::now();
    generator.set_source(encoder->run(plan));
    encoded = Encoded{source.size(), microseconds_since(second)};
  }
  load_us += microseconds_since(start);
  Stream stream(console, words);
  const Interrupts interrupts;
  const auto result = generator.generate(prompt, stream);
  report(options, plan, generator, result, prompt, words, encoded, load_us, console);
  if (words != nullptr) note_of_silence(options, result, console);
  return result.stopped_by == "interrupt" ? kInterruptedExit : 0;
}

}  // namespace

void add_generate(Cli& cli) {
  auto options = std::make_shared<GenerateArguments>();
  auto* verb = cli.app.add_subcommand("generate",
                                      "Continue a text with a decoder plan: tokens as they come, "
                                      "then how fast; Ctrl-C ends the text");
  verb->add_option("model", options->plan, kModelHelp)->required();
  verb->group("Prompt");
  auto* prompt = verb->add_option_group("prompt");
  auto* text =
      prompt->add_option("--prompt TEXT", options->prompt.text, "Text; - is standard input");
  prompt->add_option("--ids IDS", options->prompt.ids, "Token ids: 1,2,3, or a file of them");
  auto* requests = prompt->add_option(
      "--requests FILE", options->requests.file,
      "File of a request a line, as `sinter serve` takes it: {\"prompt\": TEXT or \"ids\": [..] or "
      "\"messages\": [..], \"max_tokens\": N, ..}, and \"arrival_ms\"; many at once; answers "
      "come as they end");
  prompt->require_option(1);
  verb->add_option("--tokenizer FILE", options->tokenizer,
                   "tokenizer.json (default: the model's); without one tokens are printed as ids");
  auto* encoder = verb->add_option(
      "--encoder PLAN", options->encoder,
      "Plan of an encoder, which reads the prompt; the decoder begins with --start");
  encoder->excludes(requests);
  verb->add_option("--start TOKEN", options->start,
                   "Behind an encoder: first token of the decoder, id or name (default: "
                   "decoder_start_token_id of generation_config.json)");
  verb->add_option("--template FILE", options->prompt.template_file,
                   "File in which {prompt} stands for the text, such as a chat's")
      ->needs(text);
  verb->add_option("--chat-template FILE", options->chat_template,
                   "Of --requests: tokenizer_config.json, or a Jinja file (default: that beside "
                   "the tokenizer)");
  add_text_options(*verb, *options);

  verb->group("Many requests (--requests)");
  verb->add_option("--sequences N", options->requests.sequences,
                   "Of --requests: how many run at once (default: as many as the plan takes)")
      ->check_positive()
      ->needs(requests);
  verb->add_option("--step-tokens N", options->requests.step_tokens,
                   "Of --requests: most tokens of a step (default: as many as the plan takes)")
      ->check_positive()
      ->needs(requests);
  verb->add_option("--draft-tokens N", options->requests.draft_tokens,
                   "Of --requests: tokens that are guessed from what stood before (default: none), "
                   "or by --draft (default: 4)")
      ->check_positive()
      ->needs(requests);
  verb->add_option("--draft PLAN", options->requests.draft,
                   "Of --requests: the plan of a smaller model, which guesses tokens that this one "
                   "checks; texts stay as they are")
      ->needs(requests);
  verb->add_option("--cache-memory BYTES", options->requests.cache_memory,
                   "Of --requests: memory of the caches, as 8G")
      ->needs(requests);
  verb->add_option("--state-memory BYTES", options->requests.state_memory,
                   "Of --requests: memory of states kept behind prompts and for guesses, of models "
                   "with states of fixed size")
      ->needs(requests);
  verb->add_flag("--no-prefix-cache", options->requests.no_prefix_cache,
                 "Of --requests: equal beginnings of prompts are computed again")
      ->needs(requests);

  verb->group("Where texts end");
  verb->add_option("--context N", options->context,
                   "Tokens that the caches hold (default: the prompt and --max-tokens)")
      ->check_positive();
  verb->group("Measuring");
  verb->add_flag("--no-rates", options->no_rates,
                 "Do not measure what the machine copies (some tenths of a second)");
  add_session_options(*verb, options->session);
  add_signature_option(*verb, options->load);
  verb->add_weight_budget(options->session.weight_budget);
  verb->add_threads_option();
  add_model_options(*verb, options->model);
  verb->example("sinter generate decoder.plan --ids 1,2,3 --max-tokens 8");
  verb->example(
      "sinter generate decoder.plan --tokenizer tokenizer.json --prompt \"Once upon a time\"");
  verb->callback([options, &cli] {
    sandbox::start();  // before any thread exists
    cli.exit_code = run_generate(*options, cli.run_requests, cli.console);
  });
}

}  // namespace sinter::tools
