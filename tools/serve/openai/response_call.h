// SPDX-License-Identifier: Apache-2.0
// An answer to POST /v1/responses, whole or as typed events.
#pragma once

#include <cstddef>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tools/serve/openai/answer_call.h"
#include "tools/serve/openai/response_request.h"

namespace sinter::tools {

class ResponseCall final : public AnswerCall {
 public:
  ResponseCall(std::shared_ptr<ServedModel> model, ResponseRequest request, std::string id);
  std::optional<std::string> next() override;
  std::string whole() override;

 private:
  /// The response as it is by now.
  nlohmann::ordered_json response(std::string_view status) const;
  void take(const nlohmann::ordered_json& choice, std::string& events);
  void say(const std::string& text, const nlohmann::ordered_json& logprobs, std::string& events);
  void add_call(const nlohmann::ordered_json& call, std::string& events);
  /// Ends the message that is being said, if one is.
  void end_message(std::string_view status, std::string& events);
  void end(std::string& events);
  void add_event(std::string_view type, const nlohmann::ordered_json& fields, std::string& events);

  nlohmann::ordered_json echo_;
  std::string id_;
  std::time_t created_;
  nlohmann::ordered_json output_ = nlohmann::ordered_json::array();
  bool has_begun_ = false, in_message_ = false;
  std::string finish_;
  std::size_t events_ = 0;
};

}  // namespace sinter::tools
