// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page.h"

#include <algorithm>

#include "runtime/format_error.h"
#include "tools/report/report.h"

namespace sinter::tools {
namespace {

constexpr std::string_view kOpen = "<script type=\"application/json\" id=\"data\">";
constexpr std::string_view kClose = "</script>";

/// Escapes '<', which is the only character that can end a script element; in JSON it occurs only
/// within strings. A model's names may contain anything.
std::string safe_json(const nlohmann::ordered_json& data) {
  const std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string safe_html(std::string_view text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '&': safe += "&amp;"; break;
      default: safe += c;
    }
  return safe;
}

/// Fills in the template's placeholders: files {{file:NAME}}, the title {{title}} and the data
/// {{data}}.
std::string fill(std::string_view page, std::string_view title, std::string_view data) {
  std::string result;
  while (!page.empty()) {
    const std::size_t open = page.find("{{"), close = page.find("}}", open);
    if (open == std::string_view::npos || close == std::string_view::npos) break;
    const std::string_view name = page.substr(open + 2, close - open - 2);
    result += page.substr(0, open);
    page.remove_prefix(close + 2);
    constexpr std::string_view kFile = "file:";
    if (name == "title")
      result += title;
    else if (name == "data")
      result += data;
    else if (name.starts_with(kFile))
      result += page_file(name.substr(kFile.size()));
    else
      throw internal_error("the report's page has no '{}'", name);
  }
  return result += page;
}

}  // namespace

std::string_view page_file(std::string_view name) {
  const auto found = std::ranges::find(page_files(), name, &PageFile::name);
  return found == page_files().end() ? std::string_view() : found->text;
}

std::string report_page(const nlohmann::ordered_json& report,
                        const nlohmann::ordered_json& against) {
  nlohmann::ordered_json data = {{"report", report}, {"against", against}};
  const std::string title =
      safe_html(report.at("summary").at("title").get<std::string>()) + " - Sinter report";
  return fill(page_file("report.html"), title, safe_json(data));
}

nlohmann::ordered_json data_of_page(std::string_view html, const std::string& path) {
  const std::size_t open = html.find(kOpen);
  const std::size_t close = open == std::string_view::npos ? open : html.find(kClose, open);
  if (close != std::string_view::npos) {
    const std::string_view text = html.substr(open + kOpen.size(), close - open - kOpen.size());
    auto data = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!data.is_discarded() && data.is_object() && data.contains("report") &&
        data["report"].is_object() && data["report"].contains("summary"))
      return data["report"];
  }
  throw usage_error("'{}' is no report of `sinter report`", path);
}

}  // namespace sinter::tools
