// Calls of tools in the text of a model: whole, in pieces, and what only looks like one.
#include "tools/serve/api/tool_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/serve/api/api_error.h"

namespace sinter::tests {
namespace {

using nlohmann::ordered_json;
using tools::ToolCallSplitter;

/// "said|name arguments|..", by pieces of `size` bytes.
std::string split(std::string_view text, std::size_t size) {
  ToolCallSplitter splitter;
  std::string said, calls;
  const auto take = [&](const ToolCallSplitter::Piece& piece) {
    said += piece.text;
    for (const auto& [name, arguments] : piece.calls) calls += "|" + name + " " + arguments;
  };
  for (std::size_t at = 0; at < text.size(); at += size) take(splitter.add(text.substr(at, size)));
  take(splitter.finish());
  return said + calls;
}

void expect_split(std::string_view text, const std::string& expected) {
  for (const std::size_t size : {1U, 2U, 3U, 7U, 1000U})
    EXPECT_EQ(split(text, size), expected) << "by pieces of " << size;
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
        ordered_json({{{"function", {{"arguments", "[1]"}}}}})}) {
    ordered_json wrong = {{"tool_calls", calls}};
    EXPECT_THROW(tools::parse_arguments(wrong), tools::ApiError) << calls;
  }
  ordered_json none = {{"role", "user"}, {"tool_calls", nullptr}};
  EXPECT_NO_THROW(tools::parse_arguments(none));
}

}  // namespace
}  // namespace sinter::tests
