// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http/head_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/serve/http/message.h"

namespace sinter::tools::http {
namespace {

/// RFC 9110, 5.6.2.
bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}
bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}
/// Of a value: everything but control characters.
bool is_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}
std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}
Refusal bad(std::string_view what) { return {400, std::string(what)}; }

std::optional<Refusal> check_request_line(std::string_view line, const Limits& limits,
                                          bool& is_1_0) {
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return bad("the request line is not 'METHOD TARGET HTTP/1.1'");
  const auto method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
             version = line.substr(last + 1);
  if (!is_token(method) || method.size() > 32) return bad("the request's method is no token");
  if (target.size() > limits.target_bytes)
    return Refusal{414, fmt::format("the request's target has {} bytes: {} at most", target.size(),
                                    limits.target_bytes)};
  const bool is_visible = std::ranges::all_of(
      target, [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; });
  if (target.empty() || !is_visible)
    return bad("the request's target has a blank or a control character");
  if (version == "HTTP/1.0") {
    is_1_0 = true;
  } else if (version != "HTTP/1.1") {
    if (version.starts_with("HTTP/"))
      return Refusal{505, "the server speaks HTTP/1.1 and HTTP/1.0"};
    return bad("the request line does not end with HTTP/1.1");
  }
  return std::nullopt;
}

}  // namespace

std::size_t HeadScanner::scan(std::string_view text, const Limits& limits,
                              std::optional<Refusal>& refusal) {
  if (scanned_ == 0 && !text.empty() && !is_token_char(text.front())) {
    refusal = bad(text.front() == '\x16' ? "this is TLS, and the server speaks plain HTTP"
                                         : "the request begins with no method");
    return 0;
  }
  // Request line: method, target and version.
  constexpr std::size_t kAroundTarget = 64;
  while (scanned_ < text.size()) {
    const auto end = text.find('\n', scanned_);
    const auto line_bytes = std::min(end, text.size()) - line_;
    if (line_ == 0 && line_bytes > limits.target_bytes + kAroundTarget) {
      refusal = Refusal{
          414, fmt::format("the request's target has more than {} bytes", limits.target_bytes)};
      return 0;
    }
    if (std::min(end, text.size()) > limits.header_bytes) {
      refusal = Refusal{431, fmt::format("the request's line and headers have more than {} bytes",
                                         limits.header_bytes)};
      return 0;
    }
    if (end == std::string_view::npos) {
      scanned_ = text.size();
      return 0;
    }
    if (end == line_ || text[end - 1] != '\r') {
      refusal = bad("a line of the request's head does not end with CR LF");
      return 0;
    }
    scanned_ = end + 1;
    if (end - line_ == 1) return scanned_;
    line_ = scanned_;
  }
  return 0;
}

std::optional<Refusal> check_head(std::string_view head, const Limits& limits) {
  std::size_t hosts = 0, lengths = 0, codings = 0, count = 0;
  bool is_1_0 = false;
  for (bool is_first = true;; is_first = false) {
    const auto end = head.find("\r\n");
    if (end == std::string_view::npos) return bad("the request's head does not end");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (is_first) {
      if (auto refusal = check_request_line(line, limits, is_1_0)) return refusal;
      continue;
    }
    if (line.empty()) break;
    if (++count > limits.headers)
      return Refusal{431, fmt::format("the request has more than {} headers", limits.headers)};
    if (line.front() == ' ' || line.front() == '\t')
      return bad("a header goes on in the next line (obs-fold)");
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) return bad("a header has no colon");
    if (!is_token(line.substr(0, colon)))
      return bad("a header's name is no token, or a blank is in front of its colon");
    const auto value = trimmed(line.substr(colon + 1));
    if (!is_text(value)) return bad("a header's value has a control character");
    const std::string name = lower(line.substr(0, colon));
    if (name == "host") {
      ++hosts;
    } else if (name == "content-length") {
      ++lengths;
      if (!is_digits(value) || value.size() > 18) return bad("Content-Length is no number");
    } else if (name == "transfer-encoding") {
      ++codings;
      if (lower(value) != "chunked")
        return Refusal{501, "Transfer-Encoding is something else than 'chunked'"};
    }
  }
  if (hosts > 1 || (hosts == 0 && !is_1_0)) return bad("the request needs one header Host");
  if (lengths > 1) return bad("the request has several headers Content-Length");
  if (codings > 1) return bad("the request has several headers Transfer-Encoding");
  if (lengths > 0 && codings > 0)
    return bad("the request has both Content-Length and Transfer-Encoding");
  if (codings > 0 && is_1_0) return bad("HTTP/1.0 has no Transfer-Encoding");
  return std::nullopt;
}

}  // namespace sinter::tools::http
