// SPDX-License-Identifier: Apache-2.0
// `sinter transcribe`, and `sinter generate --encoder`, over tiny models with random weights
// (models/build_whisper.py and build_marian.py --random), against Hugging Face's transformers
// (goldens/make_speech.py).
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include <gmock/gmock.h>
#include <sinter/sinter.h>

#include "runtime/engine/executors/paged_executor.h"
#include "runtime/files/input_file.h"
#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/generate/tiny_decoder.h"
#include "tools/speech/add_transcribe.h"
#include "tools/speech/audio_file.h"
#include "tools/speech/speech_tokens.h"
#include "tools/speech/timestamp_rules.h"
#include "tools/speech/transcriber.h"
#include "tools/speech/transcript.h"
#include "tools/tokenizer/tokenizer.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kTiny = source_dir() + "/models/tiny/";
const std::string kGoldens = source_dir() + "/tests/tools/goldens/";

const json& golden() {
  static const json all = [] {
    std::ifstream file(kGoldens + "speech.json");
    return json::parse(file);
  }();
  return all;
}

/// A WAV file of 16 bits, or of floats.
std::string wav(int rate, int channels, const std::vector<float>& samples, bool floats = false) {
  std::string result;
  const auto put = [&](auto value) {
    result.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const int bytes = floats ? 4 : 2;
  const auto size = static_cast<std::uint32_t>(samples.size()) * static_cast<std::uint32_t>(bytes);
  result += "RIFF";
  put(36 + size);
  result += "WAVEfmt ";
  put(std::uint32_t{16});
  put(static_cast<std::uint16_t>(floats ? 3 : 1));
  put(static_cast<std::uint16_t>(channels));
  put(static_cast<std::uint32_t>(rate));
  put(static_cast<std::uint32_t>(rate * channels * bytes));
  put(static_cast<std::uint16_t>(channels * bytes));
  put(static_cast<std::uint16_t>(8 * bytes));
  result += "data";
  put(size);
  for (const float sample : samples) {
    if (floats)
      put(sample);
    else
      put(static_cast<std::int16_t>(std::lround(sample * 32767)));
  }
  return result;
}

std::vector<float> tone(int rate, double seconds) {
  std::vector<float> samples(static_cast<std::size_t>(rate * seconds));
  for (std::size_t i = 0; i < samples.size(); ++i)
    samples[i] = 0.5F * std::sin(2 * M_PI * 440 * static_cast<double>(i) / rate);
  return samples;
}

std::vector<float> decode(const std::string& bytes) {
  return tools::decode_audio(std::as_bytes(std::span(bytes)), "it.wav", 10);
}

class SpeechTest : public CliTest {
 protected:
  CliResult sinter(std::vector<std::string> words) {
    words.insert(words.begin(), "sinter");
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    constexpr tools::AddVerb kMore[] = {tools::add_transcribe};
    CliResult result;
    result.code = tools::run_cli(static_cast<int>(arguments.size()), arguments.data(), kMore);
    result.out = testing::internal::GetCapturedStdout();
    result.err = testing::internal::GetCapturedStderr();
    return result;
  }
  std::string compile(const std::string& model, const std::vector<std::string>& options = {}) {
    const std::string plan = path(model + ".plan");
    std::vector<std::string> words = {"compile", kTiny + model + ".onnx", "-o", plan,
                                      "--target=cpu"};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return plan;
  }
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::vector<std::string> words_of(const std::string& sound,
                                    const std::vector<std::string>& options = {}) {
    std::vector<std::string> words = {"transcribe",
                                      decoder_,
                                      sound,
                                      "--encoder",
                                      encoder_,
                                      "--tokenizer",
                                      kGoldens + "speech_tokenizer.json"};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
  json transcribe(const std::string& sound, std::vector<std::string> options) {
    options.emplace_back("--json");
    const auto result = sinter(words_of(sound, options));
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out).at("transcripts").at(0);
  }
  static void expect_transcript(const json& found, const json& expected) {
    EXPECT_EQ(found["language"], expected["language"]);
    ASSERT_EQ(found["segments"].size(), expected["segments"].size());
    for (std::size_t i = 0; i < found["segments"].size(); ++i) {
      const json &a = found["segments"][i], &b = expected["segments"][i];
      EXPECT_EQ(a["tokens"], b["tokens"]);
      for (const char* key : {"start", "end"})
        EXPECT_NEAR(a[key].get<double>(), b[key].get<double>(), 2e-4) << key;
      for (const char* key : {"avg_logprob", "no_speech_prob"})
        EXPECT_NEAR(a[key].get<double>(), b[key].get<double>(), 2e-3) << key;
    }
  }

  std::string encoder_ = compile("speech_encoder"), decoder_ = compile("speech_decoder");
};

TEST_F(SpeechTest, LogitsAreThoseOfTransformers) {
  const json expected = golden()["speech"];
  const std::string own = compile("speech_decoder", {"--serve=off", "--dim", "capacity=64"});
  Session encoder(Plan::load(encoder_)), decoder(Plan::load(own));
  auto audio = tools::read_audio(kGoldens + "speech.wav", 10);
  audio.resize(16000);
  encoder.set_input("audio", {1, 16000}, audio);
  encoder.run();
  for (const BindingInfo& output : encoder.plan().outputs())
    decoder.use_input(output.name, encoder.output(output.name));
  const auto prompt = expected["prompt"].get<std::vector<std::int64_t>>();
  decoder.set_input("input_ids", {1, std::ssize(prompt)}, prompt);
  decoder.set_input("position", {1}, std::vector<std::int64_t>{0});
  decoder.run();
  const auto logits = decoder.output("logits").as<float>();
  const auto wanted = expected["logits"].get<std::vector<float>>();
  ASSERT_EQ(logits.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(logits[i], wanted[i], 1e-3) << i;
  // One token at a time, behind caches.
  std::vector<std::int64_t> found;
  auto position = std::ssize(prompt);
  while (true) {
    const auto now = decoder.output("logits").as<float>();
    found.push_back(std::ranges::max_element(now) - now.begin());
    if (found.size() == expected["tokens"].size()) break;
    decoder.set_input("input_ids", {1, 1}, std::vector<std::int64_t>{found.back()});
    decoder.set_input("position", {1}, std::vector<std::int64_t>{position++});
    decoder.run();
  }
  EXPECT_EQ(json(found), expected["tokens"]);
}

TEST_F(SpeechTest, TranscriptsAreThoseOfTransformersLogits) {
  const json expected = golden();
  const std::string speech = kGoldens + "speech.wav", long_speech = kGoldens + "long_speech.wav";
  expect_transcript(transcribe(speech, {"--language", "en"}), expected["speech"]["plain"]);
  expect_transcript(transcribe(speech, {"--timestamps"}), expected["speech"]["detected"]);
  expect_transcript(transcribe(speech, {"--timestamps", "--language", "de"}),
                    expected["speech"]["german"]);
  // Longer than the model's window of one second.
  expect_transcript(transcribe(long_speech, {}), expected["long_speech"]["detected"]);
  expect_transcript(transcribe(long_speech, {"--language", "de"}),
                    expected["long_speech"]["german"]);
}

/// The encoder behind its own spectrum, in front of which `compile --features` puts one.
TEST_F(SpeechTest, SpectraOfPreprocessorsAreThoseOfTheModel) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(read(kTiny + "speech_encoder.onnx")));
  auto* graph = model.mutable_graph();
  const std::string spectrum = "mel/Transpose_output";
  auto* nodes = graph->mutable_node();
  for (int i = nodes->size() - 1; i >= 0; --i)
    if (nodes->at(i).output(0).starts_with("mel/")) nodes->DeleteSubrange(i, 1);
  for (auto& node : *nodes)
    for (auto& input : *node.mutable_input())
      if (input == spectrum) input = "input_features";
  graph->clear_input();
  value(graph->add_input(), "input_features", {"batch", "bands", "frames"});
  save(model, "spectrum.onnx");
  const std::string config = write("preprocessor_config.json", json{{"feature_size", 80},
                                                                    {"hop_length", 160},
                                                                    {"n_fft", 400},
                                                                    {"n_samples", 16000},
                                                                    {"sampling_rate", 16000}}
                                                                   .dump());
  const auto compiled = sinter({"compile", path("spectrum.onnx"), "-o", path("own.plan"),
                                "--target=cpu", "--features", config});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  const std::string whole = compile("speech_encoder");
  ASSERT_EQ(sinter({"run", whole, "--seed=3", "--outputs", path("out.npz")}).code, 0);
  const auto same = sinter(
      {"run", path("own.plan"), "--seed=3", "--expected", path("out.npz"), "--tolerance=1e-4"});
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  const auto refusal = [&](const std::string& file, const std::string& text) {
    return sinter({"compile", path("spectrum.onnx"), "-o", path("bad.plan"), "--target=cpu",
                   "--features", write(file, text)})
        .err;
  };
  EXPECT_THAT(refusal("a.json", "{}"), HasSubstr("has no 'feature_size'"));
  EXPECT_THAT(refusal("b.json", "["), HasSubstr("b.json"));
  EXPECT_THAT(sinter({"compile", kTiny + "speech_encoder.onnx", "-o", path("bad.plan"),
                      "--features", config})
                  .err,
              HasSubstr("input_features"));
}

TEST_F(SpeechTest, WhatIsNotSpokenIsThatOfOpenAi) {
  const auto tokenizer = tools::Tokenizer::load(kGoldens + "speech_tokenizer.json");
  EXPECT_EQ(json(tools::SpeechTokens::of(tokenizer, 317).suppressed), golden()["suppressed"]);
  EXPECT_THROW(tools::SpeechTokens::of(tokenizer, 266), Error);
}

TEST_F(SpeechTest, SubtitlesAreOfSegments) {
  const std::string long_speech = kGoldens + "long_speech.wav";
  const auto srt = sinter(words_of(long_speech, {"--format", "srt"}));
  EXPECT_THAT(srt.out, testing::StartsWith("1\n00:00:0"));
  const auto vtt = sinter(words_of(long_speech, {"--format", "vtt"}));
  EXPECT_THAT(vtt.out, testing::StartsWith("WEBVTT\n\n00:0"));
  EXPECT_EQ(tools::time_text(3723.4506, true, ','), "01:02:03,451");
  EXPECT_EQ(tools::time_text(59.9996, false, '.'), "01:00.000");
}

TEST_F(SpeechTest, BadInputIsRefused) {
  const std::string sound = kGoldens + "speech.wav";
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  refused(words_of(sound, {"--language", "xx"}), "there is no language 'xx'; there are en, de");
  refused(words_of(path("none.wav")), "none.wav' cannot be read");
  refused(words_of(write("text.wav", "this is no sound")), "is no sound that can be read");
  refused(words_of(write("empty.wav", wav(16000, 1, {}))), "has no sound");
  refused(words_of(sound, {"--max-seconds", "0.5"}), "has more than 0.5 s of sound");
  refused(words_of(write("nan.wav", wav(16000, 1, {0, std::nanf(""), 0}, true))),
          "has samples that are no numbers");
  auto words = words_of(sound);
  std::swap(words[1], words[4]);
  refused(words, "is an input of the decoder's plan: they belong to different models");
  decoder_ = compile("speech_decoder", {"--serve=off"});
  refused(words_of(sound), "makes of a decoder without --serve=off");
  words = words_of(sound);
  words[6] = write("other.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  EXPECT_NE(sinter(words).code, 0);
}

TEST_F(SpeechTest, MarianTranslatesAsTransformersDo) {
  const std::string encoder = compile("marian_encoder"), decoder = compile("marian_decoder");
  for (const json& each : golden()["marian"]) {
    std::string ids;
    for (const auto& id : each["source"]) ids += (ids.empty() ? "" : ",") + id.dump();
    const std::vector<std::string> words = {
        "generate", decoder,        "--encoder", encoder,     "--ids",      ids,     "--start",
        "95",       "--max-tokens", "20",        "--no-stop", "--no-rates", "--json"};
    const auto result = sinter(words);
    ASSERT_EQ(result.code, 0) << result.err;
    const json found = json::parse(result.out);
    EXPECT_EQ(found["tokens"], each["tokens"]);
    EXPECT_EQ(found["encoder_tokens"], each["source"].size());
  }
  const auto alone = sinter({"generate", decoder, "--ids", "1"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("give the plan that makes it with --encoder"));
  const auto no_start = sinter({"generate", decoder, "--encoder", encoder, "--ids", "1"});
  EXPECT_EQ(no_start.code, 2);
  EXPECT_THAT(no_start.err, HasSubstr("--start"));
}

/// Sequences of one engine, each behind the output of its own encoder's run.
TEST_F(SpeechTest, ManySourcesAreReadAtOnce) {
  const Plan plan = Plan::load(compile("marian_decoder", {"--serve=block=4"}));
  ASSERT_TRUE(engine::PagedExecutor::takes(plan));
  tools::Encoder encoder(Plan::load(compile("marian_encoder")), {});
  std::vector<GenerationRequest> requests;
  for (int copy = 0; copy < 3; ++copy)
    for (const json& each : golden()["marian"]) {
      GenerationRequest& request = requests.emplace_back();
      encoder.set_tokens(each["source"].get<std::vector<std::int64_t>>());
      request.encoded = encoder.run(plan);
      request.prompt = {95};
      request.sampling.max_tokens = std::ssize(each["tokens"]);
      request.sampling.samples = copy == 2 ? 2 : 1;
    }
  engine::PagedExecutorOptions options;
  options.max_sequences = 4;
  options.max_step_tokens = 16;
  options.block_count = 9;  // so that some are preempted
  EngineStats stats;
  const GenerationTexts texts =
      texts_of(std::make_unique<engine::PagedExecutor>(plan, options), {}, requests, &stats);
  const std::size_t count = golden()["marian"].size();
  EXPECT_EQ(texts.size(), 4 * count);
  for (const auto& [id, tokens] : texts)
    EXPECT_EQ(json(tokens), golden()["marian"][(id.first - 1) % count]["tokens"]);
  EXPECT_GT(stats.step_sequences, stats.steps);
  EXPECT_GT(stats.preemptions, 0U);

  Engine engine(std::make_unique<engine::PagedExecutor>(plan, options));
  const auto refusal = [&](const std::function<void(EncoderOutput&)>& change, bool given = true) {
    GenerationRequest request = requests[0];
    auto other = std::make_shared<EncoderOutput>(*request.encoded);
    change(*other);
    request.encoded = given ? other : nullptr;
    try {
      engine.submit(request, nullptr);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](EncoderOutput&) {}), "");
  EXPECT_THAT(refusal([](EncoderOutput&) {}, false), HasSubstr("'cross_key_0'"));
  EXPECT_THAT(refusal([](EncoderOutput& given) { given.tensors.pop_back(); }),
              HasSubstr("has no output 'cross_value_1'"));
  EXPECT_THAT(refusal([](EncoderOutput& given) { given.tensors[1].data.pop_back(); }),
              HasSubstr("'cross_value_0' is"));
  EXPECT_THAT(refusal([](EncoderOutput& given) { given.tensors[0].dtype = DType::kInt32; }),
              HasSubstr("'cross_key_0' is i32"));
  EXPECT_THAT(refusal([](EncoderOutput& given) {
                auto& tensor = given.tensors[2];
                tensor.shape[2] = 2, tensor.data.resize(4 * 2 * 8 * 4);
              }),
              HasSubstr("as many as of the others"));
  EXPECT_THAT(refusal([](EncoderOutput& given) { given.tensors[0].shape.pop_back(); }),
              HasSubstr("'cross_key_0' is"));
}

/// A paged plan transcribes several sounds at once.
TEST_F(SpeechTest, ManySoundsAreTranscribedAtOnce) {
  const Plan decoder = Plan::load(decoder_);
  ASSERT_TRUE(engine::PagedExecutor::takes(decoder));
  const auto tokenizer = tools::Tokenizer::load(kGoldens + "speech_tokenizer.json");
  tools::Transcriber transcriber(Plan::load(encoder_), decoder, tokenizer, {}, 3);
  const auto sound = tools::read_audio(kGoldens + "long_speech.wav", 100);
  std::vector<std::string> texts(6);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back([&, i] {
      tools::TranscriptionOptions options;
      options.language = i % 2 == 0 ? "" : "de";
      texts[i] = transcriber.transcribe(sound, options).text();
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::string wanted;
    for (const json& segment :
         golden()["long_speech"][i % 2 == 0 ? "detected" : "german"]["segments"]) {
      std::vector<std::int64_t> words;
      for (const std::int64_t id : segment["tokens"])
        if (id < transcriber.tokens().end) words.push_back(id);
      wanted += tokenizer.decode(words, true);
    }
    EXPECT_EQ(texts[i].substr(texts[i].find_first_not_of(' ')),
              wanted.substr(wanted.find_first_not_of(' ')));
  }
}

TEST(AudioFile, IsMixedAndResampled) {
  const auto samples = tone(48000, 0.5);
  std::vector<float> stereo;
  for (const float sample : samples) stereo.insert(stereo.end(), {sample, 0});
  const auto found = decode(wav(48000, 2, stereo)), wanted = tone(16000, 0.5);
  ASSERT_NEAR(static_cast<double>(found.size()), static_cast<double>(wanted.size()), 2);
  // Away from the ends the resampled tone is the tone, of half the size.
  for (std::size_t i = 1000; i < 7000; ++i) EXPECT_NEAR(found[i], wanted[i] / 2, 2e-3) << i;
}

TEST(AudioFile, HeadersThatLieGiveWhatThereIsOrAnError) {
  const std::string whole = wav(16000, 1, tone(16000, 0.1));
  // A length that is not there, as programs write it to a pipe.
  std::string endless = whole;
  endless.replace(40, 4, "\xff\xff\xff\x7f");
  EXPECT_EQ(decode(endless).size(), 1600U);
  // Any byte of the header, and any length.
  for (std::size_t at = 0; at < 44; ++at)
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      std::string bad = whole;
      bad[at] = byte;
      try {
        EXPECT_LE(decode(bad).size(), 10U * 16000);
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("'it.wav'"));
      }
    }
  for (std::size_t size = 0; size < 60; ++size) {
    try {
      decode(whole.substr(0, size));
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("'it.wav'"));
    }
  }
}

/// Tokens 0 to 3 are words, 4 the end, 9 what says that there are no times, those from 10 on times.
TEST(TimestampRules, TimesComeInPairsAndDoNotGoBack) {
  tools::SpeechTokens tokens;
  tokens.end = 4;
  tokens.no_timestamps = 9;
  tokens.first_timestamp = 10;
  const auto allowed = [&](const std::vector<std::int64_t>& text, float time_logit = -100) {
    std::vector<float> logits(80, 0);
    std::fill(logits.begin() + 10, logits.end(), time_logit);
    tools::apply_timestamp_rules(tokens, text, logits);
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (std::isfinite(logits[i])) result.push_back(static_cast<std::int64_t>(i));
    return result;
  };
  const auto range = [](std::int64_t from, std::int64_t to) {
    std::vector<std::int64_t> result;
    for (std::int64_t i = from; i < to; ++i) result.push_back(i);
    return result;
  };
  const auto joined = [](std::vector<std::int64_t> a, const std::vector<std::int64_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  // First a time of the first second; then words; then words, or a later time.
  EXPECT_EQ(allowed({}), range(10, 61));
  EXPECT_EQ(allowed({10}), range(0, 9));
  EXPECT_EQ(allowed({12, 1}), joined(range(0, 9), range(13, 80)));
  // Behind the end of a segment the begin of the next, at the same time or later, or the end.
  EXPECT_EQ(allowed({12, 1, 15}), joined(range(4, 9), range(15, 80)));
  EXPECT_EQ(allowed({12, 1, 15, 15}), range(0, 9));
  // All times together are likelier than any word.
  EXPECT_EQ(allowed({12, 1}, -2), range(13, 80));
}

}  // namespace
}  // namespace sinter::tests
