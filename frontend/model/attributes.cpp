// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/attributes.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <onnx.pb.h>

#include "ir/text/similar.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

/// `ignored`: see ignored_attributes; null: none is ignored.
void check(const onnx::NodeProto& node, const std::vector<KnownAttribute>& known,
           std::map<std::string, std::string, std::less<>>* ignored) {
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
    if (ignored != nullptr && found == known.end()) {
      const std::string similar = ir::nearest(name, names);
      const auto is_given = [&](const auto& each) { return each.name() == similar; };
      if (!similar.empty() && std::ranges::none_of(node.attribute(), is_given)) {
        ignored->emplace(similar, name);
        continue;
      }
    }
    std::string hint = found != known.end() ? ": it is one of " + found->elsewhere : "";
    if (hint.empty()) hint = ir::did_you_mean(name, names);
    throw invalid_model_error("attribute '{}' is not known{} (known: {})", name, hint,
                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
}

}  // namespace

void check_attributes(const onnx::NodeProto& node, const std::vector<KnownAttribute>& known) {
  check(node, known, nullptr);
}

std::map<std::string, std::string, std::less<>> ignored_attributes(
    const onnx::NodeProto& node, const std::vector<KnownAttribute>& known) {
  std::map<std::string, std::string, std::less<>> ignored;
  check(node, known, &ignored);
  return ignored;
}

}  // namespace sinter::frontend
