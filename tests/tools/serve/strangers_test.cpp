// SPDX-License-Identifier: Apache-2.0
// What a client sends to harm others is refused by its field's name, and the server answers on.
#include <chrono>
#include <fstream>

#include "runtime/sandbox/sandbox.h"
#include "tests/tools/serve/serve_fixture.h"
#include "tests/tools/tiny_tokenizer.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

class ServeStrangersTest : public ServeTest {
 protected:
  void SetUp() override {
    sandbox::start();
    ServeTest::SetUp();
    model_.tokenizer = path("tokenizer.json");
    std::ofstream(model_.tokenizer) << tiny_tokenizer();
    use_template("{% for m in messages %}{{ m.content }}{% endfor %}");
  }
  void use_template(const std::string& text) const {
    std::ofstream(path("tokenizer_config.json")) << json{{"chat_template", text}};
  }
  std::string said(const std::string& path, const std::string& body, int status = 400) const {
    const auto answer = client().Post(path, body, "application/json");
    EXPECT_TRUE(answer) << to_string(answer.error());
    if (!answer) return "";
    EXPECT_EQ(answer->status, status) << answer->body.substr(0, 300);
    return answer->body.substr(0, 1000);
  }
  std::string chat(const std::string& body, int status = 400) const {
    return said("/v1/chat/completions", body, status);
  }
  std::string complete(const json& fields, int status = 400) const {
    json body = {{"prompt", "A"}, {"max_tokens", 2}};
    body.update(fields);
    return said("/v1/completions", body.dump(), status);
  }
  void expect_lives() const { complete(json::object(), 200); }
};

std::string repeated(const std::string& text, int count) {
  std::string result;
  while (count-- > 0) result += text;
  return result;
}

TEST_F(ServeStrangersTest, JsonIsReadWithinLimits) {
  begin();
  const std::string deep = repeated("[", 100000) + repeated("]", 100000);
  const auto with_arguments = [](const std::string& arguments) {
    return json{{"messages",
                 {{{"role", "assistant"},
                   {"content", ""},
                   {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", arguments}}}}}}},
                  {{"role", "user"}, {"content", "A"}}}},
                {"max_tokens", 2}}
        .dump();
  };
  EXPECT_THAT(chat(with_arguments("{\"a\":" + deep + "}")), HasSubstr("nested too deep"));
  EXPECT_THAT(chat(with_arguments(R"({"a": 1, "a": 2})")), HasSubstr("twice"));
  EXPECT_THAT(chat("{\"messages\": " + deep + "}"), HasSubstr("nested too deep"));
  EXPECT_THAT(chat(R"({"messages": [], "messages": []})"), HasSubstr("'messages' twice"));
  std::string keys;
  for (int i = 0; i < 100000; ++i) keys += ",\"k" + std::to_string(i) + "\":0";
  const auto start = std::chrono::steady_clock::now();
  auto patient = client();
  patient.set_read_timeout(60);
  const auto answer = patient.Post(
      "/v1/chat/completions",
      R"({"messages": [{"role": "user", "content": "A")" + keys + R"(}], "max_tokens": 2})",
      "application/json");
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->status == 200 || answer->status == 400);
  // It took minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  expect_lives();
}

TEST_F(ServeStrangersTest, FieldsHaveLimits) {
  begin();
  EXPECT_THAT(complete({{"stop", std::vector<std::string>(65, "a")}}), HasSubstr("64 at most"));
  EXPECT_THAT(complete({{"stop", std::string(1025, 'a')}}), HasSubstr("1024 at most"));
  json biases = json::object();
  for (int i = 0; i < 4097; ++i) biases[std::to_string(i)] = 1;
  EXPECT_THAT(complete({{"logit_bias", biases}}), HasSubstr("4096 at most"));
  EXPECT_THAT(complete({{"guided_choice", std::vector<std::string>(4097, "a")}}),
              HasSubstr("4096 at most"));
  EXPECT_THAT(complete({{"guided_json", {{"enum", {std::string(70000, 'a')}}}}}),
              HasSubstr("65536 bytes"));
  EXPECT_THAT(complete({{std::string(10000, 'x'), 1}}), HasSubstr("is not known"));
  json messages = json::array();
  for (int i = 0; i < 8193; ++i) messages.push_back({{"role", "user"}, {"content", ""}});
  EXPECT_THAT(chat(json{{"messages", messages}}.dump()), HasSubstr("8192 at most"));
}

TEST_F(ServeStrangersTest, ConstraintsThatHarmAreRefusedByTheirField) {
  begin();
  for (const std::string& pattern :
       {repeated("(", 31000) + "a" + repeated(")", 31000),
        repeated("(a|", 15500) + "b" + repeated(")", 15500), "a" + repeated("*", 20000)}) {
    EXPECT_THAT(complete({{"guided_regex", pattern}}), HasSubstr("'guided_regex' cannot be had"));
    EXPECT_THAT(complete({{"guided_json", {{"type", "string"}, {"pattern", pattern}}}}),
                HasSubstr("'guided_json' cannot be had"));
    EXPECT_THAT(
        complete({{"guided_json", {{"type", "object"}, {"patternProperties", {{pattern, true}}}}}}),
        HasSubstr("'guided_json' cannot be had"));
    EXPECT_THAT(complete({{"guided_json",
                           {{"type", "object"}, {"propertyNames", {{"pattern", pattern}}}}}}),
                HasSubstr("'guided_json' cannot be had"));
  }
  EXPECT_THAT(complete({{"guided_grammar",
                         "root ::= " + repeated("(", 30000) + "\"a\"" + repeated(")", 30000)}}),
              HasSubstr("'guided_grammar' cannot be had"));
  for (const char* schema :
       {R"({"type": "string", "pattern": "^(?!a)b$"})",
        R"({"oneOf": [{"type": "integer", "minimum": 0}, {"type": "integer", "maximum": 9}]})"}) {
    const std::string message = complete({{"guided_json", json::parse(schema)}});
    EXPECT_THAT(message, testing::Not(HasSubstr("ignor")));
  }
  expect_lives();
}

TEST_F(ServeStrangersTest, TemplatesThatHarmAreRefused) {
  for (const char* text : {"{{ 1//0 }}", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
                           "{% for i in range(1000000000) %}a{% endfor %}"}) {
    use_template(text);
    begin();
    EXPECT_THAT(chat(R"({"messages": [{"role": "user", "content": "A"}], "max_tokens": 2})"),
                HasSubstr("the chat template"))
        << text;
    expect_lives();
    end();
    models_.unload("tiny");
  }
}

}  // namespace
}  // namespace sinter::tests
