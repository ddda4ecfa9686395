// SPDX-License-Identifier: Apache-2.0
#include "tools/tokenizer/parts/byte_alphabet.h"

#include <unordered_map>

#include "runtime/engine/utf8.h"

namespace sinter::tools {
namespace {

using engine::append_utf8;
using engine::utf8_length;

}  // namespace

const std::array<std::string, 256>& byte_characters() {
  static const auto characters = [] {
    std::array<std::string, 256> result;
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_printable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      append_utf8(result[byte], is_printable ? byte : next++);
    }
    return result;
  }();
  return characters;
}

std::string bytes_of_characters(std::string_view token) {
  static const auto bytes = [] {
    std::unordered_map<std::string_view, char> result;
    for (unsigned byte = 0; byte < 256; ++byte)
      result.emplace(byte_characters()[byte], static_cast<char>(byte));
    return result;
  }();
  std::string result;
  for (std::size_t at = 0; at < token.size();) {
    const std::size_t length = utf8_length(token[at]);
    const auto found = length == 0 ? bytes.end() : bytes.find(token.substr(at, length));
    if (found == bytes.end()) return std::string(token);
    result += found->second;
    at += length;
  }
  return result;
}

}  // namespace sinter::tools
