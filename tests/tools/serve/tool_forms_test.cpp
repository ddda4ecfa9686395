// SPDX-License-Identifier: Apache-2.0
// Calls of tools over HTTP: each form, asked for by constraint.
#include <sstream>

#include "tests/tools/serve/text_fixture.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

const json kTools = {
    {{"type", "function"},
     {"function",
      {{"name", "look"},
       {"parameters",
        {{"type", "object"},
         {"properties", {{"on", {{"type", "boolean"}}}, {"mode", {{"enum", {"x", "y"}}}}}},
         {"required", {"on", "mode"}},
         {"additionalProperties", false}}}}}},
    {{"type", "function"}, {"function", {{"name", "go"}}}}};

class ServeToolsTest : public ServeCallsTest {
 protected:
  json call_of(const json& more) const {
    json body = {{"tools", kTools},
                 {"tool_choice", {{"type", "function"}, {"function", {{"name", "look"}}}}},
                 {"temperature", 1},
                 {"seed", 5},
                 {"max_tokens", 60},
                 {"logit_bias", bias()}};
    body.update(more);
    return chat(body)["choices"][0];
  }
};

TEST_F(ServeToolsTest, ACallThatIsAskedForComesInEachForm) {
  for (const std::string form :
       {"hermes", "llama3", "mistral", "mistral-named", "gemma", "pythonic", "json", ""}) {
    model_.tool_form = form;  // empty: the template has none, so that it is JSON
    begin();
    for (int seed = 0; seed < 4; ++seed) {
      const json choice = call_of({{"seed", seed}});
      ASSERT_TRUE(choice["message"].contains("tool_calls")) << form << choice;
      EXPECT_EQ(choice["finish_reason"], "tool_calls");
      EXPECT_TRUE(choice["message"]["content"].is_null()) << form << choice;
      ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U);
      const json& call = choice["message"]["tool_calls"][0]["function"];
      EXPECT_EQ(call["name"], "look");
      const json arguments = json::parse(call["arguments"].get<std::string>());
      EXPECT_TRUE(arguments["on"].is_boolean()) << form << arguments;
      EXPECT_TRUE(arguments["mode"] == "x" || arguments["mode"] == "y") << form << arguments;
      EXPECT_EQ(arguments.size(), 2U);
    }
    end();
  }
}

TEST_F(ServeToolsTest, TheFormIsFoundInTheTemplate) {
  write_template("{% if tools %}[TOOL_CALLS] [{% endif %}{{ messages[0].content }}");
  begin();
  EXPECT_EQ(models_.find("tiny")->tool_form()->name, "mistral");
  EXPECT_EQ(call_of(json::object())["message"]["tool_calls"][0]["function"]["name"], "look");
  end();
  model_.tool_form = "smoke";
  try {
    models_.load("other", model_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'smoke' is not a known format"));
    EXPECT_THAT(error.what(), HasSubstr("pythonic"));
  }
}

/// A special token that begins calls is a part of the text, and ends none.
TEST_F(ServeToolsTest, ASpecialTokenMayBeginACall) {
  json special = tokenizer();
  for (json& token : special["added_tokens"])
    if (token["content"] == "[TOOL_CALLS]") token["special"] = true;
  write("tokenizer.json", special.dump());
  write_template("[TOOL_CALLS]{{ messages[0].content }}");
  begin();
  const json choice = chat(
      {{"tools", kTools},
       {"temperature", 0},
       {"max_tokens", 60},
       {"structured_outputs",
        {{"choice", {"[TOOL_CALLS][{\"name\": \"go\"}, {\"name\": \"go\"}]"}}}}})["choices"][0];
  ASSERT_TRUE(choice["message"].contains("tool_calls")) << choice;
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 2U);
  const json one = chat(
      {{"tools", kTools},
       {"temperature", 0},
       {"max_tokens", 60},
       {"parallel_tool_calls", false},
       {"structured_outputs",
        {{"choice", {"[TOOL_CALLS][{\"name\": \"go\"}, {\"name\": \"go\"}]"}}}}})["choices"][0];
  EXPECT_EQ(one["message"]["tool_calls"].size(), 1U) << one;
  // Without tools it is text.
  const json text = chat({{"temperature", 0},
                          {"max_tokens", 60},
                          {"structured_outputs", {{"choice", {"[TOOL_CALLS]x"}}}}})["choices"][0];
  EXPECT_EQ(text["message"]["content"], "[TOOL_CALLS]x");
}

TEST_F(ServeToolsTest, StreamsHaveCallsAsObjects) {
  model_.tool_form = "llama3";
  begin();
  const std::string stream =
      ask("/v1/chat/completions",
          {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
           {"tools", kTools},
           {"tool_choice", {{"type", "function"}, {"function", {{"name", "look"}}}}},
           {"seed", 2},
           {"max_tokens", 60},
           {"logit_bias", bias()},
           {"stream", true}});
  EXPECT_THAT(stream, HasSubstr("\"tool_calls\":[{\"id\":\"call_"));
  EXPECT_THAT(stream, HasSubstr("\"finish_reason\":\"tool_calls\""));
  EXPECT_THAT(stream, testing::Not(HasSubstr("\\\"parameters\\\"")));
}

}  // namespace
}  // namespace sinter::tests
