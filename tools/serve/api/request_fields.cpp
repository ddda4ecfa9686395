// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/request_fields.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"
#include "tools/serve/api/limits.h"

namespace sinter::tools {
namespace {

using nlohmann::json;

std::vector<TokenId> listed_ids(const char* name, const json& list) {
  std::vector<TokenId> ids;
  for (const json& id : list) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      RequestFields::fail(name, fmt::format("has {}, which is no token id", id.dump()));
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

/// `is_cut` is given whether the text was too long for the tokenizer and was cut.
std::vector<TokenId> ids_of_text(const char* name, const json& text, const ServedModel& model,
                                 bool& is_cut, std::string_view prompt) {
  if (text.is_array()) return listed_ids(name, text);
  if (!text.is_string()) RequestFields::fail(name, "is neither text nor a list of token ids");
  if (model.tokenizer() == nullptr)
    RequestFields::fail(name, fmt::format("is text, and '{}' is served without a tokenizer: send a "
                                          "list of token ids",
                                          model.name()));
  const auto most = model.most_tokens();
  const auto given = std::string(prompt) + text.get<std::string>();
  Tokenizer::Cut cut;
  // Texts of an encoder are as long as their tokenizer says, prompts are not.
  if (model.embedder() != nullptr) {
    cut = model.tokenizer()->encode_cut(given, true, most);
    if (!model.masks()) model.tokenizer()->pad(cut.ids);
  } else {
    cut.ids = model.tokenizer()->encode(given, true, most);
  }
  is_cut = cut.is_cut;
  return {cut.ids.begin(), cut.ids.end()};
}

}  // namespace

const json* RequestFields::take(const char* name) {
  taken_.insert(name);
  const auto found = body_.find(name);
  return found == body_.end() || found->is_null() ? nullptr : &*found;
}

double RequestFields::number(const char* name, double otherwise, double least, double most) {
  const json* value = take(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) fail(name, "is no number");
  const double result = value->get<double>();
  if (!(result >= least && result <= most))
    fail(name, fmt::format("is {}: expected {} to {}", result, least, most));
  return result;
}

std::int64_t RequestFields::integer(const char* name, std::int64_t otherwise, std::int64_t least,
                                    std::int64_t most) {
  const json* value = take(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer()) fail(name, "is no integer");
  const bool is_large =
      value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  const std::int64_t result = is_large ? INT64_MAX : value->get<std::int64_t>();
  if (result < least || result > most)
    fail(name, fmt::format("is {}: expected {} to {}", value->dump(), least, most));
  return result;
}

bool RequestFields::flag(const char* name, bool otherwise) {
  const json* value = take(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(name, "is neither true nor false");
  return value->get<bool>();
}

void RequestFields::refuse_unless(const char* name, const json& neutral, std::string_view instead) {
  const json* value = take(name);
  if (value != nullptr && *value != neutral)
    fail(name, fmt::format("is not supported{}{}", instead.empty() ? "" : ": ", instead));
}

std::vector<std::vector<TokenId>> RequestFields::texts(const char* name, const ServedModel& model,
                                                       std::size_t most, std::set<std::size_t>* cut,
                                                       std::string_view prompt) {
  const json* given = take(name);
  if (given == nullptr) fail(name, "is missing");
  const bool is_list = given->is_array() && !given->empty() && !given->front().is_number();
  std::vector<std::vector<TokenId>> result;
  const auto add = [&](const json& text) {
    bool is_cut = false;
    result.push_back(ids_of_text(name, text, model, is_cut, prompt));
    if (is_cut && cut != nullptr) cut->insert(result.size() - 1);
  };
  if (!is_list) {
    add(*given);
    return result;
  }
  if (given->size() > most)
    fail(name, fmt::format("has {} texts: {} at most", given->size(), most));
  for (const json& one : *given) add(one);
  return result;
}

void RequestFields::finish() const {
  for (const auto& [name, _] : body_.items())
    if (!taken_.contains(name) && name != "user" && name != "metadata")
      fail(name.substr(0, kMostShownBytes), "is not known");
}

void RequestFields::fail(const std::string& name, std::string_view what) {
  throw ApiError(400, fmt::format("'{}' {}", name, what), name);
}

}  // namespace sinter::tools
