// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648), as JSON carries bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sinter::tools {

std::string base64(std::span<const std::byte> bytes);
/// Nothing for a text that is not whole groups of four digits, the last ones padding.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace sinter::tools
