// `sinter generate` over a tiny decoder with random weights (models/build_llama.py --random).
#include <fstream>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "tests/tools/cli_fixture.h"
#include "tools/support/prompt.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kModel = SINTER_SOURCE_DIR "/models/tiny/decoder.onnx";
constexpr const char* kGoldens = SINTER_SOURCE_DIR "/tests/tools/goldens/";

json read_json(const std::string& name) {
  std::ifstream file(kGoldens + name);
  return json::parse(file);
}

std::string joined(const json& ids) {
  std::string text;
  for (const auto& id : ids) text += (text.empty() ? "" : ",") + id.dump();
  return text;
}

class GenerateTest : public CliTest {
 protected:
  std::string compile(const std::vector<std::string>& options = {}) {
    std::vector<std::string> words = {"compile", kModel, "-o", path("plan"), "--target=cpu"};
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

TEST_F(GenerateTest, GreedyTokensAreThoseOfNumpy) {
  const auto cases = read_json("greedy.json");
  ASSERT_EQ(cases.size(), 3U);
  // Any prompt and context; a context that the plan is made for; few tokens at a time.
  for (const auto& options : std::vector<std::vector<std::string>>{
           {}, {"--dim", "capacity=64"}, {"--dim", "sequence=1..4"}, {"--dim", "sequence=1"}}) {
    const auto plan = compile(options);
    for (const auto& golden : cases) {
      const auto found = generate(plan, golden["prompt"], golden["tokens"].size());
      EXPECT_EQ(found["tokens"], golden["tokens"]);
      EXPECT_EQ(found["stopped_by"], "max tokens");
      EXPECT_EQ(found["prompt_tokens"], golden["prompt"].size());
    }
  }
}

TEST_F(GenerateTest, ReportsTimesAndBytes) {
  const auto plan = compile();
  const auto golden = read_json("greedy.json")[1];
  const auto result =
      sinter({"generate", plan, "--ids", joined(golden["prompt"]), "--max-tokens", "6", "--json"});
  const auto found = json::parse(result.out);
  EXPECT_EQ(found["between_tokens_us"]["runs"], 5);
  EXPECT_GT(found["first_token_us"], 0);
  EXPECT_GT(found["tokens_per_s"], 0);
  EXPECT_GT(found["bytes_per_token"], found["weight_bytes"].get<double>() / 2);
  EXPECT_GT(found["share_of_copy_rate"], 0);
  EXPECT_EQ(found["capacity"], golden["prompt"].size() + 5);
  EXPECT_EQ(found["cache_bytes"], 4 * 2 * (golden["prompt"].size() + 5) * 8 * 4);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("6 tokens behind 5 of the prompt"), HasSubstr("tokens/s")));
}

TEST_F(GenerateTest, StreamsIdsAndStops) {
  const auto plan = compile();
  const auto golden = read_json("greedy.json")[1];
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

TEST_F(GenerateTest, DrawsWithASeed) {
  const auto plan = compile();
  const auto prompt = read_json("greedy.json")[1]["prompt"];
  const auto draw = [&](const char* seed) {
    return generate(plan, prompt, 20,
                    {"--temperature", "5", "--top-k", "50", "--seed", seed})["tokens"];
  };
  EXPECT_EQ(draw("1"), draw("1"));
  EXPECT_NE(draw("1"), draw("2"));
  EXPECT_EQ(generate(plan, prompt, 10, {"--temperature", "3", "--top-k", "1"})["tokens"],
            generate(plan, prompt, 10, {"--greedy"})["tokens"]);
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
}

TEST_F(GenerateTest, RefusesWhatItCannotDo) {
  const auto plan = compile();
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"generate", plan});
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(error({"--ids", "1,x"}), HasSubstr("'x' is not a token id"));
  EXPECT_THAT(error({"--ids", ","}), HasSubstr("the prompt has no tokens"));
  EXPECT_THAT(error({"--ids", "1,2,3,4", "--context", "3"}),
              HasSubstr("4 tokens behind 0 do not fit into caches of 3"));
  EXPECT_THAT(
      error({"--ids", "1", "--ids-input", "ids"}),
      HasSubstr("the plan has no input 'ids'; it has 'input_ids', 'position', 'past_key_0'"));
  EXPECT_THAT(error({"--ids", "1", "--stop", "end"}),
              HasSubstr("--stop 'end' is neither an id nor a token"));
  EXPECT_THAT(error({"--ids", "1", "--state", "past_key_0"}), HasSubstr("is not INPUT=OUTPUT"));
  EXPECT_THAT(error({"--ids", "1", "--temperature", "-2"}), HasSubstr("temperature -2"));
  EXPECT_THAT(error({"--prompt", "text"}), HasSubstr("--tokenizer"));
  EXPECT_THAT(error({}), HasSubstr("option"));
  const auto small = compile_small();
  EXPECT_THAT(sinter({"generate", small, "--ids", "1"}).err,
              HasSubstr("no input 'input_ids'; it has 'x'"));
}

TEST(Prompt, IdsAreReadFromTextAndFiles) {
  EXPECT_EQ(tools::parse_ids("1, 2\n3\t4"), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(tools::parse_ids(" "), (std::vector<std::int64_t>{}));
  EXPECT_THROW(tools::parse_ids("1;2"), Error);
}

}  // namespace
}  // namespace sinter::tests
