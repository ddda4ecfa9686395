// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/embedding_request.h"

#include <span>

#include <fmt/format.h>

#include "tools/json/base64.h"
#include "tools/serve/api/limits.h"
#include "tools/serve/api/request_fields.h"

namespace sinter::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// The text of `prompt_name`, or of the model's default.
const std::string& prompt_of(RequestFields& fields, const ServedModel& model) {
  const json* given = fields.take("prompt_name");
  std::optional<std::string> name;
  if (given != nullptr) {
    if (!given->is_string()) RequestFields::fail("prompt_name", "is no text");
    name = given->get<std::string>();
    if (name->size() > kMostShownBytes)
      RequestFields::fail("prompt_name",
                          fmt::format("has {} bytes: {} at most", name->size(), kMostShownBytes));
  }
  try {
    return model.texts().prompt(name);
  } catch (const Error& error) {
    RequestFields::fail("prompt_name", fmt::format("is not known: {}", error.what()));
  }
}

}  // namespace

EmbeddingRequest parse_embedding(const json& body, const ServedModel& model) {
  RequestFields fields(body);
  fields.take("model");
  EmbeddingRequest request;
  const std::string& prompt = prompt_of(fields, model);
  for (auto& ids : fields.texts("input", model, kMostTexts, &request.cut, prompt))
    request.texts.push_back({std::move(ids)});
  // Lists of ids do not have the prompt.
  const auto input = body.find("input");
  const bool is_text = input != body.end() &&
                       (input->is_string() || (!input->empty() && input->front().is_string()));
  if (is_text && !prompt.empty())
    for (EncoderText& text : request.texts)
      text.skipped = model.texts().skipped(*model.tokenizer(), prompt);
  if (const json* format = fields.take("encoding_format")) {
    if (*format != "float" && *format != "base64")
      RequestFields::fail("encoding_format", "is neither 'float' nor 'base64'");
    request.base64 = *format == "base64";
  }
  fields.refuse_unless("dimensions", nullptr, "vectors have the model's own size");
  fields.finish();
  return request;
}

ordered_json embedding_answer(const EmbeddingRequest& request, const std::string& model,
                              const std::vector<std::vector<float>>& vectors) {
  ordered_json data = ordered_json::array();
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    ordered_json vector = request.base64
                              ? ordered_json(base64(std::as_bytes(std::span(vectors[i]))))
                              : ordered_json(vectors[i]);
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(vector)}});
    if (request.cut.contains(i)) data.back()["truncated"] = true;
    tokens += request.texts[i].ids.size();
  }
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", model},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

}  // namespace sinter::tools
