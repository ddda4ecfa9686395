// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/answer_call.h"

#include <utility>

#include "tools/serve/api/api_error.h"
#include "tools/serve/api/json_text.h"

namespace sinter::tools {

std::string event_text(std::string_view name, std::string_view data) {
  std::string text;
  if (!name.empty()) text.append("event: ").append(name).append("\n");
  return text.append("data: ").append(data).append("\n\n");
}

std::optional<std::string> CompletionAnswer::next() {
  const auto piece = call_.take();
  if (!piece) return std::nullopt;
  std::string text = event_text("", dump(*piece));
  if (!call_.is_done()) return text;
  if (!call_.error().empty())
    text += event_text("", dump(ApiError(500, call_.error()).body()));
  else if (call_.request().include_usage)
    text += event_text("", dump(call_.usage_piece()));
  return text + event_text("", "[DONE]");
}

std::string CompletionAnswer::whole() {
  while (call_.take()) continue;
  if (!call_.error().empty()) throw ApiError(500, call_.error());
  return dump(call_.answer());
}

}  // namespace sinter::tools
