// SPDX-License-Identifier: Apache-2.0
#include "frontend/model/attributes.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <onnx.pb.h>

#include "ir/text/similar.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
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
    if (hint.empty()) hint = ir::did_you_mean(name, names);
    throw invalid_model_error("attribute '{}' is not known{} (known: {})", name, hint,
                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
}

}  // namespace sinter::frontend
