// SPDX-License-Identifier: Apache-2.0
// A server of a tiny decoder with a tokenizer of characters and a chat template.
#pragma once

#include "tests/tools/serve/serve_fixture.h"
#include "tests/tools/tiny_tokenizer.h"

namespace sinter::tests {

class ServeTextTest : public ServeTest {
 protected:
  void SetUp() override {
    ServeTest::SetUp();
    model_.context = 64;  // as many positions as the model has
    model_.tokenizer = write("tokenizer.json", tiny_tokenizer().dump());
    write_template("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}");
  }
  void write_template(const std::string& text) const {
    write("tokenizer_config.json", json{{"chat_template", text}}.dump());
  }
  std::string ask(const std::string& path, const json& body, int status = 200) const {
    const auto answer = client().Post(path, body.dump(), "application/json");
    EXPECT_TRUE(answer) << to_string(answer.error());
    if (!answer) return {};
    EXPECT_EQ(answer->status, status) << body << answer->body;
    return answer->body;
  }
  json ask_json(const std::string& path, const json& body, int status = 200) const {
    return json::parse(ask(path, body, status));
  }
  json chat(json body) const {
    if (!body.contains("messages")) body["messages"] = {{{"role", "user"}, {"content", "Hi"}}};
    return ask_json("/v1/chat/completions", body);
  }
  std::string refusal_at(const std::string& path, const json& body, int status = 400) const {
    return ask_json(path, body, status)["error"]["message"];
  }
};

/// With tokens of many characters, so that calls of tools fit; they are likely, blanks are not.
class ServeCallsTest : public ServeTextTest {
 protected:
  void SetUp() override {
    ServeTextTest::SetUp();
    write_template("{{ messages[0].content }}");
    write("tokenizer.json", tokenizer().dump());
  }
  static json tokenizer() {
    json file = tiny_tokenizer();
    int next = 96;
    for (const char* text : kLong) {
      json token = file["added_tokens"][0];
      const int id = id_of(next - 96);
      token["id"] = id, token["content"] = text, token["special"] = false;
      file["model"]["vocab"].erase(std::string(1, static_cast<char>('!' + id)));
      file["model"]["vocab"][text] = id;
      file["added_tokens"].insert(file["added_tokens"].end() - 1, token);
      ++next;
    }
    return file;
  }
  static json bias() {
    json all = {{"94", -100}, {std::to_string(id_of(0)), -100}};
    for (int i = 1; i < static_cast<int>(std::size(kLong)); ++i) all[std::to_string(id_of(i))] = 60;
    return all;
  }

  static constexpr const char* kLong[] = {"\n",
                                          "{\"name\": \"look\", \"arguments\": ",
                                          "{\"name\": \"look\", \"parameters\": ",
                                          "{\"name\": \"go\", \"arguments\": ",
                                          "{\"name\": \"go\", \"parameters\": ",
                                          "<tool_call>",
                                          "</tool_call>",
                                          "```tool_code\n",
                                          "\n```",
                                          "[TOOL_CALLS]"};
  /// Of characters that nothing here is made of.
  static int id_of(int number) { return "!#$%&*+;@^"[number] - '!'; }
};

}  // namespace sinter::tests
