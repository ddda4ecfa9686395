// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/describe.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace sinter::codegen {
namespace {

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool names_kernel(const Node& node) {
  return node.op->kind != OpKind::kView && !node.op->generate() && node.op->name != "Cast";
}

}  // namespace

std::string describe(const Node& node) {
  std::string text = node.op->name;
  constexpr std::size_t kMost = 3;
  for (std::size_t i = 0; i < std::min(kMost, node.origins.size()); ++i)
    text += (i == 0 ? " '" : ", '") + node.origins[i] + "'";
  if (node.origins.size() > kMost) text += ", ...";
  return text;
}

namespace {

/// "com.example::Scaled": the part after the last colon, as a C identifier.
std::string own_name(const std::string& full) {
  const std::size_t at = full.rfind(':');
  std::string name = "custom_" + (at == std::string::npos ? full : full.substr(at + 1));
  std::ranges::replace_if(
      name, [](unsigned char c) { return c > 127 || (std::isalnum(c) == 0 && c != '_'); }, '_');
  return name;
}

}  // namespace

std::string name_stem(const Node& node) {
  constexpr std::size_t kLongest = 60;
  std::vector<std::string> words;
  const auto add = [&](const Node& part) {
    const bool is_users = part.op->name == "CustomKernel" || part.op->name == "HostOperator";
    std::string word =
        lower_case(is_users ? own_name(part.attrs.get_string("operator")) : part.op->name);
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  };
  const auto add_all = [&](const Graph& body, const auto& self) -> void {
    const auto& nodes = body.nodes();
    // Views, casts and generated constants name a kernel only if it has no other operators.
    const bool any = std::ranges::any_of(nodes, names_kernel);
    for (const Node& part : nodes) {
      if (part.op->kind == OpKind::kFused)
        self(*part.body, self);
      else if (!any || names_kernel(part))
        add(part);
    }
  };
  if (node.body)
    add_all(*node.body, add_all);
  else
    add(node);
  std::string stem;
  for (const std::string& word : words) {
    if (!stem.empty() && stem.size() + 1 + word.size() > kLongest) break;
    stem += (stem.empty() ? "" : "_") + word;
  }
  return stem.empty() ? "copy" : stem;
}

}  // namespace sinter::codegen
