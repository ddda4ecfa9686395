// SPDX-License-Identifier: Apache-2.0
#include "tools/speech/add_transcribe.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include <sinter/profile.h>

#include "runtime/format_error.h"
#include "tools/cli/machine.h"
#include "tools/cli/session_options.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/plan_source.h"
#include "tools/compiler/run/measure.h"
#include "tools/speech/audio_file.h"
#include "tools/speech/transcriber.h"
#include "tools/speech/transducer_text.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct TranscribeArguments {
  std::string plan, encoder, tokenizer, task = "transcribe", format = "text";
  std::vector<std::string> files;
  double most_seconds = 24 * 3600;
  bool no_previous_text = false;
  TranscriptionOptions options;
  SessionOptions session;
  ModelTexts model;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Prints one file's transcript in the format of `--format`.
void print(const TranscribeArguments& options, const Transcript& transcript,
           const Console& console) {
  if (options.format == "srt") return console.print(to_srt(transcript));
  if (options.format == "vtt") return console.print(to_vtt(transcript));
  if (!options.options.timestamps) console.print(transcript.text());
}

/// Writes what is said in each sound; `seconds` gets how much sound that is.
using Transcribe = std::function<Transcript(std::span<const float> samples,
                                            const std::function<void(const Segment&)>& show)>;
nlohmann::ordered_json write_all(const TranscribeArguments& options,
                                 const std::vector<std::vector<float>>& sounds,
                                 const Transcribe& transcribe, const Console& console,
                                 double& seconds) {
  nlohmann::ordered_json all;
  const bool shows_segments = options.options.timestamps && options.format == "text";
  for (std::size_t i = 0; i < sounds.size(); ++i) {
    if (sounds.size() > 1) console.print("{}:", options.files[i]);
    const auto show = [&](const Segment& segment) {
      if (shows_segments)
        console.print("[{} --> {}]{}", time_text(segment.begin, false, '.'),
                      time_text(segment.end, false, '.'), segment.text);
    };
    const Transcript transcript =
        with_context(options.files[i], [&] { return transcribe(sounds[i], show); });
    print(options, transcript, console);
    seconds += transcript.seconds;
    nlohmann::ordered_json each = {{"file", options.files[i]}};
    each.update(to_json(transcript, options.options.translate));
    all.push_back(std::move(each));
  }
  return all;
}

/// By a transducer, whose plan has the loop over tokens.
int run_transducer(const TranscribeArguments& options, const OpenModel& model,
                   const std::vector<std::vector<float>>& sounds, double load_seconds,
                   const Console& console) {
  const auto refuse = [&](bool is_given, const char* option) {
    if (is_given)
      throw usage_error("{} is of Whisper's models, and '{}' is a transducer", option,
                        options.plan);
  };
  refuse(!options.encoder.empty(), "--encoder");
  refuse(!options.options.language.empty(), "--language");
  refuse(options.options.translate, "--task translate");
  refuse(options.options.temperature != 0, "--temperature");
  if (options.tokenizer.empty())
    throw usage_error("'{}' brings no list of tokens: give --tokenizer tokens.txt", options.plan);
  auto start = Clock::now();
  create_context(model.plan, options.session.device);
  TransducerText transducer(model.plan, options.tokenizer, options.session);
  load_seconds += seconds_since(start);
  start = Clock::now();
  double sound_seconds = 0;
  nlohmann::ordered_json json = {
      {"plan", options.plan}, {"target", model.plan.target()}, {"load_us", load_seconds * 1e6}};
  json["transcripts"] = write_all(
      options, sounds,
      [&](std::span<const float> samples, const std::function<void(const Segment&)>& show) {
        return transducer.transcribe(samples, show);
      },
      console, sound_seconds);
  const double seconds = seconds_since(start);
  json.update({{"sound_s", sound_seconds},
               {"seconds", seconds},
               {"times_real_time", sound_seconds / seconds},
               {"run_us", to_json(statistics_of(transducer.times()))}});
  console.note(fmt::format("{:.1f} s of sound in {:.2f} s ({:.1f} times real time); loading {}",
                           sound_seconds, seconds, sound_seconds / seconds,
                           format_time(load_seconds * 1e6)));
  console.result(json);
  return 0;
}

int run_transcribe(TranscribeArguments options, const Console& console) {
  TranscriptionOptions& how = options.options;
  how.translate = options.task == "translate";
  how.previous_text = !options.no_previous_text;
  if (options.format != "text") how.timestamps = true;
  // Reads the files first: errors appear before models are loaded.
  std::vector<std::vector<float>> sounds;
  for (const std::string& file : options.files)
    sounds.push_back(read_audio(file, options.most_seconds));
  auto start = Clock::now();
  const OpenModel model = open_model(options.plan, options.model, {}, console);
  if (options.tokenizer.empty()) options.tokenizer = model.tokenizer;
  if (TransducerText::takes(model.plan))
    return run_transducer(options, model, sounds, seconds_since(start), console);
  std::optional<Plan> other = model.encoder;
  if (!options.encoder.empty())
    other = open_model(options.encoder, options.model, {}, console).plan;
  if (!other)
    throw usage_error("'{}' is one plan, and brings no encoder: give --encoder", options.plan);
  if (options.tokenizer.empty())
    throw usage_error("'{}' brings no tokenizer: give --tokenizer tokenizer.json", options.plan);
  const auto tokenizer = Tokenizer::load(options.tokenizer);
  const Plan &encoder = *other, &decoder = model.plan;
  double load_seconds = seconds_since(start);
  create_context(decoder, options.session.device);  // excludes the driver's start-up from the
                                                    // measured time
  start = Clock::now();
  Transcriber transcriber(encoder, decoder, tokenizer, options.session);
  if (!how.language.empty() && !transcriber.tokens().languages.empty())
    transcriber.tokens().language(how.language);  // throws for an unknown language before anything
                                                  // runs
  transcriber.warm_up();
  load_seconds += seconds_since(start);
  nlohmann::ordered_json json = {{"plan", options.plan},
                                 {"encoder", options.encoder},
                                 {"target", decoder.target()},
                                 {"load_us", load_seconds * 1e6}};
  double sound_seconds = 0;
  start = Clock::now();
  json["transcripts"] = write_all(
      options, sounds,
      [&](std::span<const float> samples, const std::function<void(const Segment&)>& show) {
        return transcriber.transcribe(samples, how, show);
      },
      console, sound_seconds);
  const double seconds = seconds_since(start);
  const TranscriptionTimes& times = transcriber.times();
  const auto encoded = statistics_of(times.encoder), first = statistics_of(times.first_tokens);
  json.update({{"sound_s", sound_seconds},
               {"seconds", seconds},
               {"times_real_time", sound_seconds / seconds},
               {"encoder_us", to_json(encoded)},
               {"first_token_us", to_json(first)}});
  std::string line = fmt::format(
      "{:.1f} s of sound in {:.2f} s ({:.1f} times real time); loading {}; encoder {} a window, "
      "first token {} behind it",
      sound_seconds, seconds, sound_seconds / seconds, format_time(load_seconds * 1e6),
      format_time(encoded.median), format_time(first.median));
  if (!times.between_tokens.empty()) {
    const auto between = statistics_of(times.between_tokens);
    json["between_tokens_us"] = to_json(between);
    line += fmt::format(", {} between tokens (medians)", format_time(between.median));
  }
  console.note(line);
  console.result(json);
  return 0;
}

}  // namespace

void add_transcribe(Cli& cli) {
  auto options = std::make_shared<TranscribeArguments>();
  auto* verb = cli.app.add_subcommand(
      "transcribe", "Write down what is said in sound, by a Whisper model or a transducer");
  verb->add_option(
          "model", options->plan,
          "Folder of a Whisper model (Hugging Face, CTranslate2) or of a transducer (NeMo's files, "
          "sherpa-onnx's), its name in the hub's cache "
          "(org/name), or the plan or ONNX file of the decoder")
      ->required();
  verb->add_option("sound", options->files,
                   "WAV, FLAC, Ogg or MP3 files of any rate and number of channels")
      ->required();
  verb->group("Model");
  verb->add_option("--encoder MODEL", options->encoder,
                   "Plan or ONNX file of the encoder (default: the folder's)");
  verb->add_option("--tokenizer FILE", options->tokenizer,
                   "tokenizer.json; of a transducer tokens.txt (default: the model's)");
  verb->group("What is written");
  verb->add_option("--language CODE", options->options.language,
                   "Code of what is spoken, as en or de (default: the likeliest)");
  verb->add_option("--task TASK", options->task, "transcribe, or translate to English")
      ->capture_default_str()
      ->check_one_of({"transcribe", "translate"});
  verb->add_flag("--timestamps", options->options.timestamps,
                 "Begin and end of each segment, too (sound longer than a window is always cut at "
                 "such times)");
  verb->add_option("--format FORMAT", options->format,
                   "text, or subtitles, which are of segments: srt or vtt")
      ->capture_default_str()
      ->check_one_of({"text", "srt", "vtt"});
  verb->add_option("--temperature T", options->options.temperature,
                   "Draw tokens; 0: the likeliest ones")
      ->capture_default_str();
  verb->add_option("--seed N", options->options.seed, "Of the draws");
  verb->add_flag("--no-previous-text", options->no_previous_text,
                 "Windows of long sound do not know the text before them");
  verb->add_option("--max-seconds SECONDS", options->most_seconds, "Most sound of a file")
      ->capture_default_str();
  add_session_options(*verb, options->session);
  verb->add_weight_budget(options->session.weight_budget);
  verb->add_threads_option();
  add_model_options(*verb, options->model);
  verb->example("sinter transcribe model_folder speech.wav");
  verb->example(
      "sinter transcribe speech_decoder.plan talk.mp3 --encoder speech_encoder.plan --tokenizer "
      "speech_tokenizer.json --format srt",
      "subtitles");
  verb->callback([options, &console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run_transcribe(*options, console);
  });
}

}  // namespace sinter::tools
