// SPDX-License-Identifier: Apache-2.0
// The alphabet of byte-level tokenizers: a printable character for each byte.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace sinter::tools {

/// The UTF-8 character that represents each byte: printable Latin-1 bytes (33 to 126, 161 to 172,
/// 174 to 255) represent themselves, others are U+0100 and following, in order.
const std::array<std::string, 256>& byte_characters();

/// The bytes that `token` represents; `token` itself if a character is not in the alphabet.
std::string bytes_of_characters(std::string_view token);

}  // namespace sinter::tools
