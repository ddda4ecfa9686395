#include "tools/serve/api/json_text.h"

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"

namespace sinter::tools {

using nlohmann::json;

json parse_object(std::string_view text) {
  constexpr int kMostDepth = 64;
  json result;
  try {
    result = json::parse(text, [](int depth, json::parse_event_t, const json&) {
      if (depth > kMostDepth)
        throw ApiError(400, fmt::format("the body has values in values, {} deep", depth));
      return true;
    });
  } catch (const json::exception& error) {
    throw ApiError(400, fmt::format("the body is not JSON: {}", error.what()));
  }
  if (!result.is_object()) throw ApiError(400, "the body is no JSON object");
  return result;
}

std::string dump(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace sinter::tools
