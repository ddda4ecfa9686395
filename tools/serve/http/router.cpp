// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/http/router.h"

#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinter::tools::http {
namespace {

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> segments;
  if (path.starts_with('/')) path.remove_prefix(1);
  while (true) {
    const auto slash = path.find('/');
    segments.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

/// Whether the route is of that path; then what its names stand for.
bool matches(const Route& route, const std::vector<std::string_view>& segments,
             std::vector<std::string>& parameters) {
  if (route.segments.size() != segments.size()) return false;
  parameters.clear();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (!route.segments[i].starts_with('{')) {
      if (route.segments[i] != segments[i]) return false;
      continue;
    }
    auto decoded = decode_percent(segments[i]);
    if (!decoded || decoded->empty()) return false;
    parameters.push_back(std::move(*decoded));
  }
  return true;
}

std::string list_of(std::set<std::string> methods) {
  if (methods.contains("GET")) methods.insert("HEAD");
  methods.insert("OPTIONS");
  return fmt::format("{}", fmt::join(methods, ", "));
}

}  // namespace

void Router::add(std::string method, std::string_view pattern, Work work, std::uint32_t marks,
                 Handler handler) {
  Route route{std::move(method), {}, work, marks, std::move(handler)};
  for (const std::string_view segment : segments_of(pattern)) route.segments.emplace_back(segment);
  routes_.push_back(std::move(route));
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  Match match;
  if (!path.starts_with('/')) return match;
  const auto segments = segments_of(path);
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  std::set<std::string> methods;
  std::vector<std::string> parameters;
  for (const Route& route : routes_) {
    if (!matches(route, segments, parameters)) continue;
    methods.insert(route.method);
    if (match.route != nullptr || route.method != wanted) continue;
    match.route = &route;
    match.parameters = parameters;
  }
  if (!methods.empty()) match.allowed = list_of(std::move(methods));
  return match;
}

std::string Router::all_methods() const {
  std::set<std::string> methods;
  for (const Route& route : routes_) methods.insert(route.method);
  return list_of(std::move(methods));
}

}  // namespace sinter::tools::http
