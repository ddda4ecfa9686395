// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/transcription.h"

#include <array>
#include <charconv>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "tools/serve/api/request_fields.h"

namespace sinter::tools {
namespace {

double number_of(const FormPart& part, double least, double most) {
  double value = 0;
  const char* const end = part.content.data() + part.content.size();
  const auto [rest, error] = std::from_chars(part.content.data(), end, value);
  if (error != std::errc() || rest != end || !(value >= least && value <= most))
    RequestFields::fail(part.name, fmt::format("is no number from {} to {}", least, most));
  return value;
}

}  // namespace

SpeechAnswer transcribe(std::span<const FormPart> form, const ModelRegistry& models,
                        bool translate) {
  SpeechRequest request;
  request.translate = translate;
  request.format = "json";
  std::string model_name;
  std::optional<FormPart> file;
  bool wants_segments = false;
  for (const FormPart& part : form) {
    const std::string_view value = part.content;
    if (part.name == "file") {
      if (file) RequestFields::fail("file", "comes twice: a request is of one file");
      file = part;
    } else if (part.name == "model") {
      model_name = value;
    } else if (part.name == "language") {
      request.language = value;
    } else if (part.name == "response_format") {
      constexpr std::array kFormats = {"json", "text", "verbose_json", "srt", "vtt"};
      if (std::ranges::find(kFormats, value) == kFormats.end())
        RequestFields::fail(part.name, "is none of json, text, verbose_json, srt and vtt");
      request.format = value;
    } else if (part.name == "temperature") {
      request.temperature = number_of(part, 0, 1);
    } else if (part.name == "seed") {
      request.seed = static_cast<std::uint64_t>(number_of(part, 0, 1e15));
    } else if (part.name == "timestamp_granularities[]" || part.name == "timestamp_granularities") {
      if (value != "segment")
        RequestFields::fail(part.name, "is not 'segment': the model tells no times of words");
      wants_segments = true;
    } else if (part.name == "stream") {
      if (value != "false" && value != "False")
        RequestFields::fail(part.name, "is not supported: the text comes whole; leave it out");
    } else if (part.name == "prompt") {
      if (!value.empty()) RequestFields::fail(part.name, "is not supported: leave it out");
    } else if (part.name != "user" && part.name != "metadata") {
      RequestFields::fail(part.name, "is not known");
    }
  }
  if (!file) RequestFields::fail("file", "is missing");
  if (file->content.empty()) RequestFields::fail("file", "is empty");
  if (wants_segments && request.format != "verbose_json")
    RequestFields::fail("timestamp_granularities[]", "needs 'response_format' verbose_json");
  request.segments = request.format == "verbose_json";
  const auto model = models.find(model_name);
  if (model->speech() == nullptr)
    RequestFields::fail("model", fmt::format("is '{}', which is no model of speech: serve a "
                                             "Whisper model's decoder with --encoder",
                                             model->name()));
  return model->speech()->transcribe(std::as_bytes(std::span(file->content)),
                                     file->file.empty() ? "the file" : file->file, request);
}

}  // namespace sinter::tools
