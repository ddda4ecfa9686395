// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/json_text.h"

#include <sinter/error.h>

#include "tools/json/read_json.h"
#include "tools/serve/api/api_error.h"

namespace sinter::tools {

nlohmann::json parse_object(std::string_view text) {
  nlohmann::json result;
  try {
    result = read_json(text, "the body");
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
  if (!result.is_object()) throw ApiError(400, "the body is no JSON object");
  return result;
}

std::string dump(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace sinter::tools
