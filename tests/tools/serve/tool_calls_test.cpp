// SPDX-License-Identifier: Apache-2.0
// Calls of tools in the text of a model: whole, in pieces, and what only looks like one.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/serve/api/api_error.h"
#include "tools/serve/openai/messages.h"
#include "tools/serve/tool_calls/tool_call_stream.h"

namespace sinter::tests {
namespace {

using nlohmann::ordered_json;
using tools::ToolCallSplitter;

/// "said|name arguments|..", by pieces of `size` bytes.
std::string split(const std::string& form, std::string_view text, std::size_t size) {
  ToolCallSplitter splitter(*tools::find_tool_form(form));
  std::string said, calls;
  const auto take = [&](const ToolCallSplitter::Piece& piece) {
    said += piece.text;
    for (const auto& [name, arguments] : piece.calls) calls += "|" + name + " " + arguments;
  };
  for (std::size_t at = 0; at < text.size(); at += size) take(splitter.add(text.substr(at, size)));
  take(splitter.finish());
  return said + calls;
}

void expect_split(const std::string& form, std::string_view text, const std::string& expected) {
  for (const std::size_t size : {1U, 2U, 3U, 7U, 1000U})
    EXPECT_EQ(split(form, text, size), expected) << form << ", by pieces of " << size;
}
void expect_split(std::string_view text, const std::string& expected) {
  expect_split("hermes", text, expected);
}

TEST(ToolCalls, AreTakenOutOfTheText) {
  expect_split("no calls, a < b, <tool>  \n", "no calls, a < b, <tool>  \n");
  expect_split(R"(<tool_call>
{"name": "f", "arguments": {"b": [1, "x"], "a": "</tool"}}
</tool_call>)",
               R"(|f {"b":[1,"x"],"a":"</tool"})");
  expect_split(R"(I look.

<tool_call>{"name": "f", "arguments": {}}</tool_call>
<tool_call>{"name": "g"}</tool_call>
)",
               "I look.|f {}|g {}");
  expect_split(R"(<tool_call>{"name": "f"}</tool_call> and so on)", " and so on|f {}");
}

TEST(ToolCalls, WhatIsNoneStaysText) {
  for (const char* text :
       {R"(x <tool_call>{{"name": "f"}}</tool_call> y)", R"(<tool_call>["f"]</tool_call>)",
        R"(<tool_call>{"name": 3}</tool_call>)",
        R"(<tool_call>{"name": "f", "arguments": [1]}</tool_call>)", "<tool_call>", "</tool_call>",
        R"(<tool_call>{"name": "f", "argu)", "a <tool_cal", "\n <"})
    expect_split(text, text);
  // Behind one that is none.
  expect_split(R"(<tool_call>f</tool_call><tool_call>{"name": "f"}</tool_call>)",
               "<tool_call>f</tool_call>|f {}");
}

TEST(ToolCalls, EachFormIsReadInPieces) {
  // Llama 3: one after the other, behind its token or at the start of a text alone.
  expect_split("llama3", R"({"name": "f", "parameters": {"a": "}{"}})", R"(|f {"a":"}{"})");
  expect_split("llama3", R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g"})",
               "|f {}|g {}");
  expect_split("llama3", R"(<|python_start|>{"name": "f", "parameters": {}}<|python_end|>)",
               "|f {}");
  expect_split("llama3", R"( {"name": "f", "parameters": {}} done)", " done|f {}");
  // Mistral: a list, or a name and its arguments.
  expect_split("mistral",
               R"(Well. [TOOL_CALLS] [{"name": "f", "arguments": {"a": [1]}}, {"name": "g"}])",
               R"(Well.|f {"a":[1]}|g {})");
  expect_split("mistral-named", R"([TOOL_CALLS]f_1[ARGS]{"a": 1}[TOOL_CALLS]g{"b": "]"})",
               R"(|f_1 {"a":1}|g {"b":"]"})");
  expect_split("mistral-named", R"([TOOL_CALLS]f[CALL_ID]abc123XYZ[ARGS]{"a": 1})",
               R"(|f {"a":1})");
  // As Python has them.
  expect_split(
      "pythonic", R"([f(a=1, b='it\'s', c=[True, None, -2.5], d={"x": "\u00e9"}), g.h()])",
      "|f {\"a\":1,\"b\":\"it's\",\"c\":[true,null,-2.5],\"d\":{\"x\":\"\u00e9\"}}|g.h {}");
  expect_split("pythonic", "<|python_start|>[f(a=(1, 2),)]<|python_end|>", R"(|f {"a":[1,2]})");
  expect_split("gemma", "Let me see.\n```tool_code\nprint(f(a=\"```\"[0]))\n```",
               "Let me see.\n```tool_code\nprint(f(a=\"```\"[0]))\n```");
  expect_split("gemma", "Let me see.\n```tool_code\nprint(f(a=1))\ng(b='x')\n```\n",
               R"(Let me see.|f {"a":1}|g {"b":"x"})");
  expect_split("gemma", "```tool_code\n[f(), g()]\n```", "|f {}|g {}");
  expect_split("json", R"({"name": "f", "arguments": {"a": null}})", R"(|f {"a":null})");
}

TEST(ToolCalls, WhatIsNoneStaysTextInEachForm) {
  const std::string deep = "{\"name\": \"f\", \"parameters\": {\"a\": " + std::string(200, '[') +
                           std::string(200, ']') + "}}";
  for (const std::string form :
       {"llama3", "mistral", "mistral-named", "hermes", "pythonic", "gemma", "json"})
    for (const std::string& text : {std::string("{\"a\": 1} is JSON"),
                                    std::string("[1, 2, 3]"),
                                    std::string("{\"name\": \"f"),
                                    std::string("[f(1)]"),
                                    std::string("[f(a=b)]"),
                                    std::string("[f(a=1)"),
                                    std::string("[f(a="),
                                    std::string("[TOOL_CALLS]"),
                                    std::string("[TOOL_CALLS][1]"),
                                    std::string("[TOOL_CALLS]f{"),
                                    std::string("[TOOL_CALLS]f[ARGS] x"),
                                    std::string("[TOOL"),
                                    std::string("<|python_tag|>"),
                                    std::string("<|python_tag|>x = 1"),
                                    std::string("```tool_code\nx = 1\n```"),
                                    std::string("```tool_code\nf(a=1)"),
                                    std::string("say {\"name\": \"f\", \"arguments\": {}}"),
                                    std::string("say [f(a=1)]"),
                                    std::string("{}"),
                                    std::string("["),
                                    deep})
      expect_split(form, text, text);
}

TEST(ToolCalls, PiecesMakeNoDifference) {
  const std::vector<std::string> parts = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          "(",
                                          ")",
                                          "\"",
                                          "'",
                                          "\\",
                                          ",",
                                          ";",
                                          " ",
                                          "\n",
                                          "=",
                                          "f",
                                          "f(",
                                          "a=1",
                                          "f(a=1)",
                                          "[f(a='x')]",
                                          "True",
                                          "-1.5",
                                          "{}",
                                          "\"name\": \"f\"",
                                          "{\"name\": \"f\", \"arguments\": {}}",
                                          "{\"name\": \"g\", \"parameters\": {\"a\": [1]}}",
                                          "<tool_call>",
                                          "</tool_call>",
                                          "<tool",
                                          "[TOOL_CALLS]",
                                          "[ARGS]",
                                          "[CALL_ID]",
                                          "```",
                                          "```tool_code",
                                          "<|python_tag|>",
                                          "<|python_start|>",
                                          "<|python_end|>",
                                          "\u00e9",
                                          "word"};
  std::mt19937 random(5);
  for (const tools::ToolForm& form : tools::tool_forms())
    for (int round = 0; round < 4000; ++round) {
      std::string text;
      for (std::size_t i = random() % 9; i > 0; --i) text += parts[random() % parts.size()];
      const std::string whole = split(std::string(form.name), text, 1000);
      for (const std::size_t size : {1U, 2U, 5U})
        ASSERT_EQ(split(std::string(form.name), text, size), whole) << form.name << ": " << text;
    }
}

TEST(ToolCalls, TheFormIsThatOfTheTemplate) {
  const auto form_of = [](std::string_view text) -> std::string {
    const tools::ToolForm* form = tools::tool_form_of(text);
    return form == nullptr ? "none" : std::string(form->name);
  };
  EXPECT_EQ(form_of("{% for m in messages %}{{ m.content }}{% endfor %}"), "none");
  EXPECT_EQ(form_of("within <tool_call></tool_call> XML tags"), "hermes");
  EXPECT_EQ(form_of("{{ '[AVAILABLE_TOOLS]' }}{{ '[TOOL_CALLS] [' }}"), "mistral");
  EXPECT_EQ(form_of("{{ '[TOOL_CALLS]' + name + '[ARGS]' }}"), "mistral-named");
  EXPECT_EQ(
      form_of(
          R"({{ 'Respond in the format {"name": function name, "parameters": dictionary ..}' }})"),
      "llama3");
  EXPECT_EQ(form_of("{% if tools %}[func_name1(params_name1=params_value1), ..]{% endif %}"),
            "pythonic");
  EXPECT_EQ(form_of("write ```tool_code and ```"), "gemma");
  EXPECT_EQ(tools::find_tool_form("xml"), nullptr);
  EXPECT_EQ(tools::tool_form_names(),
            "mistral-named, mistral, hermes, gemma, pythonic, llama3, json");
}

TEST(ToolCalls, ArgumentsOfMessagesBecomeObjects) {
  ordered_json message = {{"role", "assistant"},
                          {"tool_calls",
                           {{{"function", {{"name", "f"}, {"arguments", R"({"a": 1})"}}}},
                            {{"function", {{"name", "g"}, {"arguments", {{"b", 2}}}}}},
                            {{"function", {{"name", "h"}}}}}}};
  tools::parse_arguments(message);
  EXPECT_EQ(message["tool_calls"].dump(),
            R"([{"function":{"name":"f","arguments":{"a":1}}},)"
            R"({"function":{"name":"g","arguments":{"b":2}}},{"function":{"name":"h"}}])");
  for (const ordered_json& calls :
       {ordered_json(3), ordered_json({1}), ordered_json({{{"function", 1}}}),
        ordered_json({{{"function", {{"arguments", "{"}}}}}),
        ordered_json({{{"function", {{"arguments", "[1]"}}}}}),
        ordered_json({{{"function", {{"arguments", "{\"a\":" + std::string(100000, '[')}}}}})}) {
    ordered_json wrong = {{"tool_calls", calls}};
    EXPECT_THROW(tools::parse_arguments(wrong), tools::ApiError) << calls;
  }
  ordered_json none = {{"role", "user"}, {"tool_calls", nullptr}};
  EXPECT_NO_THROW(tools::parse_arguments(none));
}

}  // namespace
}  // namespace sinter::tests
