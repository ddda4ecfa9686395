// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http/message.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include <fmt/format.h>

namespace sinter::tools::http {
namespace {

/// RFC 9110, 5.6.7; the same for a second.
std::string date_line() {
  thread_local std::time_t when = 0;
  thread_local std::string line;
  const std::time_t now = std::time(nullptr);
  if (now != when) {
    when = now;
    std::tm parts{};
    gmtime_r(&now, &parts);
    constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    line = fmt::format("Date: {}, {:02} {} {} {:02}:{:02}:{:02} GMT\r\n", kDays[parts.tm_wday],
                       parts.tm_mday, kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour,
                       parts.tm_min, parts.tm_sec);
  }
  return line;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string_view Request::header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &Headers::value_type::first);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

bool Request::has(std::string_view name) const {
  return std::ranges::find(headers, name, &Headers::value_type::first) != headers.end();
}

std::string Request::media_type() const {
  std::string_view type = header("content-type");
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return lower(type);
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "";
  }
}

std::string head_of(const Response& response, bool keeps_alive, std::string_view framing) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  head += date_line();
  if (!response.type.empty()) head += fmt::format("Content-Type: {}\r\n", response.type);
  for (const auto& [name, value] : response.headers) head += fmt::format("{}: {}\r\n", name, value);
  head += framing;
  head += keeps_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::optional<std::string> decode_percent(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    unsigned char value = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const char* begin = text.data() + i + 1;
    const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
    if (error != std::errc() || end != begin + 2 || value == 0) return std::nullopt;
    result += static_cast<char>(value);
    i += 2;
  }
  return result;
}

}  // namespace sinter::tools::http
