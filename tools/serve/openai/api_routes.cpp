// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/api_routes.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"
#include "tools/serve/api/embedding_request.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/request_id.h"
#include "tools/serve/openai/ranking.h"
#include "tools/serve/openai/response_call.h"
#include "tools/serve/openai/token_requests.h"

namespace sinter::tools {
namespace {

using nlohmann::json;

std::shared_ptr<ServedModel> writer(const ModelRegistry& models, const json& body) {
  auto model = models.find(model_of(body));
  if (model->engine() != nullptr) return model;
  if (model->speech() != nullptr)
    throw ApiError(400,
                   fmt::format("'{}' is of speech: POST /v1/audio/transcriptions", model->name()));
  throw ApiError(400,
                 fmt::format("'{0}' generates no text: POST /v2/models/{0}/infer", model->name()));
}

ApiAnswer answer_completion(const ModelRegistry& models, std::string_view text) {
  const json body = parse_object(text);
  auto model = writer(models, body);
  auto request = parse_completion(body, text, *model);
  return std::make_shared<CompletionAnswer>(std::move(model), std::move(request), new_id("cmpl-"));
}

ApiAnswer answer_chat(const ModelRegistry& models, std::string_view text) {
  const json body = parse_object(text);
  auto model = writer(models, body);
  auto request = parse_chat(body, text, *model);
  return std::make_shared<CompletionAnswer>(std::move(model), std::move(request),
                                            new_id("chatcmpl-"));
}

ApiAnswer answer_response(const ModelRegistry& models, std::string_view text) {
  const json body = parse_object(text);
  auto model = writer(models, body);
  auto request = parse_response(body, text, *model);
  return std::make_shared<ResponseCall>(std::move(model), std::move(request), new_id("resp_"));
}

ApiAnswer answer_embeddings(const ModelRegistry& models, std::string_view text) {
  const json body = parse_object(text);
  const auto model = models.find(model_of(body));
  if (model->embedder() == nullptr)
    throw ApiError(400, fmt::format("'{}' is no encoder of texts: it does not take input_ids "
                                    "alone, or gives no vectors",
                                    model->name()));
  const auto request = std::make_shared<EmbeddingRequest>(parse_embedding(body, *model));
  return [model, request] {
    return WholeAnswer{
        dump(embedding_answer(*request, model->name(), model->embedder()->embed(request->texts)))};
  };
}

ApiAnswer answer_tokenize(const ModelRegistry& models, std::string_view text) {
  const json body = parse_object(text);
  return WholeAnswer{dump(tokenize(body, text, *models.find(model_of(body))))};
}

ApiAnswer answer_detokenize(const ModelRegistry& models, std::string_view text) {
  const json body = parse_object(text);
  return WholeAnswer{dump(detokenize(body, *models.find(model_of(body))))};
}

ApiAnswer answer_rerank(const ModelRegistry& models, std::string_view text) {
  const auto body = std::make_shared<json>(parse_object(text));
  return [body, model = models.find(model_of(*body))] {
    return WholeAnswer{dump(rerank(*body, *model))};
  };
}

ApiAnswer answer_score(const ModelRegistry& models, std::string_view text) {
  const auto body = std::make_shared<json>(parse_object(text));
  return [body, model = models.find(model_of(*body))] {
    return WholeAnswer{dump(score(*body, *model))};
  };
}

}  // namespace

std::span<const ApiRoute> api_routes() {
  static constexpr std::array kRoutes = {
      ApiRoute{"/v1/completions", answer_completion},
      ApiRoute{"/v1/chat/completions", answer_chat},
      ApiRoute{"/v1/responses", answer_response},
      ApiRoute{"/v1/embeddings", answer_embeddings},
      ApiRoute{"/tokenize", answer_tokenize},
      ApiRoute{"/detokenize", answer_detokenize},
      ApiRoute{"/v1/rerank", answer_rerank},
      ApiRoute{"/v2/rerank", answer_rerank},  // as Cohere's client has it
      ApiRoute{"/rerank", answer_rerank},
      ApiRoute{"/v1/score", answer_score},
      ApiRoute{"/score", answer_score},
  };
  return kRoutes;
}

std::span<const SpeechRoute> speech_routes() {
  static constexpr std::array kRoutes = {SpeechRoute{"/v1/audio/transcriptions", false},
                                         SpeechRoute{"/v1/audio/translations", true}};
  return kRoutes;
}

}  // namespace sinter::tools
