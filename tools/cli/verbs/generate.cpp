#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>

#include <sinter/profile.h>

#include "runtime/engine/sampler.h"
#include "runtime/engine/utf8.h"
#include "runtime/format_error.h"
#include "tools/cli/machine.h"
#include "tools/cli/session_options.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/options/sample.h"
#include "tools/compiler/run/measure.h"
#include "tools/generate/decoder.h"
#include "tools/generate/prompt.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct GenerateArguments {
  std::string plan, tokenizer, position, mask;
  PromptOptions prompt;
  DecoderOptions decoder;
  // As they are given; what is not is greedy, or what the plan does.
  std::optional<double> temperature, top_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::uint64_t> seed;
  bool greedy = false;
  SessionOptions session;
  std::int64_t max_tokens = 128;
  bool no_stop = false, no_rates = false;
};

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Tokens as they come: text with a tokenizer, else numbers.
class Stream {
 public:
  Stream(const Console& console, const Tokenizer* tokenizer)
      : shows_(!console.json), tokenizer_(tokenizer) {}

  void add(std::int64_t id) {
    if (tokenizer_ == nullptr) {
      write(fmt::format("{}{}", is_first_ ? "" : " ", id));
    } else if (!tokenizer_->is_special(id)) {
      write(text_.add(tokenizer_->bytes_of(id)));
    }
    is_first_ = false;
  }
  void finish() { write(text_.finish() + "\n"); }

 private:
  void write(const std::string& text) const {
    if (!shows_) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  bool shows_, is_first_ = true;
  const Tokenizer* tokenizer_;
  engine::Utf8Stream text_;
};

volatile std::sig_atomic_t interrupted = 0;
constexpr int kInterruptedExit = 128 + SIGINT;

/// While it lives, a first Ctrl-C ends the text after the token that is due, a second the process.
class Interrupts {
 public:
  Interrupts() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigaction(SIGINT, &action, &previous_);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts() { sigaction(SIGINT, &previous_, nullptr); }

 private:
  struct sigaction previous_ {};
};

struct Generated {
  std::vector<std::int64_t> tokens;
  std::string stopped_by;     // "stop token", "max tokens", "context" or "interrupt"
  double first_us = 0;        // from the prompt to the first token
  std::vector<double> steps;  // microseconds from each token to the next
};

/// What the host draws with. Throws Error(kUsage) for an option of it that says something else than
/// the plan's own sampler, or means nothing without a draw.
SamplingParameters sampling_of(const GenerateArguments& options,
                               const std::optional<SampleOptions>& plan) {
  const auto differ = [&](const char* flag) {
    throw usage_error(
        "{} says otherwise than the plan, which chooses tokens itself ({}): "
        "compile without --sample to choose them here",
        flag, to_text(*plan));
  };
  if (plan) {
    if (options.greedy && !plan->is_greedy()) differ("--greedy");
    if (options.temperature && *options.temperature != plan->temperature) differ("--temperature");
    if (options.top_k && *options.top_k != plan->top_k) differ("--top-k");
    if (options.top_p && *options.top_p != plan->top_p) differ("--top-p");
    if (options.seed && plan->is_greedy()) differ("--seed");
  } else if (!options.temperature) {
    for (const auto& [given, flag] : {std::pair(options.top_k.has_value(), "--top-k"),
                                      std::pair(options.top_p.has_value(), "--top-p"),
                                      std::pair(options.seed.has_value(), "--seed")})
      if (given) throw usage_error("{} is of a draw: give --temperature", flag);
  }
  SamplingParameters sampling;
  sampling.temperature = options.temperature.value_or(0);
  sampling.top_k = options.top_k.value_or(0);
  sampling.top_p = options.top_p.value_or(1);
  sampling.seed = options.seed.value_or(0);
  engine::check_sampling(sampling, 0);
  return sampling;
}

/// Tokens one after the other, from the plan's sampler or one here.
class Chooser {
 public:
  Chooser(const GenerateArguments& options, Decoder& decoder)
      : decoder_(decoder), sampler_(start(sampling_of(options, decoder.sampler()))) {}

  std::int64_t first(std::span<const std::int64_t> prompt) {
    if (!decoder_.sampler()) return sampler_.draw(decoder_.run(prompt));
    decoder_.start(prompt);
    return decoder_.token();
  }
  /// Starts on the token behind `id`, where that takes no waiting.
  void begin_next() {
    if (decoder_.sampler()) decoder_.next();
  }
  std::int64_t next(std::int64_t id) {
    return decoder_.sampler() ? decoder_.token() : sampler_.draw(decoder_.run({&id, 1}));
  }

 private:
  static engine::SlotStart start(SamplingParameters sampling) {
    engine::SlotStart start;
    start.seed = sampling.seed;
    start.sampling = std::make_shared<const SamplingParameters>(std::move(sampling));
    return start;
  }

  Decoder& decoder_;
  engine::SlotSampler sampler_;
};

Generated generate(const GenerateArguments& options, Decoder& decoder,
                   const std::vector<std::int64_t>& prompt, const std::vector<std::int64_t>& stops,
                   const Tokenizer* tokenizer, Stream& stream) {
  Chooser chooser(options, decoder);
  Generated result;
  const auto ends = [&](std::int64_t id) {
    if (options.no_stop) return false;
    if (std::ranges::find(stops, id) != stops.end()) return true;
    return tokenizer != nullptr && tokenizer->is_special(id);
  };
  auto start = Clock::now();
  std::int64_t id = chooser.first(prompt);
  result.first_us = microseconds_since(start);
  while (true) {
    result.tokens.push_back(id);
    if (ends(id)) {
      result.stopped_by = "stop token";
      break;
    }
    const bool is_last = std::ssize(result.tokens) >= options.max_tokens;
    const bool is_full = decoder.position() >= decoder.capacity();
    if (interrupted != 0) {
      stream.add(id);
      result.stopped_by = "interrupt";
      break;
    }
    start = Clock::now();
    // While the plan is at the next one, this one is shown.
    if (!is_last && !is_full) chooser.begin_next();
    stream.add(id);
    if (is_last || is_full) {
      result.stopped_by = is_last ? "max tokens" : "context";
      break;
    }
    id = chooser.next(id);
    result.steps.push_back(microseconds_since(start));
  }
  stream.finish();
  return result;
}

void report(const GenerateArguments& options, const Plan& plan, Decoder& decoder,
            const Generated& result, const std::vector<std::int64_t>& prompt,
            const Tokenizer* tokenizer, double load_us, const Console& console) {
  const auto steps = statistics_of(result.steps);
  const double prompt_tokens = static_cast<double>(prompt.size());
  nlohmann::ordered_json json = {{"plan", options.plan},
                                 {"target", plan.target()},
                                 {"prompt_tokens", prompt.size()},
                                 {"tokens", result.tokens}};
  if (tokenizer != nullptr) json["text"] = tokenizer->decode(result.tokens, true);
  json.update({{"stopped_by", result.stopped_by},
               {"capacity", decoder.capacity()},
               {"caches_in_place", decoder.keeps_state()},
               {"sampler", decoder.sampler() ? to_text(*decoder.sampler()) : "host"},
               {"feeds_itself", decoder.feeds_itself()},
               {"load_us", load_us},
               {"first_token_us", result.first_us},
               {"prompt_tokens_per_s", prompt_tokens / result.first_us * 1e6}});
  console.note(fmt::format(
      "{} tokens behind {} of the prompt ({}); first token after {}, {:.0f} tokens/s; loading {}",
      result.tokens.size(), prompt.size(), result.stopped_by, format_time(result.first_us),
      prompt_tokens / result.first_us * 1e6, format_time(load_us)));
  if (!result.steps.empty()) {
    // The steps were at the positions up to the last one.
    const auto middle = decoder.position() - static_cast<std::int64_t>(result.steps.size() + 1) / 2;
    const std::uint64_t weights = decoder.weight_bytes();
    const std::uint64_t caches = decoder.valid_cache_bytes(middle);
    const std::uint64_t bytes = weights + caches;
    json.update({{"between_tokens_us", to_json(steps)},
                 {"tokens_per_s", 1e6 / steps.mean},
                 {"kernels_per_token", decoder.session().launches()},
                 {"weight_bytes", plan.weight_bytes()},
                 {"cache_bytes", decoder.cache_bytes()},
                 {"weight_bytes_per_token", weights},
                 {"cache_bytes_per_token", caches},
                 {"bytes_per_token", bytes}});
    std::string line =
        fmt::format("between tokens {} (median), {} (p99): {:.1f} tokens/s, {} a token",
                    format_time(steps.median), format_time(steps.p99), 1e6 / steps.mean,
                    format_bytes(static_cast<double>(bytes)));
    if (!options.no_rates) {
      const auto rates = measure_rates(decoder.session());
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

int run_generate(GenerateArguments options, const Console& console) {
  std::optional<Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer = Tokenizer::load(options.tokenizer);
  const Tokenizer* words = tokenizer ? &*tokenizer : nullptr;
  const auto prompt = prompt_ids(options.prompt, words);
  const auto stops = stop_ids(options.prompt, words);
  const auto tokens = std::ssize(prompt);
  if (options.decoder.context == 0) options.decoder.context = tokens + options.max_tokens - 1;

  if (!options.position.empty()) options.decoder.position = {options.position};
  if (!options.mask.empty()) options.decoder.mask = {options.mask};

  auto start = Clock::now();
  const auto plan = Plan::load(options.plan);
  double load_us = microseconds_since(start);
  create_context(plan, options.session.device);  // the driver's time, not ours
  start = Clock::now();
  options.decoder.seed = options.seed.value_or(0);
  Decoder decoder(plan, options.decoder, options.session);
  sampling_of(options, decoder.sampler());  // refuses before anything runs
  decoder.warm_up(tokens, 0);
  // The last token is not run.
  if (options.max_tokens > 1 && tokens < decoder.capacity()) decoder.warm_up(1, tokens);
  load_us += microseconds_since(start);
  if (!decoder.keeps_state())
    console.note(decoder.grows()
                     ? "the plan's caches grow: they are copied, and each token is a new shape"
                     : "the plan does not keep its caches: they are copied for each token");
  if (decoder.sampler())
    console.note(fmt::format("the plan chooses tokens itself ({}){}", to_text(*decoder.sampler()),
                             decoder.feeds_itself() ? " and feeds itself" : ""));
  Stream stream(console, words);
  const Interrupts interrupts;
  const auto result = generate(options, decoder, prompt, stops, words, stream);
  report(options, plan, decoder, result, prompt, words, load_us, console);
  return result.stopped_by == "interrupt" ? kInterruptedExit : 0;
}

}  // namespace

void add_generate(Cli& cli) {
  auto options = std::make_shared<GenerateArguments>();
  auto* verb = cli.app.add_subcommand("generate",
                                      "Continue a text with a decoder plan: tokens as they come, "
                                      "then how fast; Ctrl-C ends the text");
  verb->add_option("plan", options->plan, "Plan file")->required();
  auto* prompt = verb->add_option_group("prompt");
  auto* text = prompt->add_option("--prompt", options->prompt.text, "Text; - is standard input");
  prompt->add_option("--ids", options->prompt.ids, "Token ids: 1,2,3, or a file of them");
  prompt->require_option(1);
  auto* tokenizer = verb->add_option("--tokenizer", options->tokenizer,
                                     "tokenizer.json; without it tokens are printed as ids");
  text->needs(tokenizer);
  verb->add_option("--template", options->prompt.template_file,
                   "File in which {prompt} stands for the text, such as a chat's")
      ->needs(text);
  verb->add_option("--max-tokens", options->max_tokens, "Most tokens to generate")
      ->capture_default_str()
      ->check_range(1, std::int64_t{1} << 24);
  auto* stop = verb->add_option(
      "--stop", options->prompt.stops,
      "Token (id or name) that ends the text, besides the tokenizer's special tokens");
  verb->add_flag("--no-stop", options->no_stop, "Go on to --max-tokens")->excludes(stop);

  auto* temperature = verb->add_option("--temperature", options->temperature,
                                       "Draw tokens; 0: the most likely one");
  verb->add_flag("--greedy", options->greedy, "The most likely token (default)")
      ->excludes(temperature);
  verb->add_option("--top-k", options->top_k, "Of so many most likely tokens; 0: all");
  verb->add_option("--top-p", options->top_p,
                   "Of the fewest tokens that have this probability together");
  verb->add_option("--seed", options->seed, "Of the draws");

  verb->add_option("--context", options->decoder.context,
                   "Tokens that caches of open size hold (default: the prompt and --max-tokens)")
      ->check_positive();
  verb->add_option("--ids-input", options->decoder.ids, "Input of token ids")
      ->capture_default_str();
  verb->add_option("--position-input", options->position,
                   "Input of the first token's position, or of each token's (default: position, "
                   "position_ids or cache_position)");
  verb->add_option("--mask-input", options->mask,
                   "Input of ones for all tokens so far (default: attention_mask)");
  verb->add_option("--logits-output", options->decoder.logits, "Output of logits")
      ->capture_default_str();
  verb->add_option("--state", options->decoder.states,
                   "INPUT=OUTPUT of a cache (default: the plan's states, and past_X=present_X)");
  verb->add_flag("--no-rates", options->no_rates,
                 "Do not measure what the machine copies (some tenths of a second)");
  add_session_options(*verb, options->session);
  verb->add_weight_budget(options->session.weight_budget);
  verb->add_threads_option();
  verb->callback([options, &console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run_generate(*options, console);
  });
}

}  // namespace sinter::tools
