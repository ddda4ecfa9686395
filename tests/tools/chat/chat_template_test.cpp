// SPDX-License-Identifier: Apache-2.0
// Chat templates against Jinja's own (goldens/make_chat.py).
#include "tools/generate/chat_template.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "runtime/sandbox/sandbox.h"
#include "tests/support/paths.h"
#include "tests/tools/cli_fixture.h"

namespace sinter::tests {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using tools::ChatTemplate;

template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(ChatTemplates, GiveWhatJinjaGives) {
  std::ifstream file(source_dir() + "/tests/tools/goldens/chat.json");
  const ordered_json goldens = ordered_json::parse(file);
  ASSERT_GT(goldens["cases"].size(), 40u);
  for (const auto& golden : goldens["cases"]) {
    SCOPED_TRACE(golden.dump());
    const auto text =
        goldens["templates"][golden["template"].get<std::string>()].get<std::string>();
    const ChatTemplate chat = ChatTemplate::parse(text, golden["bos_token"], golden["eos_token"]);
    const auto apply = [&] {
      return chat.apply(golden["messages"], golden["tools"], golden["add_generation_prompt"]);
    };
    if (golden.contains("error"))
      EXPECT_THAT(message_of(apply), HasSubstr(golden["error"].get<std::string>()));
    else
      EXPECT_EQ(apply(), golden["text"].get<std::string>());
  }
}

class ChatTemplateFiles : public CliTest {};

TEST_F(ChatTemplateFiles, AreConfigurationsOrText) {
  const ordered_json hello = ordered_json::parse(R"([{"role": "user", "content": "hi"}])");
  const auto load = [&](const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
    return ChatTemplate::load(path(name)).apply(hello, nullptr);
  };
  const std::string text = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}";
  EXPECT_EQ(load("a.jinja", text), "hi");
  EXPECT_EQ(load("a.json", ordered_json{{"chat_template", text}, {"bos_token", "<s>"}}.dump()),
            "<s>hi");
  EXPECT_EQ(load("b.json", ordered_json{{"chat_template",
                                         {{{"name", "tool_use"}, {"template", "no"}},
                                          {{"name", "default"}, {"template", text}}}},
                                        {"eos_token", {{"content", "</s>"}}}}
                               .dump()),
            "hi</s>");
  const auto refused = [&](const std::string& name, const std::string& content) {
    return message_of([&] { load(name, content); });
  };
  EXPECT_THAT(refused("c.json", "{}"), HasSubstr("has no 'chat_template'"));
  EXPECT_THAT(refused("d.json", "{"), HasSubstr("is not JSON"));
  EXPECT_THAT(refused("e.json", "[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(refused("f.jinja", "{% for x in %}"), HasSubstr("the chat template is invalid"));
  EXPECT_THAT(refused("g.jinja", "{{ messages[0].content | nothing }}"), HasSubstr("nothing"));
  EXPECT_THAT(message_of([&] { ChatTemplate::load(path("missing")); }), HasSubstr("cannot read"));
}

/// As strangers' templates are: what they do to themselves is an error, within a second.
TEST(ChatTemplatesOfStrangers, AreRefusedWhereTheyHarm) {
  sandbox::start();
  const ordered_json hello = ordered_json::parse(R"([{"role": "user", "content": "hi"}])");
  std::string attributes;
  for (int i = 0; i < 100000; ++i) attributes += ".a";
  for (const std::string& text : std::vector<std::string>{
           "{{ 1//0 }}",
           "{{ 1%0 }}",
           "{{ (-9223372036854775807-1)//-1 }}",
           "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
           "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns | tojson }}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
           "{{ messages" + attributes + " }}",
           "{{ 'abc'.split('') }}",
           "{% for i in range(1000000000) %}a{% endfor %}",
           "{{ 'a' * 10000000000 }}",
           "{{ " + std::string(200000, '(') + " }}",
       }) {
    const std::string said =
        message_of([&] { ChatTemplate::parse(text, "", "").apply(hello, nullptr); });
    EXPECT_THAT(said, HasSubstr("the chat template")) << text.substr(0, 80);
    EXPECT_THAT(said, testing::Not(HasSubstr("bad_alloc"))) << text.substr(0, 80);
  }
  EXPECT_EQ(ChatTemplate::parse("{{ messages[0].content }}", "", "").apply(hello, nullptr), "hi");
}

}  // namespace
}  // namespace sinter::tests
