// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses: texts, calls, typed events.
#include <sstream>

#include "tests/tools/serve/text_fixture.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

const json kGo = {{{"type", "function"},
                   {"name", "go"},
                   {"parameters",
                    {{"type", "object"},
                     {"properties", {{"to", {{"enum", {"a", "b"}}}}}},
                     {"required", {"to"}}}}}};

class ServeResponsesTest : public ServeCallsTest {
 protected:
  json respond(const json& body, int status = 200) const {
    return ask_json("/v1/responses", body, status);
  }
  std::string refused(const json& body) const { return refusal_at("/v1/responses", body); }
  /// Names and data.
  std::vector<std::pair<std::string, json>> events(json body) const {
    body["stream"] = true;
    std::istringstream lines(ask("/v1/responses", body));
    std::vector<std::pair<std::string, json>> result;
    std::string name;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("event: ")) name = line.substr(7);
      if (!line.starts_with("data: ")) continue;
      result.emplace_back(name, json::parse(line.substr(6)));
      EXPECT_EQ(result.back().second["type"], name);
      EXPECT_EQ(result.back().second["sequence_number"], result.size() - 1);
    }
    return result;
  }
};

TEST_F(ServeResponsesTest, TextsAreThoseOfTheConversation) {
  write_template("{% for m in messages %}{{ m.role }}:{{ m.content }}.{% endfor %}");
  begin();
  const json talk =
      chat({{"messages",
             {{{"role", "system"}, {"content", "be"}}, {{"role", "user"}, {"content", "Hi"}}}},
            {"max_tokens", 8},
            {"temperature", 0},
            {"ignore_eos", true}});
  const json said = respond({{"model", "tiny"},
                             {"instructions", "be"},
                             {"input", "Hi"},
                             {"max_output_tokens", 8},
                             {"temperature", 0},
                             {"ignore_eos", true}});
  EXPECT_EQ(said["object"], "response");
  EXPECT_EQ(said["status"], "incomplete");
  EXPECT_EQ(said["incomplete_details"]["reason"], "max_output_tokens");
  ASSERT_EQ(said["output"].size(), 1U);
  EXPECT_EQ(said["output"][0]["type"], "message");
  EXPECT_EQ(said["output"][0]["content"][0]["text"], talk["choices"][0]["message"]["content"]);
  EXPECT_EQ(said["usage"]["input_tokens"], talk["usage"]["prompt_tokens"]);
  EXPECT_EQ(said["usage"]["output_tokens"], 8);
  EXPECT_EQ(said["instructions"], "be");
  EXPECT_EQ(said["store"], false);
  // Items are messages; a call and its output, too.
  const json items = respond(
      {{"input",
        {{{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", "Hi"}}}}},
         {{"type", "function_call"}, {"call_id", "c1"}, {"name", "go"}, {"arguments", "{}"}},
         {{"type", "function_call_output"}, {"call_id", "c1"}, {"output", "done"}},
         {{"type", "message"},
          {"role", "assistant"},
          {"content", {{{"type", "output_text"}, {"text", "so"}}}}}}},
       {"max_output_tokens", 3}});
  const std::string prompt = "user:Hi.assistant:.tool:done.assistant:so.";
  EXPECT_EQ(items["usage"]["input_tokens"], prompt.size());
}

TEST_F(ServeResponsesTest, EventsMakeTheResponse) {
  begin();
  const json body = {
      {"input", "Hi"}, {"max_output_tokens", 8}, {"temperature", 0}, {"ignore_eos", true}};
  const json whole = respond(body);
  const auto all = events(body);
  ASSERT_GT(all.size(), 8U);
  std::string text;
  for (const auto& [name, event] : all)
    if (name == "response.output_text.delta") text += event["delta"].get<std::string>();
  EXPECT_EQ(text, whole["output"][0]["content"][0]["text"]);
  std::vector<std::string> names;
  for (const auto& [name, event] : all)
    if (names.empty() || names.back() != name) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "response.created", "response.in_progress", "response.output_item.added",
                       "response.content_part.added", "response.output_text.delta",
                       "response.output_text.done", "response.content_part.done",
                       "response.output_item.done", "response.incomplete"}));
  EXPECT_EQ(all.back().second["response"]["output"][0]["content"], whole["output"][0]["content"]);
  EXPECT_EQ(all.back().second["response"]["usage"], whole["usage"]);
}

TEST_F(ServeResponsesTest, FunctionsAreCalledAndTextsAreAsTheSchemaHasThem) {
  begin();
  const json body = {{"input", "Hi"},        {"tools", kGo}, {"tool_choice", "required"},
                     {"logit_bias", bias()}, {"seed", 3},    {"max_output_tokens", 60}};
  const json said = respond(body);
  EXPECT_EQ(said["status"], "completed");
  ASSERT_EQ(said["output"].size(), 1U) << said;
  const json& call = said["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "go");
  const json arguments = json::parse(call["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["to"] == "a" || arguments["to"] == "b");
  const auto all = events(body);
  EXPECT_EQ(all.back().first, "response.completed");
  bool has_arguments = false;
  for (const auto& [name, event] : all)
    if (name == "response.function_call_arguments.done") {
      has_arguments = true;
      EXPECT_EQ(event["arguments"], call["arguments"]);
    }
  EXPECT_TRUE(has_arguments);
  json named = body;
  named["tool_choice"] = {{"type", "function"}, {"name", "go"}};
  EXPECT_EQ(respond(named)["output"][0]["name"], "go");
  nlohmann::ordered_json form = {
      {"type", "json_schema"},
      {"name", "thing"},
      {"strict", true},
      {"schema",
       {{"type", "object"},
        {"properties", {{"z", {{"enum", {1, 2}}}}, {"a", {{"type", "boolean"}}}}},
        {"required", {"z", "a"}},
        {"additionalProperties", false}}}};
  nlohmann::ordered_json asked = {{"input", "Hi"}, {"seed", 1}, {"max_output_tokens", 60}};
  asked["logit_bias"] = bias();
  asked["text"]["format"] = std::move(form);
  const auto answer = client().Post("/v1/responses", asked.dump(), "application/json");
  ASSERT_EQ(answer->status, 200) << answer->body;
  const json formed = json::parse(answer->body);
  EXPECT_EQ(formed["status"], "completed");
  const std::string text = formed["output"][0]["content"][0]["text"];
  EXPECT_TRUE(json::parse(text)["a"].is_boolean()) << text;
  EXPECT_LT(text.find("\"z\""), text.find("\"a\"")) << "properties have the schema's order";
}

TEST_F(ServeResponsesTest, RefusalsNameTheFieldsOfThisForm) {
  begin();
  EXPECT_THAT(refused(json::object()), HasSubstr("'input' is missing"));
  EXPECT_THAT(refused({{"input", "a"}, {"store", true}}), HasSubstr("'store'"));
  EXPECT_THAT(refused({{"input", "a"}, {"previous_response_id", "resp_1"}}),
              HasSubstr("'previous_response_id' is not supported: nothing is stored"));
  EXPECT_THAT(refused({{"input", "a"}, {"messages", json::array()}}),
              HasSubstr("'messages' is not known"));
  EXPECT_THAT(refused({{"input", "a"}, {"max_output_tokens", 0}}),
              HasSubstr("'max_output_tokens' is 0"));
  EXPECT_THAT(refused({{"input", "a"}, {"text", {{"format", {{"type", "xml"}}}}}}),
              HasSubstr("'text'"));
  EXPECT_THAT(refused({{"input", "a"}, {"tools", {{{"type", "web_search"}}}}}),
              HasSubstr("only functions"));
  EXPECT_THAT(refused({{"input", {{{"type", "item_reference"}, {"id", "x"}}}}}),
              HasSubstr("item_reference"));
  EXPECT_THAT(refused({{"input", "a"}, {"truncation", "auto"}}), HasSubstr("'truncation'"));
  EXPECT_THAT(refused({{"input", "a"}, {"background", true}}), HasSubstr("'background'"));
  EXPECT_THAT(refused({{"input", {{{"role", "user"}, {"content", {{{"type", "input_image"}}}}}}}}),
              HasSubstr("input_image"));
}

}  // namespace
}  // namespace sinter::tests
