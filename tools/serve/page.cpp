// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/page.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "runtime/plan/hash.h"
#include "tools/serve/api/api_error.h"

namespace sinter::tools {
namespace {

/// Nothing from elsewhere, nothing inline; HTML only as DOMPurify has passed it; in no frame.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify";

std::string_view type_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {
      {{".html", "text/html; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".svg", "image/svg+xml"}}};
  for (const auto& [ending, type] : kTypes)
    if (name.ends_with(ending)) return type;
  return "text/plain; charset=utf-8";
}

}  // namespace

http::Response page_response(std::string_view name, const http::Request& request) {
  const auto& files = serve_page_files();
  const auto found = std::ranges::find(files, name, &ServePageFile::name);
  if (found == files.end()) throw ApiError(404, fmt::format("the page has no file '{}'", name));
  const std::string tag = fmt::format("\"{:016x}\"", plan::hash64(found->text));
  http::Response response{.type = std::string(type_of(name))};
  // A browser asks each time, and has it sent once.
  response.headers = {{"Cache-Control", "no-cache"},
                      {"ETag", tag},
                      {"Content-Security-Policy", std::string(kPolicy)},
                      {"Referrer-Policy", "no-referrer"}};
  if (request.header("if-none-match").find(tag) != std::string_view::npos)
    response.status = 304;
  else
    response.pieces.push_back({found->text, nullptr});
  return response;
}

}  // namespace sinter::tools
