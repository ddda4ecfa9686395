// SPDX-License-Identifier: Apache-2.0
// JSON of clients, and for them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sinter::tools {

/// Of a client: an object, by read_json (tools/json). Throws ApiError (400).
nlohmann::json parse_object(std::string_view text);
/// One line; what is no UTF-8 becomes U+FFFD.
std::string dump(const nlohmann::ordered_json& value);

}  // namespace sinter::tools
