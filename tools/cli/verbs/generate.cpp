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

int run_generate(GenerateArguments options, RunRequests run_requests, const Console& console) {
  std::optional<Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer = Tokenizer::load(options.tokenizer);
  if (!options.no_generation_config) options.config = GenerationConfig::beside(options.tokenizer);
  if (options.config.do_sample.value_or(false) && !options.greedy &&
      !options.draws.value("temperature"))
    console.note("tokens are drawn as generation_config.json says: --greedy takes the likeliest");
  const Tokenizer* words = tokenizer ? &*tokenizer : nullptr;
  if (const auto note = tokenizer ? lengths_note(*tokenizer) : ""; !note.empty())
    console.note(note);
  if (!options.requests.file.empty()) {
    if (run_requests == nullptr) throw usage_error("--requests: this command has no `serve`");
    return run_requests(options, stop_ids(options.prompt, words), console);
  }
  // In a conversation, the lines of standard input are the prompts.
  auto prompt = options.chat ? std::vector<std::int64_t>() : prompt_ids(options.prompt, words);
  std::vector<std::int64_t> source;  // the encoder's input
  if (!options.encoder.empty()) {
    source = std::move(prompt);
    prompt = {start_id(options, words)};
  }
  const auto stops = stop_ids(options.prompt, words);
  const auto tokens = std::ssize(prompt);
  constexpr std::int64_t kConversation = 2048;
  if (options.context == 0)
    options.context = options.chat ? kConversation : tokens + options.max_tokens - 1;

  auto start = Clock::now();
  const auto plan = Plan::load(options.plan, options.load);
  double load_us = microseconds_since(start);
  create_context(plan, options.session.device);  // excludes the driver's start-up from the measured
                                                 // time
  start = Clock::now();
  std::optional<Encoder> encoder;
  std::optional<Encoded> encoded;
  if (!options.encoder.empty()) {
    const auto encoder_plan = Plan::load(options.encoder, options.load);
    Encoder::require_pair(encoder_plan, plan);
    encoder.emplace(encoder_plan, options.session);
  }
  TextGenerator generator(options, plan, tokens, stops, words);
  if (options.chat) return run_chat(options, generator, *tokenizer, console);
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
  return result.stopped_by == "interrupt" ? kInterruptedExit : 0;
}

}  // namespace

void add_generate(Cli& cli) {
  auto options = std::make_shared<GenerateArguments>();
  auto* verb = cli.app.add_subcommand("generate",
                                      "Continue a text with a decoder plan: tokens as they come, "
                                      "then how fast; Ctrl-C ends the text");
  verb->add_option("plan", options->plan, "Plan file")->required();
  verb->group("Prompt");
  auto* prompt = verb->add_option_group("prompt");
  auto* text =
      prompt->add_option("--prompt TEXT", options->prompt.text, "Text; - is standard input");
  prompt->add_option("--ids IDS", options->prompt.ids, "Token ids: 1,2,3, or a file of them");
  auto* chat = prompt->add_flag("--chat", options->chat,
                                "A conversation: lines of standard input, and their answers");
  auto* requests = prompt->add_option(
      "--requests FILE", options->requests.file,
      "File of a request a line, as `sinter serve` takes it: {\"prompt\": TEXT or \"ids\": [..] or "
      "\"messages\": [..], \"max_tokens\": N, ..}, and \"arrival_ms\"; many at once; answers "
      "come as they end");
  prompt->require_option(1);
  auto* tokenizer = verb->add_option("--tokenizer FILE", options->tokenizer,
                                     "tokenizer.json; without it tokens are printed as ids");
  text->needs(tokenizer);
  chat->needs(tokenizer);
  auto* encoder = verb->add_option(
      "--encoder PLAN", options->encoder,
      "Plan of an encoder, which reads the prompt; the decoder begins with --start");
  encoder->excludes(chat)->excludes(requests);
  auto* start = verb->add_option("--start TOKEN", options->start,
                                 "Of --encoder: first token of the decoder, id or name (default: "
                                 "decoder_start_token_id of generation_config.json)");
  start->needs(encoder);
  verb->add_option("--template FILE", options->prompt.template_file,
                   "File in which {prompt} stands for the text, such as a chat's")
      ->needs(text);
  verb->add_option("--chat-template FILE", options->chat_template,
                   "Of --chat and --requests: tokenizer_config.json, or a Jinja file (default: "
                   "tokenizer_config.json beside the tokenizer)");
  verb->add_option("--system TEXT", options->system, "Of --chat: what stands in front of it");
  verb->group("Where texts end");
  verb->add_option("--max-tokens N", options->max_tokens, "Most tokens to generate")
      ->capture_default_str()
      ->check_range(1, std::int64_t{1} << 24);
  auto* stop = verb->add_option(
      "--stop TOKEN", options->prompt.stops,
      "Token (id or name) that ends the text, besides the tokenizer's special tokens");
  verb->add_flag("--no-stop", options->no_stop, "Go on to --max-tokens")->excludes(stop);

  verb->group("Drawing tokens");
  auto* greedy = verb->add_flag("--greedy", options->greedy, "The most likely token (default)");
  for (GivenDraw& draw : options->draws.given) {
    const std::string names = flag_of(*draw.row) + " " + draw.row->type;
    auto* option = draw.row->is_whole ? verb->add_option(names, draw.whole, draw.row->help)
                                      : verb->add_option(names, draw.number, draw.row->help);
    if (std::string_view(draw.row->name) == "temperature") greedy->excludes(option);
  }
  verb->add_option("--seed N", options->seed, "Seed of the draws");
  verb->add_flag("--no-generation-config", options->no_generation_config,
                 "Do not draw as generation_config.json beside the tokenizer says, where nothing "
                 "else is given (with do_sample its draws; repetition_penalty; eos_token_id)");

  verb->group("Constrained texts");
  ConstraintArguments& constraint = options->constraint;
  verb->add_flag("--json-object", constraint.json_object,
                 "The text is a JSON object: other tokens are not drawn");
  verb->add_option("--json-schema FILE", constraint.schema_file,
                   "The text is JSON as this file, a JSON Schema, describes");
  verb->add_option("--regex EXPRESSION", constraint.regex,
                   "The text is what this expression matches");
  verb->add_option("--grammar FILE", constraint.grammar_file,
                   "The text is the rule `root` of this file, a grammar in GBNF");
  verb->add_option("--choice TEXT", constraint.choices, "The text is this, or another --choice");

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
  verb->add_flag("--no-prefix-cache", options->requests.no_prefix_cache,
                 "Of --requests: equal beginnings of prompts are computed again")
      ->needs(requests);

  verb->group("Where texts end");
  verb->add_option("--context N", options->context,
                   "Tokens that the caches hold (default: the prompt and --max-tokens; of --chat "
                   "2048)")
      ->check_positive();
  verb->group("Measuring");
  verb->add_flag("--no-rates", options->no_rates,
                 "Do not measure what the machine copies (some tenths of a second)");
  add_session_options(*verb, options->session);
  add_signature_option(*verb, options->load);
  verb->add_weight_budget(options->session.weight_budget);
  verb->add_threads_option();
  verb->example("sinter generate decoder.plan --ids 1,2,3 --max-tokens 8");
  verb->example(
      "sinter generate decoder.plan --tokenizer tokenizer.json --prompt \"Once upon a time\"");
  verb->example("sinter generate chat.plan --tokenizer tokenizer.json --chat", "a conversation");
  verb->callback([options, &cli] {
    sandbox::start();  // before any thread exists
    cli.exit_code = run_generate(*options, cli.run_requests, cli.console);
  });
}

}  // namespace sinter::tools
