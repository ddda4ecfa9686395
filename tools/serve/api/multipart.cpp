// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/multipart.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"

namespace sinter::tools {
namespace {

constexpr std::size_t kMostParts = 64, kMostHeaders = std::size_t{16} << 10, kMostBoundary = 70;
constexpr std::string_view kLine = "\r\n";

[[noreturn]] void refuse(std::string_view what) {
  throw ApiError(400,
                 fmt::format("the body is no form with files (multipart/form-data): {}", what));
}

bool is_same(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(x) == lower(y);
  });
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// `name` of the parameters behind a header's value, as in `form-data; name="file"`.
std::optional<std::string> form_parameter(std::string_view header, std::string_view name) {
  std::size_t at = header.find(';');
  while (at < header.size()) {
    ++at;
    while (at < header.size() && (header[at] == ' ' || header[at] == '\t')) ++at;
    const std::size_t equals = header.find_first_of("=;", at);
    if (equals == std::string_view::npos) return std::nullopt;
    if (header[equals] == ';') {
      at = equals;
      continue;
    }
    const std::string_view key = trimmed(header.substr(at, equals - at));
    std::string value;
    at = equals + 1;
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        if (header[at] == '\\' && at + 1 < header.size()) ++at;
        value += header[at];
      }
      if (at >= header.size()) return std::nullopt;
      at = header.find(';', at);
    } else {
      const std::size_t end = header.find(';', at);
      value = trimmed(header.substr(at, end == std::string_view::npos ? end : end - at));
      at = end;
    }
    if (is_same(key, name)) return value;
  }
  return std::nullopt;
}

/// The headers of a part, a line each.
void read_headers(std::string_view headers, FormPart& part) {
  bool is_named = false;
  while (!headers.empty()) {
    const std::size_t end = std::min(headers.find(kLine), headers.size());
    const std::string_view line = headers.substr(0, end);
    headers.remove_prefix(std::min(end + kLine.size(), headers.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) refuse("a part has a header without a colon");
    if (!is_same(line.substr(0, colon), "Content-Disposition")) continue;
    const std::string_view value = trimmed(line.substr(colon + 1));
    const auto name = form_parameter(value, "name");
    if (!is_same(value.substr(0, value.find(';')), "form-data") || !name)
      refuse("a part has no name");
    part.name = *name;
    is_named = true;
    if (const auto file = form_parameter(value, "filename")) part.file = *file, part.is_file = true;
  }
  if (!is_named) refuse("a part has no name");
}

}  // namespace

std::vector<FormPart> parse_multipart(std::string_view content_type, std::string_view body) {
  if (!is_same(trimmed(content_type.substr(0, content_type.find(';'))), "multipart/form-data"))
    refuse("Content-Type says otherwise");
  const auto said = form_parameter(content_type, "boundary");
  if (!said || said->empty() || said->size() > kMostBoundary)
    refuse("Content-Type has no boundary of 1 to 70 characters");
  const std::string mark = "--" + *said, between = "\r\n" + mark;
  std::size_t at = body.starts_with(mark) ? 0 : body.find(between);
  if (at == std::string_view::npos) refuse("its boundary does not come");
  at += at == 0 ? mark.size() : between.size();
  std::vector<FormPart> parts;
  while (true) {
    const std::string_view rest = body.substr(at);
    if (rest.starts_with("--")) return parts;
    const std::size_t line = rest.find(kLine);
    if (line == std::string_view::npos || !trimmed(rest.substr(0, line)).empty())
      refuse("it ends within a part");
    if (parts.size() == kMostParts) refuse(fmt::format("it has more than {} parts", kMostParts));
    const std::string_view part = rest.substr(line);  // begins with the end of the line
    const std::size_t headers = part.substr(0, kMostHeaders).find("\r\n\r\n");
    if (headers == std::string_view::npos)
      refuse(fmt::format("a part's headers do not end within {} bytes", kMostHeaders));
    const std::size_t end = part.find(between, headers + kLine.size());
    if (end == std::string_view::npos) refuse("it ends within a part");
    FormPart& one = parts.emplace_back();
    read_headers(
        part.substr(std::min(kLine.size(), headers), headers > 0 ? headers - kLine.size() : 0),
        one);
    const std::size_t content = headers + 2 * kLine.size();
    one.content = content < end ? part.substr(content, end - content) : std::string_view();
    at += line + end + between.size();
  }
}

}  // namespace sinter::tools
