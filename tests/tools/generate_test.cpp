// SPDX-License-Identifier: Apache-2.0
// `sinter generate` over a tiny decoder with random weights (models/build_llama.py --random).
#include <atomic>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/generate/prompt.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::string kModels = source_dir() + "/models/tiny/";
const std::string kGoldens = source_dir() + "/tests/tools/goldens/";

const json& read_json(const std::string& name) {
  static std::map<std::string, json> all;
  if (!all.contains(name)) {
    std::ifstream file(kGoldens + name);
    all[name] = json::parse(file);
  }
  return all.at(name);
}

std::string joined(const json& ids) {
  std::string text;
  for (const auto& id : ids) text += (text.empty() ? "" : ",") + id.dump();
  return text;
}

class GenerateTest : public CliTest {
 protected:
  std::string compile(const std::vector<std::string>& options = {},
                      const std::string& model = kModels + "decoder.onnx") {
    std::vector<std::string> words = {"compile", model, "-o", path("plan"), "--target=cpu"};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return path("plan");
  }
  json generate(const std::string& plan, const json& prompt, std::size_t tokens,
                const std::vector<std::string>& options = {}) {
    std::vector<std::string> words = {"generate",     plan,           "--ids",
                                      joined(prompt), "--max-tokens", std::to_string(tokens),
                                      "--no-rates",   "--json"};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }
};

/// Decoders of ONNX Runtime GenAI's builder: with caches that grow, with sliding windows, with
/// angles that the text's length chooses.
TEST_F(GenerateTest, GreedyTokensOfGenAiExportsAreThoseOfOnnxRuntime) {
  const std::string folder = source_dir() + "/tests/conformance/genai/node/test_";
  for (const std::string model :
       {"llama_fp32_cpu", "gemma2_int4_cpu", "qwen3_int4_cuda", "phi3long_fp32_cpu"}) {
    SCOPED_TRACE(model);
    std::ifstream file(folder + model + "/greedy.json");
    const std::string plan = compile({}, folder + model + "/model.onnx");
    for (const json& each : json::parse(file))
      EXPECT_EQ(generate(plan, each["ids"], each["tokens"].size())["tokens"], each["tokens"]);
  }
}

TEST_F(GenerateTest, GreedyTokensAreThoseOfNumpy) {
  const auto cases = read_json("greedy.json")["decoder"];
  ASSERT_EQ(cases.size(), 3U);
  // Any prompt and context; small blocks; few tokens at a time.
  for (const auto& options : std::vector<std::vector<std::string>>{
           {}, {"--serve=block=2,positions=64"}, {"--serve=step-tokens=4,sequences=2"}}) {
    const auto plan = compile(options);
    for (const auto& golden : cases) {
      const auto found = generate(plan, golden["prompt"], golden["tokens"].size());
      EXPECT_EQ(found["tokens"], golden["tokens"]);
      EXPECT_EQ(found["stopped_by"], "max tokens");
      EXPECT_EQ(found["prompt_tokens"], golden["prompt"].size());
    }
  }
}

/// Encoder and decoder as Optimum exports them, the decoder merged of one that makes the caches of
/// the encoder's output and one that is given them.
TEST_F(GenerateTest, MergedDecodersMakeCachesOfTheEncoder) {
  const std::string model = kModels + "optimum_decoder.onnx", encoder = path("encoder");
  ASSERT_EQ(sinter({"compile", kModels + "optimum_encoder.onnx", "-o", encoder, "--target=cpu",
                    "--decoder", model})
                .code,
            0);
  const std::vector<std::string> little = {"--dim", "past_decoder_sequence_length=0..7"};
  for (const auto& options : {std::vector<std::string>(), little}) {
    const auto plan = compile(options, model);
    for (const auto& golden : read_json("optimum.json")) {
      const auto found = generate(plan, golden["prompt"], golden["tokens"].size(),
                                  {"--encoder", encoder, "--start", "0", "--no-stop"});
      const std::size_t count = found["tokens"].size();
      EXPECT_EQ(count, options.empty() ? golden["tokens"].size() : 7);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(found["tokens"][i], golden["tokens"][i]);
    }
  }
  const auto alone = sinter({"generate", path("plan"), "--ids", "1"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("give the plan that makes it with --encoder"));
  // The encoder alone does not make them.
  ASSERT_EQ(
      sinter({"compile", kModels + "optimum_encoder.onnx", "-o", encoder, "--target=cpu"}).code, 0);
  const auto without =
      sinter({"generate", path("plan"), "--encoder", encoder, "--start", "0", "--ids", "1"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("--decoder=decoder_model_merged.onnx"));
  for (const std::string& other : {kModels + "decoder.onnx", path("nowhere.onnx")}) {
    const auto refused = sinter({"compile", kModels + "optimum_encoder.onnx", "-o", encoder,
                                 "--target=cpu", "--decoder", other});
    EXPECT_NE(refused.code, 0);
    EXPECT_THAT(refused.err,
                testing::AnyOf(HasSubstr("belong to different models"), HasSubstr("nowhere.onnx")));
  }
}

TEST_F(GenerateTest, CachesMayGrow) {
  for (const auto& options : {std::vector<std::string>(), {"--dim", "past=0..40"}}) {
    const auto plan = compile(options, kModels + "llama_ts.onnx");
    for (const auto& golden : read_json("greedy.json")["llama_ts"])
      EXPECT_EQ(generate(plan, golden["prompt"], golden["tokens"].size())["tokens"],
                golden["tokens"]);
  }
  const auto full = generate(path("plan"), {1, 2, 3}, 60);
  EXPECT_EQ(full["stopped_by"], "context");
  EXPECT_EQ(full["tokens"].size(), 40 - 3 + 1);
}

TEST_F(GenerateTest, ReportsTimesAndBytes) {
  const auto plan = compile();
  const auto golden = read_json("greedy.json")["decoder"][1];
  const auto result =
      sinter({"generate", plan, "--ids", joined(golden["prompt"]), "--max-tokens", "6", "--json"});
  const auto found = json::parse(result.out);
  EXPECT_EQ(found["between_tokens_us"]["runs"], 5);
  EXPECT_GT(found["first_token_us"], 0);
  EXPECT_GT(found["tokens_per_s"], 0);
  EXPECT_GT(found["between_tokens_us"]["p99"], 0);
  // Of the table of embeddings one row is read, of the rest all.
  const double weights = found["weight_bytes_per_token"], caches = found["cache_bytes_per_token"];
  EXPECT_LT(weights, found["weight_bytes"]);
  EXPECT_GT(weights, found["weight_bytes"].get<double>() / 2);
  EXPECT_EQ(found["bytes_per_token"], weights + caches);
  // In the middle of the five runs behind the prompt.
  EXPECT_EQ(caches, 2 * 2 * 2 * (golden["prompt"].size() + 2) * 8 * 4);
  EXPECT_GT(found["share_of_copy_rate"], 0);
  EXPECT_EQ(found["capacity"], golden["prompt"].size() + 5);
  // Blocks of 16 positions, and one of padding; two layers, keys and values, two heads of eight
  // float32.
  EXPECT_EQ(found["cache_bytes"], 3 * 16 * 2 * 2 * 2 * 8 * 4);
  EXPECT_GT(found["kernels_per_token"], 0);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("6 tokens behind 5 of the prompt"), HasSubstr("tokens/s")));
}

TEST_F(GenerateTest, StreamsIdsAndStops) {
  const auto plan = compile();
  const auto golden = read_json("greedy.json")["decoder"][1];
  const auto tokens = golden["tokens"].get<std::vector<int>>();
  const auto all = sinter(
      {"generate", plan, "--ids", joined(golden["prompt"]), "--max-tokens", "3", "--no-rates"});
  EXPECT_EQ(all.out, std::to_string(tokens[0]) + " " + std::to_string(tokens[1]) + " " +
                         std::to_string(tokens[2]) + "\n");
  const auto stopped = generate(plan, golden["prompt"], 24, {"--stop", std::to_string(tokens[5])});
  EXPECT_EQ(stopped["stopped_by"], "stop token");
  EXPECT_EQ(stopped["tokens"].back(), tokens[5]);
  const auto full = generate(plan, golden["prompt"], 24, {"--context", "12"});
  EXPECT_EQ(full["stopped_by"], "context");
  EXPECT_EQ(full["tokens"].size(), 12 - golden["prompt"].size() + 1);
  EXPECT_EQ(full["tokens"], json(std::vector<int>(tokens.begin(), tokens.begin() + 8)));
}

void ignore_interrupt(int) {}

TEST_F(GenerateTest, CtrlCEndsTheText) {
  const auto plan = compile();
  // One that comes too late must not end the tests.
  struct sigaction ignored {};
  struct sigaction before {};
  struct sigaction after {};
  ignored.sa_handler = ignore_interrupt;
  sigaction(SIGINT, &ignored, &before);
  CliResult result;
  json found;
  // At the last token it comes too late to end anything.
  for (int attempt = 0; attempt < 100 && (result.code != 130 || found["tokens"].size() == 60U);
       ++attempt) {
    std::atomic<bool> done = false;
    std::thread user([&done] {  // as soon as the verb waits for it
      struct sigaction now {};
      do {
        sigaction(SIGINT, nullptr, &now);
      } while (now.sa_handler == ignore_interrupt && !done);
      kill(getpid(), SIGINT);
    });
    result = sinter({"generate", plan, "--ids", "1", "--max-tokens", "60", "--no-rates", "--json"});
    done = true;
    user.join();
    found = json::parse(result.out);
  }
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(found["stopped_by"], "interrupt");
  EXPECT_GE(found["tokens"].size(), 1U);
  EXPECT_LT(found["tokens"].size(), 60U);
  sigaction(SIGINT, &before, &after);
  EXPECT_EQ(after.sa_handler, ignore_interrupt);
}

TEST_F(GenerateTest, DrawsWithASeed) {
  const auto plan = compile();
  const auto prompt = read_json("greedy.json")["decoder"][1]["prompt"];
  const auto draw = [&](const char* seed) {
    return generate(plan, prompt, 20,
                    {"--temperature", "5", "--top-k", "50", "--seed", seed})["tokens"];
  };
  EXPECT_EQ(draw("1"), draw("1"));
  EXPECT_NE(draw("1"), draw("2"));
  EXPECT_EQ(generate(plan, prompt, 10, {"--temperature", "3", "--top-k", "1"})["tokens"],
            generate(plan, prompt, 10, {"--greedy"})["tokens"]);
}

TEST_F(GenerateTest, ConstraintsHold) {
  const auto plan = compile();
  json tokenizer = read_json("tokenizers.json")[0]["tokenizer"];
  json vocabulary = json::object();
  for (int i = 0; i < 94; ++i) vocabulary[std::string(1, static_cast<char>('!' + i))] = i;
  vocabulary["\xC4\xA0"] = 94;
  tokenizer["model"]["vocab"] = vocabulary;
  tokenizer["model"]["merges"] = json::array();
  tokenizer["added_tokens"] = json::array({{{"id", 95}, {"content", "<e>"}, {"special", true}}});
  write("tokenizer.json", tokenizer.dump());
  write("schema.json", R"({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2})");
  write("grammar.gbnf", "root ::= \"x\" [0-9]\n");
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {
        "generate",     plan,    "--prompt",      "Hi", "--tokenizer", path("tokenizer.json"),
        "--max-tokens", "60",    "--temperature", "1",  "--seed",      "3",
        "--no-rates",   "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return sinter(words);
  };
  const auto text = [&](const std::vector<std::string>& more) {
    const auto found = json::parse(run(more).out);
    EXPECT_THAT(found["stopped_by"], testing::AnyOf("constraint", "stop token"));
    return found["text"].get<std::string>();
  };
  EXPECT_THAT(text({"--regex", "[a-c]{2,5}"}), testing::MatchesRegex("[a-c]{2,5}"));
  EXPECT_THAT(text({"--choice", "yes", "--choice", "no"}), testing::AnyOf("yes", "no"));
  EXPECT_THAT(text({"--grammar", path("grammar.gbnf")}), testing::MatchesRegex("x[0-9]"));
  EXPECT_TRUE(json::parse(text({"--json-schema", path("schema.json")})).is_array());
  EXPECT_THAT(run({"--regex", "("}).err, HasSubstr("regular expression"));
  EXPECT_THAT(run({"--regex", "a", "--choice", "b"}).err, HasSubstr("contradict"));
  EXPECT_THAT(run({"--grammar", path("nowhere")}).err, HasSubstr("nowhere"));
}

TEST_F(GenerateTest, TextGoesThroughATokenizerAndATemplate) {
  const auto plan = compile();
  // A tokenizer whose ids are those of bytes, as far as the model has tokens; 95 is special.
  json tokenizer = read_json("tokenizers.json")[0]["tokenizer"];
  json vocabulary = json::object();
  for (int i = 0; i < 94; ++i) vocabulary[std::string(1, static_cast<char>('!' + i))] = i;
  vocabulary["\xC4\xA0"] = 94;  // the space
  tokenizer["model"]["vocab"] = vocabulary;
  tokenizer["model"]["merges"] = json::array();
  tokenizer["added_tokens"] = json::array({{{"id", 95}, {"content", "<e>"}, {"special", true}}});
  write("tokenizer.json", tokenizer.dump());
  write("chat.txt", "<e>Q: {prompt} A:");
  const auto ids = [](const std::string& text) {
    json result = json::array();
    for (const char c : text) result.push_back(c == ' ' ? 94 : c - '!');
    return result;
  };
  json prompt = ids("Q: why? A:");
  prompt.insert(prompt.begin(), 95);
  const auto expected = generate(plan, prompt, 12);
  const std::vector<std::string> words = {"generate",     plan,
                                          "--prompt",     "why?",
                                          "--template",   path("chat.txt"),
                                          "--tokenizer",  path("tokenizer.json"),
                                          "--max-tokens", "12",
                                          "--no-rates",   "--no-stop"};
  auto with_json = words;
  with_json.push_back("--json");
  const auto found = json::parse(sinter(with_json).out);
  EXPECT_EQ(found["prompt_tokens"], 11);
  EXPECT_EQ(found["tokens"], expected["tokens"]);
  const auto streamed = sinter(words);
  EXPECT_EQ(streamed.out, found["text"].get<std::string>() + "\n");
  EXPECT_FALSE(found["text"].get<std::string>().empty());
  // By its name, a token stops: the third, wherever it came first.
  const int third = found["tokens"][2];
  const std::string name = third == 95   ? "<e>"
                           : third == 94 ? "\xC4\xA0"
                                         : std::string(1, static_cast<char>('!' + third));
  with_json[with_json.size() - 2] = "--stop";
  with_json.insert(with_json.end() - 1, name);
  const auto stopped = json::parse(sinter(with_json).out);
  EXPECT_EQ(stopped["stopped_by"], "stop token");
  EXPECT_LE(stopped["tokens"].size(), 3U);
  // The tokenizer's own stops stay: one that never comes changes nothing.
  with_json.erase(with_json.end() - 3, with_json.end() - 1);
  const auto by_default = json::parse(sinter(with_json).out);
  with_json.insert(with_json.end() - 1, {"--stop", std::to_string(third == 94 ? 93 : 94)});
  EXPECT_LE(json::parse(sinter(with_json).out)["tokens"].size(), by_default["tokens"].size());
}

/// However tokens are decoded, what comes token by token is the text of --json.
TEST_F(GenerateTest, StreamsTheTextThatItReports) {
  const auto plan = compile();
  for (const char* decoder :
       {"null", R"({"type": "WordPiece", "prefix": "##", "cleanup": true})",
        R"({"type": "Metaspace", "replacement": "x", "prepend_scheme": "always"})",
        R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "x",
            "start": 1, "stop": 1}]})"}) {
    json vocabulary = json::object();
    for (int i = 0; i < 96; ++i) vocabulary["x" + std::to_string(i) + "x"] = i;
    write("tokenizer.json", json{{"model", {{"type", "WordLevel"}, {"vocab", vocabulary}}},
                                 {"decoder", json::parse(decoder)}}
                                .dump());
    std::vector<std::string> words = {"generate",     plan,          "--ids",
                                      "1,2",          "--tokenizer", path("tokenizer.json"),
                                      "--max-tokens", "9",           "--no-rates"};
    const auto streamed = sinter(words).out;
    words.push_back("--json");
    EXPECT_EQ(streamed, json::parse(sinter(words).out)["text"].get<std::string>() + "\n")
        << decoder;
  }
}

TEST_F(GenerateTest, RefusesWhatItCannotDo) {
  // Plans for sessions that a program drives.
  for (const auto& own : std::vector<std::vector<std::string>>{
           {"--serve=off"},
           {"--dim", "capacity=64"},
           {"--entry", "prefill:sequence=2..32", "--entry", "decode:sequence=1"}})
    EXPECT_THAT(sinter({"generate", compile(own), "--ids", "1"}).err,
                HasSubstr("makes of a decoder without --serve=off"));
  const auto plan = compile();
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"generate", plan});
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(error({"--ids", "1,x"}), HasSubstr("'x' is not a token id"));
  EXPECT_THAT(error({"--ids", ","}), HasSubstr("the prompt has no tokens"));
  EXPECT_THAT(error({"--ids", ""}), HasSubstr("the prompt has no tokens"));
  EXPECT_THAT(error({"--ids", "1,-1"}), HasSubstr("'-1' is not a token id"));
  EXPECT_THAT(error({"--ids", "1,96"}),
              HasSubstr("token id 96 is not in the model's vocabulary of 96"));
  EXPECT_THAT(error({"--ids", "1,2,3,4", "--context", "3"}),
              HasSubstr("4 tokens do not fit into caches of 3"));
  EXPECT_THAT(error({"--ids", "1", "--stop", "end"}),
              HasSubstr("--stop 'end' is neither an id nor a token"));
  EXPECT_THAT(error({"--ids", "1", "--temperature", "-2"}), HasSubstr("temperature -2"));
  EXPECT_THAT(error({"--prompt", "text"}), HasSubstr("--tokenizer"));
  EXPECT_THAT(error({}), HasSubstr("option"));
  const auto small = compile_small();
  EXPECT_THAT(sinter({"generate", small, "--ids", "1"}).err,
              HasSubstr("makes of a decoder without --serve=off"));
}

TEST(Prompt, IdsMayBeLongerThanAnyFilesName) {
  tools::PromptOptions options;
  for (int i = 0; i < 3000; ++i) options.ids += std::to_string(i) + ",";
  EXPECT_EQ(tools::prompt_ids(options, nullptr).size(), 3000U);
}

TEST(Prompt, IdsAreReadFromTextAndFiles) {
  EXPECT_EQ(tools::parse_ids("1, 2\n3\t4"), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(tools::parse_ids(" "), (std::vector<std::int64_t>{}));
  EXPECT_THROW(tools::parse_ids("1;2"), Error);
}

}  // namespace
}  // namespace sinter::tests
