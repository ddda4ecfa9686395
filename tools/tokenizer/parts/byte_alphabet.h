// SPDX-License-Identifier: Apache-2.0
// The alphabet of byte-level tokenizers: a printable character for each byte.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace sinter::tools {

/// The character, as UTF-8, that stands for each byte: bytes that are printable in Latin-1 (33 to
/// 126, 161 to 172, 174 to 255) for themselves, the others in order for U+0100 and on.
const std::array<std::string, 256>& byte_characters();

/// What `token` of the alphabet means as bytes; `token` itself if a character is not in it.
std::string bytes_of_characters(std::string_view token);

}  // namespace sinter::tools
