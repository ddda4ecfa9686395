// SPDX-License-Identifier: Apache-2.0
// A decoder compiles to one plan: a conversation, single texts, many requests, the server and C
// give the same texts with it.
#include <iostream>
#include <sstream>

#include <sinter/sinter_c.h>

#include "runtime/engine/executors/paged_executor.h"
#include "tests/runtime/api/c_program.h"
#include "tests/tools/generate/tiny_decoder.h"
#include "tests/tools/serve/text_fixture.h"
#include "tools/serve/add_serve.h"

namespace sinter::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OnePlanTest : public ServeTextTest {
 protected:
  void SetUp() override {
    ServeTextTest::SetUp();
    const auto compiled = sinter({"compile", kTinyDecoder, "-o", path("plan"), "--target=cpu"});
    ASSERT_EQ(compiled.code, 0) << compiled.err;
    said_ = compiled.err;
    write_template(
        "{% for m in messages %}{% if loop.index0 >= messages|length - 2 %}{{ m.content }};"
        "{% endif %}{% endfor %}");
  }
  json run(std::vector<std::string> words, const std::string& input = "",
           const std::string& verb = "generate") {
    words.insert(words.begin(), {"sinter", verb, path("plan")});
    words.insert(words.end(), {"--tokenizer", model_.tokenizer, "--max-tokens=6", "--json"});
    std::istringstream lines(input);
    std::streambuf* const before = std::cin.rdbuf(lines.rdbuf());
    std::cin.clear();
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    constexpr tools::AddVerb kMore[] = {[](tools::Cli& cli) { add_serve(cli, nullptr); }};
    const int code = tools::run_cli(static_cast<int>(arguments.size()), arguments.data(), kMore);
    const std::string out = testing::internal::GetCapturedStdout();
    const std::string err = testing::internal::GetCapturedStderr();
    std::cin.rdbuf(before);
    EXPECT_EQ(code, 0) << err;
    return code == 0 ? json::parse(out) : json();
  }
  std::string said_;
};

TEST_F(OnePlanTest, AllClientsGiveTheSameTexts) {
  EXPECT_THAT(said_, AllOf(HasSubstr("is a decoder"), HasSubstr("--serve=off")));
  EXPECT_TRUE(engine::PagedExecutor::takes(Plan::load(path("plan"))));
  std::string asked;
  for (int turn = 0; turn < 10; ++turn) asked += "why " + std::to_string(turn) + "\n";
  const json turns = run({"--context=64"}, asked, "chat")["turns"];
  ASSERT_EQ(turns.size(), 10U);

  // Each answer is that of its messages alone.
  std::vector<std::string> prompts;
  std::string lines, before;
  for (int turn = 0; turn < 10; ++turn) {
    const std::string question = "why " + std::to_string(turn);
    prompts.push_back(turn == 0 ? question + ";" : before + ";" + question + ";");
    before = turns[static_cast<std::size_t>(turn)]["text"];
    lines += json{{"prompt", prompts.back()}}.dump() + "\n";
  }
  const json many = run({"--requests", write("lines", lines), "--no-rates"})["answers"];
  begin();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    SCOPED_TRACE(prompts[i]);
    const json one = run({"--prompt", prompts[i], "--no-rates"});
    EXPECT_EQ(one["tokens"], turns[i]["tokens"]);
    EXPECT_EQ(many[i]["tokens"], turns[i]["tokens"]);
    const json served =
        post({{"model", "tiny"}, {"prompt", prompts[i]}, {"max_tokens", 6}, {"temperature", 0}});
    EXPECT_EQ(served["choices"][0]["text"], turns[i]["text"]);
  }
  const auto prompt = greedy()[1]["prompt"].get<std::vector<int>>();
  const auto tokens = greedy()[1]["tokens"].get<std::vector<int>>();
  EXPECT_EQ(sinter_test_c_engine(path("plan").c_str(), prompt.data(), prompt.size(), tokens.data()),
            0)
      << "the line of c_engine.c; " << sinter_last_error();
}

TEST_F(OnePlanTest, WhatIsNoDecoderStaysAsItIs) {
  const auto compile = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compile", kTinyDecoder, "-o", path("other"), "--target=cpu"});
    const auto result = sinter(more);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_FALSE(engine::PagedExecutor::takes(Plan::load(path("other"))));
    return result.err;
  };
  using testing::Not;
  EXPECT_THAT(compile({"--serve=off"}), Not(HasSubstr("decoder")));
  // The model's own inputs are asked for.
  compile({"--state", "none"});
  compile({"--dim", "capacity=64"});
  compile({"--entry", "prefill:sequence=2..32", "--entry", "decode:sequence=1"});
  compile({"--verify", "--shapes", "input_ids:1x3,past_key_0:1x2x16x8"});
  // Caches and tokens are there, and their plan cannot be paged: it is said why.
  onnx::ModelProto model;
  std::ifstream file(kTinyDecoder, std::ios::binary);
  ASSERT_TRUE(model.ParseFromIstream(&file));
  auto* most = model.mutable_graph()->add_node();
  most->set_op_type("ReduceMax");
  most->set_name("most"), most->add_input("logits"), most->add_output("extra");
  auto* keep = most->add_attribute();
  keep->set_name("keepdims"), keep->set_type(onnx::AttributeProto::INT), keep->set_i(0);
  auto* extra = model.mutable_graph()->add_output();
  extra->set_name("extra");
  extra->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  extra->mutable_type()->mutable_tensor_type()->mutable_shape();
  const auto refused = sinter({"compile", save(model), "-o", path("other"), "--target=cpu"});
  EXPECT_EQ(refused.code, 0) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("'extra'"));
  EXPECT_FALSE(engine::PagedExecutor::takes(Plan::load(path("other"))));
}

}  // namespace
}  // namespace sinter::tests
