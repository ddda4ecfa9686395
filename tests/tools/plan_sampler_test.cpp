// SPDX-License-Identifier: Apache-2.0
// `compile --sample`: tokens that plans choose themselves, against NumPy's (goldens/sampler.json).
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/error.h>
#include <sinter/sinter.h>

#include "codegen/compile.h"
#include "codegen/targets/cpu/cpu_target.h"
#include "fusion/append_sampler.h"
#include "fusion/pipeline.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"
#include "tools/compiler/options/sample.h"

namespace sinter::tests {
namespace {

using fusion::SamplerOptions;
using nlohmann::json;
using testing::HasSubstr;

const json& sampler_goldens() {
  static const json all = [] {
    std::ifstream file(source_dir() + "/tests/tools/goldens/sampler.json");
    return json::parse(file);
  }();
  return all;
}

SamplerOptions options_of(const json& golden) {
  SamplerOptions options;
  options.temperature = golden.value("temperature", 0.0);
  options.top_k = golden.value("top_k", std::int64_t{0});
  options.top_p = golden.value("top_p", 1.0);
  return options;
}

/// A model whose logits are an input, and which says what ids it was given.
ir::Graph model(std::size_t vocabulary) {
  const std::string v = std::to_string(vocabulary);
  return ir::parse_graph("graph @main(%input_ids: i64[1, n], %position: i64[1], %x: f32[2, " + v +
                         "]) ranges {n: 1..8} {\n"
                         "  %zero = const f32[] {0}\n  %logits = Add(%x, %zero)\n"
                         "  %none = const i64[] {0}\n  %seen = Add(%input_ids, %none)\n"
                         "  return seen = %seen, logits = %logits\n}\n");
}

/// The model's row of logits behind one that does not count.
ir::Tensor rows_of(const std::vector<double>& logits) {
  std::vector<double> values(logits.size(), 1e9);
  values.insert(values.end(), logits.begin(), logits.end());
  return ir::Tensor::from_doubles(DType::kFloat32, {2, static_cast<std::int64_t>(logits.size())},
                                  values);
}

ir::Tensor integers(std::vector<std::int64_t> shape, std::vector<std::int64_t> values) {
  return ir::Tensor::from_ints(DType::kInt64, std::move(shape), values);
}

/// The sampled graph run again and again, its states carried by hand.
class Steps {
 public:
  Steps(ir::Graph graph, const std::vector<double>& logits, std::uint64_t seed)
      : graph_(std::move(graph)) {
    inputs_ = {integers({1, 1}, {-1}), integers({1}, {5}), rows_of(logits), integers({1}, {3})};
    if (graph_.inputs().size() == 5)
      inputs_.push_back(ir::Tensor::of<std::uint64_t>(DType::kUInt64, {1}, {seed}));
  }

  std::int64_t next() {
    outputs_ = ir::evaluate(graph_, inputs_);
    for (const ir::State& state : graph_.states())
      inputs_[static_cast<std::size_t>(state.input)] =
          outputs_[static_cast<std::size_t>(state.output)];
    return output("token").at_int(0);
  }
  const ir::Tensor& output(const std::string& name) const {
    const auto& names = graph_.output_names();
    return outputs_.at(
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
  }

 private:
  ir::Graph graph_;
  std::vector<ir::Tensor> inputs_, outputs_;
};

std::vector<double> logits_of(const json& golden) {
  std::vector<double> logits;
  if (golden["logits"].empty())  // the script's formula
    for (int i = 0; i < 6000; ++i) logits.push_back(i * 7919 % 10007 % 200 / 8.0);
  for (const auto& value : golden["logits"])
    logits.push_back(value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>());
  return logits;
}

TEST(PlanSampler, TheReferenceChoosesNumpysTokens) {
  for (const json& golden : sampler_goldens()["cases"]) {
    const auto logits = logits_of(golden);
    Steps steps(fusion::append_sampler(model(logits.size()), options_of(golden["options"])), logits,
                golden["seed"]);
    for (const auto& token : golden["tokens"])
      ASSERT_EQ(steps.next(), token) << golden["name"] << " " << golden["options"];
  }
}

TEST(PlanSampler, APlanForTheCpuChoosesThemToo) {
  std::map<std::string, Plan> plans;
  for (const json& golden : sampler_goldens()["cases"]) {
    const auto logits = logits_of(golden);
    const std::string key = std::to_string(logits.size()) + golden["options"].dump();
    auto plan = plans.find(key);
    if (plan == plans.end()) {
      fusion::Context context;
      context.target = codegen::cpu_target().traits();
      const ir::Graph sampled =
          fusion::append_sampler(model(logits.size()), options_of(golden["options"]));
      const auto compiled = codegen::compile(fusion::run_pipeline(sampled, context).graph, {});
      plan = plans.emplace(key, Plan::from_memory(plan::serialize_plan(compiled.parts))).first;
    }
    Session session(plan->second, {.threads = 1});
    const auto rows = rows_of(logits);
    const std::int64_t first[] = {4, 6, 5}, fed_back[] = {-1};
    session.set_input("x", {rows.dtype(), rows.shape(), rows.bytes().data(), Memory::kHost});
    if (golden["options"].size() > 0) {
      const std::uint64_t seed = golden["seed"];
      session.set_input("random_state", {DType::kUInt64, {1}, &seed, Memory::kHost});
    }
    // A prompt of three tokens, then the token that was chosen, again and again.
    session.set_input("input_ids", {DType::kInt64, {1, 3}, first, Memory::kHost});
    std::int64_t position = 3, last = 0;
    for (const auto& token : golden["tokens"]) {
      session.run();
      EXPECT_EQ(session.output("next_position").as<std::int64_t>()[0], position++);
      if (position > 4) {
        EXPECT_EQ(session.output("seen").as<std::int64_t>()[0], last);
      }
      last = session.output("token").as<std::int64_t>()[0];
      ASSERT_EQ(last, token) << golden["name"] << " " << golden["options"];
      if (position == 4)
        session.set_input("input_ids", {DType::kInt64, {1, 1}, fed_back, Memory::kHost});
    }
  }
}

TEST(PlanSampler, DrawsAreDistributedAsTheLogitsSay) {
  constexpr int kDraws = 3000;
  for (const json& share : sampler_goldens()["shares"]) {
    const auto logits = logits_of(share);
    Steps steps(fusion::append_sampler(model(logits.size()), options_of(share["options"])), logits,
                1234);
    std::vector<int> counts(logits.size());
    for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<std::size_t>(steps.next()));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const double p = share["probabilities"][i];
      // Five standard deviations; what is left out is never drawn.
      EXPECT_NEAR(counts[i], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)))
          << share["options"] << " token " << i;
    }
  }
}

TEST(PlanSampler, SaysWhatItCannotDo) {
  const auto error = [](const std::string& text, SamplerOptions options = {}) {
    try {
      fusion::append_sampler(ir::parse_graph(text), options);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto graph = [](const std::string& inputs, const std::string& logits = "%x",
                        const std::string& name = "logits") {
    return "graph @main(" + inputs + ") {\n  return " + name + " = " + logits + "\n}\n";
  };
  EXPECT_THAT(error(graph("%ids: i64[1, 2], %x: f32[1, 4]")),
              HasSubstr("no input 'input_ids'; it has 'ids', 'x'. Name it with ids=NAME"));
  EXPECT_THAT(error(graph("%input_ids: i64[1, 2], %x: f32[1, 4]", "%x", "y")),
              HasSubstr("no output 'logits'; it has 'y'. Name it with logits=NAME"));
  SamplerOptions elsewhere;
  elsewhere.position = {"place"};
  EXPECT_THAT(error(graph("%input_ids: i64[1, 2], %x: f32[1, 4]"), elsewhere),
              HasSubstr("no input 'place'; it has 'input_ids', 'x'. Name it with position=NAME"));
  EXPECT_THAT(error(graph("%input_ids: i64[b, 2], %x: f32[1, 4]")), HasSubstr("--dim b=1"));
  EXPECT_THAT(error(graph("%input_ids: f32[1, 2], %x: f32[1, 4]")), HasSubstr("not i64 or i32"));
  EXPECT_THAT(error(graph("%input_ids: i64[1, 2], %x: f32[1, v]")),
              HasSubstr("a constant vocabulary"));
  EXPECT_THAT(error(graph("%input_ids: i64[1, 2], %x: i64[1, 4]")), HasSubstr("not floats"));
  EXPECT_THAT(error(graph("%input_ids: i64[1, 2], %x: f32[1, 4], %sampled_token: i64[1]")),
              HasSubstr("has an input or output 'sampled_token' already"));
  SamplerOptions wrong;
  wrong.temperature = -1;
  EXPECT_THAT(error(graph("%input_ids: i64[1, 2], %x: f32[1, 4]"), wrong),
              HasSubstr("temperature -1"));
}

TEST(SampleOption, IsReadAndWritten) {
  const auto text = [](const char* option) { return tools::to_text(parse_sample(option)); };
  EXPECT_EQ(text("greedy"), "greedy");
  EXPECT_EQ(text("top_k=40"), "top_k=40,temperature=1");
  EXPECT_EQ(text("temperature=0.7,top_p=0.9,top_k=40"), "top_k=40,top_p=0.9,temperature=0.7");
  const auto named = parse_sample("greedy,ids=a,position=b,logits=c,keep_logits");
  EXPECT_EQ(named.ids + named.position.at(0) + named.logits, "abc");
  EXPECT_TRUE(named.keep_logits);
  for (const char* wrong :
       {"", "temperature=0", "temperature=-1", "temperature=nan", "temperature=inf", "top_k=0",
        "top_k=1.5", "top_p=0", "top_p=1.1", "greedy,top_k=1", "best", "ids=", "keep_logits"})
    EXPECT_THROW(parse_sample(wrong), Error) << wrong;
}

class SampledPlan : public CliTest {
 protected:
  std::string compile(const std::string& sample, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"compile",      source_dir() + "/models/tiny/decoder.onnx",
                                      "-o",           path("plan"),
                                      "--target=cpu", "--sample",
                                      sample};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return path("plan");
  }
  json generate(std::vector<std::string> words) {
    words.insert(words.begin(), {"generate", path("plan"), "--no-rates", "--json"});
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? json::parse(result.out) : json();
  }
};

TEST_F(SampledPlan, GreedyTokensAreThoseOfTheHost) {
  std::ifstream file(source_dir() + "/tests/tools/goldens/greedy.json");
  const json greedy = json::parse(file);
  for (const auto& options :
       std::vector<std::vector<std::string>>{{}, {"--dim", "sequence=1..4"}}) {
    compile("greedy", options);
    for (const auto& golden : greedy["decoder"]) {
      std::string prompt;
      for (const auto& id : golden["prompt"]) prompt += id.dump() + ",";
      const auto found = generate(
          {"--ids", prompt, "--max-tokens", std::to_string(golden["tokens"].size()), "--greedy"});
      EXPECT_EQ(found["tokens"], golden["tokens"]);
      EXPECT_EQ(found["sampler"], "greedy");
      EXPECT_EQ(found["feeds_itself"], true);
    }
  }
}

TEST_F(SampledPlan, DrawsWithASeed) {
  compile("top_k=50,top_p=0.99,temperature=5");
  const auto draw = [&](const char* seed) {
    return generate({"--ids", "1,2,3", "--max-tokens", "20", "--seed", seed})["tokens"];
  };
  EXPECT_EQ(draw("1"), draw("1"));
  EXPECT_NE(draw("1"), draw("2"));
}

TEST_F(SampledPlan, RefusesWhatTheHostWouldChooseOtherwise) {
  compile("top_k=5,temperature=0.5");
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"generate", path("plan"), "--ids", "1", "--max-tokens", "2"});
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(error({"--greedy"}), HasSubstr("--greedy says otherwise than the plan, which chooses "
                                             "tokens itself (top_k=5,temperature=0.5)"));
  EXPECT_THAT(error({"--temperature", "0.6"}), HasSubstr("--temperature says otherwise"));
  EXPECT_THAT(error({"--top-k", "4"}), HasSubstr("--top-k says otherwise"));
  EXPECT_THAT(error({"--top-p", "0.5"}), HasSubstr("--top-p says otherwise"));
  generate({"--ids", "1", "--max-tokens", "2", "--temperature", "0.5", "--top-k", "5"});
  compile("greedy");
  EXPECT_THAT(error({"--seed", "3"}), HasSubstr("--seed says otherwise"));
}

TEST_F(SampledPlan, IsVerifiedAgainstTheModelWithItsSampler) {
  const auto result =
      sinter({"verify", source_dir() + "/models/tiny/decoder.onnx", "--target=cpu", "--sample",
              "greedy,keep_logits", "--shapes", "input_ids:1x3,past_key_0:1x2x8x8"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, testing::AllOf(HasSubstr("token"), HasSubstr("logits")));
}

}  // namespace
}  // namespace sinter::tests
