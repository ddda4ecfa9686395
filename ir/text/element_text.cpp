// SPDX-License-Identifier: Apache-2.0
// Elements of constants as lossless text.
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "ir/text/lexer.h"

namespace sinter::ir::text {
namespace {

std::uint64_t bits_of(DType dtype, const std::byte* p) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, p, size_of(dtype));
  return bits;
}

template <typename T>
bool parse_all(std::string_view text, T& value, auto... format) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, format...);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_float(DType dtype, std::string_view text, std::byte* p) {
  if (text.starts_with("nan(0x") && text.ends_with(")")) {
    std::uint64_t bits = 0;
    if (!parse_all(text.substr(6, text.size() - 7), bits, 16)) return false;
    std::byte element[8];
    std::memcpy(element, &bits, sizeof(bits));
    const bool fits = size_of(dtype) == 8 || bits >> (8 * size_of(dtype)) == 0;
    if (!fits || !std::isnan(load_as_double(dtype, element))) return false;
    std::memcpy(p, element, size_of(dtype));
    return true;
  }
  double value = 0;
  if (text == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (text == "inf" || text == "-inf") {
    value = text == "inf" ? HUGE_VAL : -HUGE_VAL;
  } else if (dtype == DType::kFloat64) {
    if (!parse_all(text, value, std::chars_format::general)) return false;
  } else {
    float narrow = 0;  // the shortest float32 text must not be parsed via float64
    if (!parse_all(text, narrow, std::chars_format::general)) return false;
    value = narrow;
  }
  if (text.ends_with("nan") && text != "nan") return false;
  store_double(dtype, p, value);
  return true;
}

}  // namespace

std::string element_text(DType dtype, const std::byte* p) {
  if (dtype == DType::kBool) {
    const std::uint64_t bits = bits_of(dtype, p);
    return bits > 1 ? fmt::format("0x{:02x}", bits) : bits != 0 ? "true" : "false";
  }
  if (dtype == DType::kUInt64) return fmt::format("{}", bits_of(dtype, p));
  if (!is_float(dtype)) return fmt::format("{}", load_as_int(dtype, p));
  const double value = load_as_double(dtype, p);
  if (std::isnan(value)) {
    std::byte usual[8];
    store_double(dtype, usual, std::numeric_limits<double>::quiet_NaN());
    const std::uint64_t bits = bits_of(dtype, p);
    return bits == bits_of(dtype, usual) ? "nan" : fmt::format("nan(0x{:x})", bits);
  }
  return dtype == DType::kFloat64 ? fmt::format("{}", value)
                                  : fmt::format("{}", static_cast<float>(value));
}

bool parse_element(DType dtype, std::string_view text, std::byte* p) {
  if (is_float(dtype)) return parse_float(dtype, text, p);
  if (dtype == DType::kBool) {
    std::uint8_t bits = 0;
    if (text == "true" || text == "false")
      bits = text == "true" ? 1 : 0;
    else if (!text.starts_with("0x") || !parse_all(text.substr(2), bits, 16))
      return false;
    std::memcpy(p, &bits, 1);
    return true;
  }
  if (dtype == DType::kUInt64) {
    std::uint64_t value = 0;
    if (!parse_all(text, value)) return false;
    std::memcpy(p, &value, sizeof(value));
    return true;
  }
  std::int64_t value = 0;
  if (!parse_all(text, value)) return false;
  store_int(dtype, p, value);
  return load_as_int(dtype, p) == value;
}

}  // namespace sinter::ir::text
