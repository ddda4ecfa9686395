#include "frontend/row_checks.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx.pb.h>
#include <sinter/error.h>

#include "frontend/attributes.h"
#include "frontend/ops/input_names.h"

namespace sinter::frontend {
namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

/// Which versions of the operator of `row` have `attribute`, which `version` lacks, and what
/// `version` has in its place.
std::string where_else(const OpRow& row, const OpAttribute& attribute, std::int64_t version) {
  std::string text = version < attribute.first ? fmt::format("opsets from {} on", attribute.first)
                                               : fmt::format("opsets up to {}", attribute.last);
  const InputNames* inputs = find_input_names(row.domain, row.name, version);
  const auto names = inputs != nullptr ? words(inputs->names) : std::vector<std::string_view>();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (same_name(names[i], attribute.name))
      text += fmt::format("; opset {} has '{}' as input {}", version, names[i], i);
  return text;
}

/// What is known of attributes, for a node of `row` in `version`: those of other rows of the
/// operator say where they are from.
std::vector<KnownAttribute> known_attributes(const OpRow& row, std::int64_t version) {
  std::vector<KnownAttribute> known;
  const auto add = [&](const OpAttribute& each) {
    const bool holds = version >= each.first && version <= each.last;
    known.push_back({std::string(each.name), holds ? "" : where_else(row, each, version)});
  };
  for (const OpAttribute& each : attributes_of(row)) add(each);
  for (const OpRow& other : all_op_rows()) {
    if (&other == &row || other.domain != row.domain || other.name != row.name) continue;
    for (OpAttribute each : attributes_of(other)) {
      if (other.since_version < row.since_version)
        each.last = std::min<std::int64_t>(each.last, row.since_version - 1);
      const auto is_same = [&](const KnownAttribute& k) { return k.name == each.name; };
      if (std::none_of(known.begin(), known.end(), is_same)) add(each);
    }
  }
  return known;
}

/// An input that nobody reads would make another model than the one that its author meant: axes of
/// ReduceSum are an input from opset 13 on, and were an attribute.
void check_input_count(const onnx::NodeProto& node, const OpRow& row, std::int64_t version) {
  const InputNames* inputs = find_input_names(row.domain, row.name, version);
  if (inputs == nullptr || inputs->names.ends_with("..")) return;
  int given = node.input_size();
  while (given > 0 && node.input(given - 1).empty()) --given;
  const auto names = words(inputs->names);
  if (given <= static_cast<int>(names.size())) return;
  throw Error(
      ErrorCode::kInvalidModel,
      fmt::format("it has {} inputs, but opset {} has {} ({})", given, version, names.size(),
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace

void check_against_row(const onnx::NodeProto& node, const OpRow& row, std::int64_t version) {
  check_attributes(node, known_attributes(row, version));
  check_input_count(node, row, version);
}

}  // namespace sinter::frontend
