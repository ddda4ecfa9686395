// SPDX-License-Identifier: Apache-2.0
// Fields of a client's JSON, taken by name.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/models/served_model.h"

namespace sinter::tools {

/// Fields of a body, taken one by one; those that nobody took are unknown. What does not fit throws
/// ApiError (400) with the field's name.
class RequestFields {
 public:
  explicit RequestFields(const nlohmann::json& body) : body_(body) {}

  /// Null if it is not there, or null.
  const nlohmann::json* take(const char* name);
  double number(const char* name, double otherwise, double least, double most);
  std::int64_t integer(const char* name, std::int64_t otherwise, std::int64_t least,
                       std::int64_t most);
  bool flag(const char* name, bool otherwise = false);
  /// A field that may only have the value that has no effect.
  void refuse_unless(const char* name, const nlohmann::json& neutral, std::string_view instead);
  /// Texts as ids: a text, a list of texts, token ids, or a list of such; `most` texts. `cut` is
  /// given which of them the tokenizer cut (Tokenizer::encode_cut, for encoders). `prompt` stands
  /// in front of each text.
  std::vector<std::vector<TokenId>> texts(const char* name, const ServedModel& model,
                                          std::size_t most, std::set<std::size_t>* cut = nullptr,
                                          std::string_view prompt = "");
  /// Refuses fields that nobody took, but `user` and `metadata`.
  void finish() const;
  [[noreturn]] static void fail(const std::string& name, std::string_view what);

 private:
  const nlohmann::json& body_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace sinter::tools
