// SPDX-License-Identifier: Apache-2.0
// Strangers' JSON: limits, and time that grows as the bytes do.
#include "tools/json/read_json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sinter/error.h>

namespace sinter::testing {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string refusal(const std::string& text, const tools::JsonLimits& limits = {}) {
  std::string said;
  for (const bool is_ordered : {false, true}) {
    try {
      if (is_ordered)
        tools::read_ordered_json(text, "it", limits);
      else
        tools::read_json(text, "it", limits);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      said = error.what();
    }
  }
  return said;
}

std::string nested(int depth, const std::string& open, const std::string& close) {
  std::string text, end;
  for (int i = 0; i < depth; ++i) text += open, end += close;
  return text + end;
}

TEST(ReadJson, GivesWhatTheLibraryGives) {
  for (const char* text :
       {"null", "[]", "{}", "1", "-2.5e3", "18446744073709551615", "\"a\\u00e9\\ud83d\\ude00\"",
        R"({"b": [1, {"c": null, "a": [[], {}]}, "x"], "a": {"z": true, "y": false}})"}) {
    EXPECT_EQ(tools::read_json(text, "it"), json::parse(text)) << text;
    EXPECT_EQ(tools::read_ordered_json(text, "it").dump(), ordered_json::parse(text).dump());
  }
}

/// Members one by one: of the outermost object, or of one in it.
TEST(ReadJson, MembersAreGivenAway) {
  const auto members = [](const std::string& text, const std::string& within = "",
                          const tools::JsonLimits& limits = {}) {
    std::vector<std::string> found;
    const bool is_there = tools::read_json_members(
        text, "it", limits, within, "skipped",
        [&](const std::string& key, const json& value) { found.push_back(key + value.dump()); });
    if (!is_there) found.emplace_back("none");
    return found;
  };
  using ::testing::ElementsAre;
  const std::string text =
      R"({"a": {"x": [1, {"y": {}}]}, "skipped": {"b": 1}, "m": {"p": "q", "a": 2}, "a": [[]]})";
  EXPECT_THAT(members(text), ElementsAre(R"(a{"x":[1,{"y":{}}]})", R"(m{"a":2,"p":"q"})", "a[[]]"));
  EXPECT_THAT(members(text, "m"), ElementsAre(R"(p"q")", "a2"));
  EXPECT_THAT(members(text, "a"), ElementsAre(R"(x[1,{"y":{}}])"));
  EXPECT_THAT(members("{}"), SizeIs(0));
  for (const char* other : {"5", "[]", "[{\"m\": {}}]", "\"m\"", "null"})
    EXPECT_THAT(members(other, ""), ElementsAre("none")) << other;
  for (const char* other : {"{}", R"({"m": 5})", R"({"m": [{"a": 1}]})", R"([{"m": {"a": 1}}])",
                            R"({"x": {"m": {"a": 1}}})"})
    EXPECT_THAT(members(other, "m"), ElementsAre("none")) << other;
  // Limits are those of a member, however many there are; what is skipped has none but depth.
  const tools::JsonLimits two = {.depth = 3, .values = 4, .numbers = 2};
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += fmt::format(R"("{}":[1,{{"a":2}}],)", i);
  EXPECT_THAT(members(many + R"("skipped":[1,2,3,"a","b","c","d","e"]})", "", two), SizeIs(100));
  EXPECT_THROW(members(R"({"a": [1, 2, 3]})", "", two), Error);
  EXPECT_THROW(members(R"({"a": ["a", "b", "c", "d"]})", "", two), Error);
  EXPECT_THROW(members(R"({"a": [[[1]]]})", "", two), Error);
  EXPECT_THROW(members(R"({"skipped": [[[1]]]})", "", two), Error);
  EXPECT_THROW(members(R"({"a": 1)"), Error);
}

TEST(ReadJson, AMemberAlone) {
  const std::string text =
      R"({"a": [{"x": 1}], "m": {"z": [1, {"m": 2}], "b": {}}, "c": {"m": 3}})";
  EXPECT_EQ(tools::read_ordered_member(text, "m").dump(), R"({"z":[1,{"m":2}],"b":{}})");
  EXPECT_EQ(tools::read_ordered_member(text, "a").dump(), R"([{"x":1}])");
  EXPECT_TRUE(tools::read_ordered_member(text, "x").is_null());
  EXPECT_EQ(tools::read_ordered_member(R"({"n": null, "m": "t"})", "m"), "t");
}

TEST(ReadJson, LimitsAreRefusals) {
  EXPECT_EQ(refusal(nested(64, "[", "]")), "");
  EXPECT_THAT(refusal(nested(65, "[", "]")), HasSubstr("it is nested too deep: 64"));
  EXPECT_THAT(refusal(nested(100000, R"({"a":)", "}")), HasSubstr("nested too deep"));
  EXPECT_THAT(refusal(std::string(100000, '[')), HasSubstr("nested too deep"));
  EXPECT_THAT(refusal(R"({"a": 1, "b": 2, "a": 3})"), HasSubstr("the key 'a' twice"));
  EXPECT_THAT(refusal(R"([{"x": {"a": 1, "\u0061": 2}}])"), HasSubstr("the key 'a' twice"));
  EXPECT_THAT(refusal("[1, 2, 3]", {.numbers = 2}), HasSubstr("more than 2 numbers"));
  EXPECT_THAT(refusal(R"(["a", "b"])", {.values = 2}), HasSubstr("more than 2 texts"));
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "nul", "1 2", "\"\xFF\"", "{\"a\":1}}"})
    EXPECT_THAT(refusal(text), HasSubstr("it is not JSON")) << text;
  EXPECT_LT(refusal("[\"" + std::string(1 << 20, 'a')).size(), 500U);
}

TEST(ReadJson, ManyKeysOfOneObject) {
  std::string text = "{";
  for (int i = 0; i < 300000; ++i) text += "\"k" + std::to_string(i) + "\":0,";
  text.back() = '}';
  EXPECT_THAT(tools::read_ordered_json(text, "it"), SizeIs(300000));
  EXPECT_THAT(tools::read_json(text, "it"), SizeIs(300000));
}

}  // namespace
}  // namespace sinter::testing
