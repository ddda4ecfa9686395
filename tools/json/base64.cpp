// SPDX-License-Identifier: Apache-2.0
#include "tools/json/base64.h"

#include <array>
#include <cstdint>

namespace sinter::tools {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> values() {
  std::array<std::int8_t, 256> all{};
  for (auto& each : all) each = -1;
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    all[static_cast<unsigned char>(kDigits[i])] = static_cast<std::int8_t>(i);
  return all;
}

}  // namespace

std::string base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t three = 0;
    for (std::size_t i = at; i < at + 3; ++i)
      three = three << 8 | (i < bytes.size() ? std::to_integer<std::uint32_t>(bytes[i]) : 0U);
    for (std::size_t digit = 0; digit < 4; ++digit)
      text += at + digit > bytes.size() ? '=' : kDigits[three >> (18 - 6 * digit) & 63U];
  }
  return text;
}

std::optional<std::string> bytes_of_base64(std::string_view text) {
  static constexpr auto kValues = values();
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const bool is_last = at + 4 == text.size();
    std::size_t padding = 0;
    if (is_last && text[at + 3] == '=') padding = text[at + 2] == '=' ? 2 : 1;
    std::uint32_t three = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto value = i + padding < 4 ? kValues[static_cast<unsigned char>(text[at + i])] : 0;
      if (value < 0) return std::nullopt;
      three = three << 6 | static_cast<std::uint32_t>(value);
    }
    for (std::size_t i = 0; i + padding < 3; ++i)
      bytes += static_cast<char>(three >> (16 - 8 * i) & 255U);
  }
  return bytes;
}

}  // namespace sinter::tools
