// SPDX-License-Identifier: Apache-2.0
// Speech over HTTP, by a tiny Whisper model; forms with files.
#include <fstream>

#include "tests/support/paths.h"
#include "tests/tools/serve/serve_fixture.h"
#include "tools/serve/api/api_error.h"
#include "tools/serve/api/multipart.h"
#include "tools/serve/speech/serve_speech.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;

class ServeSpeechTest : public ServeTest {
 protected:
  void SetUp() override {
    for (const char* part : {"encoder", "decoder"}) {
      const auto compiled =
          sinter({"compile", source_dir() + "/models/tiny/speech_" + part + ".onnx", "-o",
                  path(part), "--target=cpu"});
      ASSERT_EQ(compiled.code, 0) << compiled.err;
    }
    model_.plan = path("decoder");
    model_.encoder = path("encoder");
    model_.tokenizer = kGoldens + "speech_tokenizer.json";
    model_.session.threads = 1;
    model_.make_speech = tools::make_speech_model;
  }
  httplib::Result send(httplib::MultipartFormDataItems items,
                       const std::string& route = "transcriptions") const {
    return client().Post("/v1/audio/" + route, items);
  }
  static httplib::MultipartFormDataItems sound(const std::string& name = "speech.wav") {
    return {{"file", read(kGoldens + name), name, "audio/wav"}, {"model", "tiny", "", ""}};
  }
  std::string refused(const httplib::MultipartFormData& more) const {
    auto items = sound();
    items.push_back(more);
    const auto answer = send(items);
    EXPECT_EQ(answer->status, 400) << answer->body;
    return json::parse(answer->body)["error"]["message"];
  }
  static inline const std::string kGoldens = source_dir() + "/tests/tools/goldens/";
};

TEST_F(ServeSpeechTest, TextsAreThoseOfTheCommand) {
  begin();
  std::ifstream file(kGoldens + "speech.json");
  const json golden = json::parse(file)["speech"]["german"];
  auto items = sound();
  items.push_back({"language", "de", "", ""});
  items.push_back({"response_format", "verbose_json", "", ""});
  items.push_back({"timestamp_granularities[]", "segment", "", ""});
  const json verbose = json::parse(send(items)->body);
  EXPECT_EQ(verbose["language"], "de");
  ASSERT_EQ(verbose["segments"].size(), golden["segments"].size());
  for (std::size_t i = 0; i < golden["segments"].size(); ++i)
    EXPECT_EQ(verbose["segments"][i]["tokens"], golden["segments"][i]["tokens"]);
  const auto plain = send(sound());
  EXPECT_EQ(plain->get_header_value("Content-Type"), "application/json");
  EXPECT_TRUE(json::parse(plain->body)["text"].is_string());
  const auto in_format = [&](const char* format) {
    auto asked = sound("long_speech.wav");
    asked.push_back({"response_format", format, "", ""});
    return send(asked)->body;
  };
  EXPECT_THAT(in_format("srt"), testing::StartsWith("1\n00:00:0"));
  EXPECT_THAT(in_format("vtt"), testing::StartsWith("WEBVTT"));
  EXPECT_THAT(in_format("text"), testing::Not(HasSubstr("{")));
  EXPECT_EQ(send(sound(), "translations")->status, 200);
  EXPECT_EQ(json::parse(client().Get("/v1/models")->body)["data"][0]["id"], "tiny");
}

TEST_F(ServeSpeechTest, WhatIsNotSupportedIsRefusedByName) {
  begin();
  EXPECT_THAT(refused({"response_format", "xml", "", ""}), HasSubstr("'response_format' is none"));
  EXPECT_THAT(refused({"timestamp_granularities[]", "word", "", ""}), HasSubstr("times of words"));
  EXPECT_THAT(refused({"timestamp_granularities[]", "segment", "", ""}), HasSubstr("verbose_json"));
  EXPECT_THAT(refused({"language", "xx", "", ""}), HasSubstr("'xx'"));
  EXPECT_THAT(refused({"temperature", "hot", "", ""}), HasSubstr("'temperature' is no number"));
  EXPECT_THAT(refused({"stream", "true", "", ""}), HasSubstr("'stream'"));
  EXPECT_THAT(refused({"prompt", "so", "", ""}), HasSubstr("'prompt'"));
  EXPECT_THAT(refused({"volume", "11", "", ""}), HasSubstr("'volume' is not known"));
  EXPECT_THAT(refused({"file", "again", "b.wav", ""}), HasSubstr("comes twice"));
  const auto answer = send({{"file", "no sound", "a.wav", ""}, {"model", "tiny", "", ""}});
  EXPECT_EQ(answer->status, 400) << answer->body;
  EXPECT_THAT(answer->body, HasSubstr("a.wav"));
  EXPECT_EQ(send({{"model", "tiny", "", ""}})->status, 400);
  EXPECT_EQ(send({{"file", "x", "a.wav", ""}, {"model", "other", "", ""}})->status, 404);
  EXPECT_THAT(client().Post("/v1/completions", R"({"prompt": "a"})", "application/json")->body,
              HasSubstr("/v1/audio/transcriptions"));
  tools::ServedModelOptions without = model_;
  without.make_speech = nullptr;
  EXPECT_THROW(models_.load("other", without), Error);
}

std::string shown(std::string_view type, std::string_view body) {
  std::string text;
  try {
    for (const tools::FormPart& part : tools::parse_multipart(type, body))
      text += part.name + (part.is_file ? "(" + part.file + ")" : "") + "=" +
              std::string(part.content) + ";";
  } catch (const tools::ApiError& error) {
    return error.what();
  }
  return text;
}

TEST(Multipart, PartsAreReadAndNonsenseIsRefused) {
  const std::string type = "multipart/form-data; boundary=XX";
  const std::string file =
      "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\";.wav\"\r\n"
      "Content-Type: audio/wav\r\n\r\n\r\n--X\r\nbytes\r\n";
  EXPECT_EQ(
      shown(type, file + "--XX\r\ncontent-disposition:form-data;name=model\r\n\r\nm\r\n--XX--"),
      "file(a \"b\";.wav)=\r\n--X\r\nbytes;model=m;");
  EXPECT_EQ(
      shown("Multipart/Form-Data; charset=x; BOUNDARY=\"XX\"",
            "preamble\r\n--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--XX--\r\n"),
      "a=;");
  EXPECT_EQ(shown(type, "--XX--"), "");
  for (const auto& [header, body] : std::vector<std::pair<std::string, std::string>>{
           {"text/plain", file},
           {"multipart/form-data", file},
           {"multipart/form-data; boundary=", file},
           {"multipart/form-data; boundary=" + std::string(71, 'x'), file},
           {type, ""},
           {type, "--XX"},
           {type, file},
           {type, "--XX\r\nContent-Disposition: form-data\r\n\r\nx\r\n--XX--"},
           {type, "--XX\r\n\r\nx\r\n--XX--"},
           {type, "--XX\r\nnonsense\r\n\r\nx\r\n--XX--"},
           {type, "--XX\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n--XX--"},
           {type, "--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n--XX--"},
           {type, "--XX\r\nA: " + std::string(20000, 'x') + "\r\n\r\nx\r\n--XX--"}})
    EXPECT_THAT(shown(header, body), HasSubstr("multipart/form-data")) << header << body;
  std::string many;
  for (int i = 0; i < 65; ++i)
    many += "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n";
  EXPECT_THAT(shown(type, many + "--XX--"), HasSubstr("more than 64 parts"));
  // Whatever is cut off.
  for (std::size_t length = 0; length < file.size(); ++length)
    EXPECT_THAT(shown(type, file.substr(0, length)), HasSubstr("multipart/form-data"));
}

}  // namespace
}  // namespace sinter::tests
