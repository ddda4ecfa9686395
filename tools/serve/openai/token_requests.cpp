// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/token_requests.h"

#include <fmt/format.h>

#include "tools/serve/api/request_fields.h"
#include "tools/serve/openai/logprobs.h"
#include "tools/serve/openai/messages.h"

namespace sinter::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const Tokenizer& tokenizer_of(const ServedModel& model) {
  if (model.tokenizer() == nullptr)
    RequestFields::fail("model", fmt::format("is '{}', which is served without a tokenizer: start "
                                             "the server with --tokenizer",
                                             model.name()));
  return *model.tokenizer();
}

}  // namespace

ordered_json tokenize(const json& body, std::string_view text, const ServedModel& model) {
  const Tokenizer& tokenizer = tokenizer_of(model);
  RequestFields fields(body);
  fields.take("model");
  const bool is_chat = body.contains("messages");
  const bool specials = fields.flag("add_special_tokens", !is_chat);
  const bool strings = fields.flag("return_token_strs");
  std::string prompt;
  if (is_chat) {
    const bool asks = fields.flag("add_generation_prompt", true);
    prompt = take_conversation(fields, text, model, asks).prompt;
  } else {
    const json* given = fields.take("prompt");
    if (given == nullptr || !given->is_string()) RequestFields::fail("prompt", "is no text");
    prompt = given->get<std::string>();
  }
  fields.finish();
  // Longer than the model takes, too: that is what is asked.
  const auto ids = tokenizer.encode(prompt, specials);
  ordered_json answer = {{"count", ids.size()}};
  answer["max_model_len"] = model.most_tokens();
  answer["tokens"] = ids;
  answer["token_strs"] = nullptr;
  if (!strings) return answer;
  answer["token_strs"] = ordered_json::array();
  for (const std::int64_t id : ids)
    answer["token_strs"].push_back(token_name(model, static_cast<TokenId>(id)));
  return answer;
}

ordered_json detokenize(const json& body, const ServedModel& model) {
  const Tokenizer& tokenizer = tokenizer_of(model);
  RequestFields fields(body);
  fields.take("model");
  const json* tokens = fields.take("tokens");
  fields.finish();
  if (tokens == nullptr || !tokens->is_array())
    RequestFields::fail("tokens", "is no list of token ids");
  std::vector<std::int64_t> ids;
  for (const json& id : *tokens) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      RequestFields::fail("tokens", fmt::format("has {}, which is no token id", id.dump()));
    ids.push_back(id.get<std::int64_t>());
  }
  return {{"prompt", tokenizer.decode(ids, false)}};
}

}  // namespace sinter::tools
