// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/attributes.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

#include <onnx.pb.h>

#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

/// Letters to insert, remove or change to make `b` of `a`; case does not count, as in "transb".
std::size_t distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, changed});
    }
  }
  return row.back();
}

/// The name of `names` that `name` may be a slip of, or nothing.
std::string nearest(std::string_view name, const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 64;  // names of a hostile file may be long
  if (name.size() > kLongest) return {};
  std::size_t best = name.size() / 2 + 1;
  std::string found;
  for (const std::string& each : names)
    if (const std::size_t d = distance(name, each); d < best) {
      best = d;
      found = each;
    }
  return found;
}

}  // namespace

void check_attributes(const onnx::NodeProto& node, const std::vector<KnownAttribute>& known) {
  std::set<std::string_view> given;
  for (const auto& attribute : node.attribute()) {
    const std::string& name = attribute.name();
    if (!given.insert(name).second)
      throw invalid_model_error("attribute '{}' is given twice", name);
    const auto found =
        std::ranges::find_if(known, [&](const KnownAttribute& each) { return each.name == name; });
    if (found != known.end() && found->elsewhere.empty()) continue;
    std::vector<std::string> names;
    for (const KnownAttribute& each : known)
      if (each.elsewhere.empty()) names.push_back(each.name);
    std::string hint = found != known.end() ? ": it is one of " + found->elsewhere : "";
    if (const std::string near = nearest(name, names); hint.empty() && !near.empty())
      hint = fmt::format(": did you mean '{}'?", near);
    throw invalid_model_error("attribute '{}' is not known{} (known: {})", name, hint,
                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
}

}  // namespace sinter::frontend
