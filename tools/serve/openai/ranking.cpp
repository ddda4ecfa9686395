// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/ranking.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "tools/serve/api/limits.h"
#include "tools/serve/api/request_fields.h"
#include "tools/serve/api/request_id.h"

namespace sinter::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// What the fields of both have in common.
struct Pairs {
  std::vector<EncoderText> texts;
  std::size_t tokens = 0;
};

const Embedder& check(const ServedModel& model) {
  if (model.embedder() == nullptr || !model.embedder()->ranks())
    RequestFields::fail(
        "model", fmt::format("is '{}', which is no cross-encoder: a plan that takes input_ids and "
                             "gives `logits` or `scores` [texts, labels], or any [texts, 1]",
                             model.name()));
  if (model.tokenizer() == nullptr)
    RequestFields::fail("model", fmt::format("is '{}', which is served without a tokenizer: start "
                                             "the server with --tokenizer",
                                             model.name()));
  return *model.embedder();
}

/// A text, or as Jina and Cohere have it {"text": ..}.
std::string plain_text(const char* field, const json& value) {
  const json* text = &value;
  if (value.is_object() && value.contains("text")) text = &value["text"];
  if (!text->is_string()) RequestFields::fail(field, "has one that is no text");
  return text->get<std::string>();
}

std::vector<std::string> plain_texts(RequestFields& fields, const char* name, bool may_be_one) {
  const json* given = fields.take(name);
  if (given == nullptr) RequestFields::fail(name, "is missing");
  if (may_be_one && !given->is_array()) return {plain_text(name, *given)};
  if (!given->is_array() || given->empty()) RequestFields::fail(name, "is no list of texts");
  if (given->size() > kMostTexts)
    RequestFields::fail(name, fmt::format("has {} texts: {} at most", given->size(), kMostTexts));
  std::vector<std::string> texts;
  for (const json& one : *given) texts.push_back(plain_text(name, one));
  return texts;
}

/// A text that stands in each pair is read for each: `first` is one text or as many as `second`.
void check_bytes(const char* field, std::span<const std::string> first,
                 std::span<const std::string> second) {
  std::size_t bytes = 0;
  for (const std::string& text : first)
    bytes += text.size() * (first.size() == 1 ? second.size() : 1);
  for (const std::string& text : second) bytes += text.size();
  if (bytes > kMostPairBytes)
    RequestFields::fail(
        field, fmt::format("makes pairs of {} bytes in all: {} at most", bytes, kMostPairBytes));
}

/// A pair as the chat template has it, for a decoder that is asked whether they fit.
Tokenizer::Pair pair_of_messages(const ServedModel& model, const char* field,
                                 const std::string& first, const std::string& second) {
  if (model.chat_template() == nullptr)
    RequestFields::fail(
        "model",
        fmt::format("is '{}', which has no chat template to write pairs with", model.name()));
  const PairMessages& how = *model.texts().pairs;
  const auto message = [&](const char* role, const std::string& text) {
    ordered_json content = text;
    if (how.has_parts)
      content = ordered_json::array({ordered_json{{"type", "text"}, {"text", text}}});
    return ordered_json{{"role", role}, {"content", std::move(content)}};
  };
  ordered_json messages = ordered_json::array();
  if (const std::string& prompt = model.texts().prompt({}); !prompt.empty())
    messages.push_back(message("system", prompt));
  messages.push_back(message("query", first));
  messages.push_back(message("document", second));
  try {
    auto cut = model.tokenizer()->encode_cut(
        model.chat_template()->apply(messages, nullptr, how.asks), false, model.most_tokens());
    return {std::move(cut.ids), 0, cut.is_cut};
  } catch (const Error& error) {
    RequestFields::fail(field, fmt::format("cannot be written as a pair: {}", error.what()));
  }
}

void add_pair(Pairs& pairs, const ServedModel& model, const char* field, const std::string& first,
              const std::string& second) {
  const std::size_t most = model.most_tokens();
  const Tokenizer::Pair pair = model.texts().pairs
                                   ? pair_of_messages(model, field, first, second)
                                   : model.tokenizer()->encode_pair_cut(first, second);
  if (pair.ids.size() > most)
    RequestFields::fail(field, fmt::format("has text {} of {} tokens with what it is compared to: "
                                           "the model takes {} at most",
                                           pairs.texts.size(), pair.ids.size(), most));
  pairs.tokens += pair.ids.size();
  pairs.texts.push_back({{pair.ids.begin(), pair.ids.end()}, pair.second});
}

/// From 0 to 1: of one logit its sigmoid; of several the share of the label that means "fits".
std::vector<double> scores_of(const ServedModel& model, const Pairs& pairs,
                              std::optional<std::int64_t> label) {
  std::vector<double> scores;
  for (const std::vector<float>& logits : model.embedder()->rank(pairs.texts)) {
    if (logits.size() == 1) {
      scores.push_back(1 / (1 + std::exp(-double{logits[0]})));
      continue;
    }
    const auto labels = std::ssize(logits);
    if (!label && labels > 2)
      RequestFields::fail("label",
                          fmt::format("is missing: '{}' tells {} labels, say which of them "
                                      "(from 0 on) means that texts fit",
                                      model.name(), labels));
    const std::int64_t wanted = label.value_or(1);
    if (wanted >= labels)
      RequestFields::fail("label",
                          fmt::format("is {}: '{}' tells {}", wanted, model.name(), labels));
    const double most = *std::ranges::max_element(logits);
    double total = 0;
    for (const float logit : logits) total += std::exp(logit - most);
    scores.push_back(std::exp(logits[static_cast<std::size_t>(wanted)] - most) / total);
  }
  return scores;
}

std::optional<std::int64_t> take_label(RequestFields& fields) {
  if (fields.take("label") == nullptr) return std::nullopt;
  return fields.integer("label", 0, 0, INT32_MAX);
}

}  // namespace

ordered_json rerank(const json& body, const ServedModel& model) {
  check(model);
  RequestFields fields(body);
  fields.take("model");
  const json* query = fields.take("query");
  if (query == nullptr) RequestFields::fail("query", "is missing");
  const std::string wanted = plain_text("query", *query);
  const auto documents = plain_texts(fields, "documents", false);
  const auto top = fields.integer("top_n", std::ssize(documents), 0, INT32_MAX);
  const bool returns = fields.flag("return_documents", true);
  const auto label = take_label(fields);
  fields.finish();
  check_bytes("documents", std::span(&wanted, 1), documents);
  Pairs pairs;
  for (const std::string& document : documents)
    add_pair(pairs, model, "documents", wanted, document);
  const auto scores = scores_of(model, pairs, label);
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  // 0 asks for all, as vLLM has it.
  if (top > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  ordered_json results = ordered_json::array();
  for (const std::size_t i : order) {
    ordered_json one = {{"index", i}};
    if (returns) one["document"] = {{"text", documents[i]}};
    one["relevance_score"] = scores[i];
    results.push_back(std::move(one));
  }
  return {{"id", new_id("rerank-")},
          {"model", model.name()},
          {"usage", {{"prompt_tokens", pairs.tokens}, {"total_tokens", pairs.tokens}}},
          {"results", std::move(results)}};
}

ordered_json score(const json& body, const ServedModel& model) {
  check(model);
  RequestFields fields(body);
  fields.take("model");
  const auto first = plain_texts(fields, "text_1", true),
             second = plain_texts(fields, "text_2", true);
  const auto label = take_label(fields);
  if (const json* format = fields.take("encoding_format"); format != nullptr && *format != "float")
    RequestFields::fail("encoding_format", "is not supported: scores are numbers");
  fields.finish();
  if (first.size() != 1 && first.size() != second.size())
    RequestFields::fail("text_1", fmt::format("has {} texts, 'text_2' {}: expected one, or as many",
                                              first.size(), second.size()));
  check_bytes("text_2", first, second);
  Pairs pairs;
  for (std::size_t i = 0; i < second.size(); ++i)
    add_pair(pairs, model, "text_2", first[first.size() == 1 ? 0 : i], second[i]);
  ordered_json data = ordered_json::array();
  for (const double each : scores_of(model, pairs, label))
    data.push_back({{"index", data.size()}, {"object", "score"}, {"score", each}});
  return {{"id", new_id("score-")},
          {"object", "list"},
          {"created", std::time(nullptr)},
          {"model", model.name()},
          {"data", std::move(data)},
          {"usage", {{"prompt_tokens", pairs.tokens}, {"total_tokens", pairs.tokens}}}};
}

}  // namespace sinter::tools
