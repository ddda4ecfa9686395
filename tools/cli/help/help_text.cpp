// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/help/help_text.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/compiler/options/option_table.h"

namespace sinter::tools {
namespace {

constexpr std::size_t kColumn = 26;  // column where descriptions begin

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// The left column of an option: "--math precise|short", "--serve[=block=N,..]", "-o, --output
/// FILE".
std::string left_of(const OptionHelp& option) {
  if (option.positional) return upper(option.names) + (option.repeated ? "..." : "");
  std::string left = option.names;
  if (const std::size_t comma = left.find(','); comma != left.npos) left.insert(comma + 1, " ");
  constexpr std::size_t kShort = 18;
  const std::string joined = fmt::format("{}", fmt::join(option.values, "|"));
  const std::string value =
      !joined.empty() && (option.type.empty() || joined.size() <= kShort) ? joined : option.type;
  if (value.empty()) return left;
  return option.optional_value ? fmt::format("{}[={}]", left, value)
                               : fmt::format("{} {}", left, value);
}

std::string line_of(const OptionHelp& option) {
  std::string left = "  " + left_of(option);
  left += left.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ')
                                    : std::string(kColumn - left.size(), ' ');
  std::string text = option.help;
  if (!option.standard.empty()) text += fmt::format(" [default: {}]", option.standard);
  if (option.required && !option.positional) text += " (required)";
  return left + wrap(text, kColumn) + '\n';
}

std::string groups_of(const VerbHelp& verb) {
  std::vector<std::string> groups;
  for (const OptionHelp& option : verb.options)
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  std::string text;
  for (const std::string& group : groups) {
    text += fmt::format("\n{}:\n", group);
    for (const OptionHelp& option : verb.options)
      if (option.group == group) text += line_of(option);
  }
  return text;
}

/// A command; if it is too long, breaks lines before options with a backslash. Options are never
/// quoted.
std::string lines_of(const std::string& command) {
  std::string text, line = "  ";
  std::size_t start = 0;
  while (start < command.size()) {
    const std::size_t end = std::min(command.find(" -", start + 1), command.size());
    const std::string part = command.substr(start, end - start);
    if (line.size() + part.size() + 2 > kHelpWidth && line.size() > 2) {
      text += line + " \\\n";
      line = "     ";
    }
    line += part;
    start = end;
  }
  return text + line + '\n';
}

std::string examples_of(const std::vector<Example>& examples) {
  std::string text = examples.empty() ? "" : "\nExamples:\n";
  for (const Example& example : examples) {
    if (!example.comment.empty()) text += "  # " + wrap(example.comment, 4) + '\n';
    text += lines_of(example.command);
  }
  return text;
}

}  // namespace

std::string wrap(const std::string& text, std::size_t indent, std::size_t width) {
  std::string result;
  std::size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > width) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string help_text(const VerbHelp& verb, const VerbHelp& general) {
  std::string usage = fmt::format("Usage: sinter {}", verb.name);
  VerbHelp ordered = verb;
  std::stable_partition(ordered.options.begin(), ordered.options.end(),
                        [](const OptionHelp& option) { return option.positional; });
  for (const OptionHelp& option : ordered.options)
    if (option.positional)
      usage += option.required ? " " + left_of(option) : fmt::format(" [{}]", left_of(option));
  for (const OptionHelp& option : ordered.options)
    if (!option.positional && option.required) usage += " " + left_of(option);
  return wrap(usage + " [OPTIONS]", 0) + "\n\n" + wrap(verb.description + ".", 0) + "\n" +
         groups_of(ordered) + groups_of(general) + examples_of(verb.examples);
}

std::string help_text(const VerbHelp& general, std::span<const VerbHelp> verbs,
                      const std::string& end) {
  std::string text = wrap(general.description, 0) + "\n\nUsage: sinter VERB [OPTIONS]\n\nVerbs:\n";
  constexpr std::size_t kNames = 14;
  for (const VerbHelp& verb : verbs)
    text += fmt::format("  {:<12}{}\n", verb.name, wrap(verb.description, kNames));
  return text + groups_of(general) + examples_of(general.examples) + end;
}

nlohmann::ordered_json to_json(const VerbHelp& verb) {
  nlohmann::ordered_json options = nlohmann::ordered_json::array();
  for (const OptionHelp& option : verb.options) {
    nlohmann::ordered_json one = {{"names", option.names},           {"type", option.type},
                                  {"values", option.values},         {"default", option.standard},
                                  {"group", option.group},           {"help", option.help},
                                  {"positional", option.positional}, {"required", option.required},
                                  {"repeated", option.repeated}};
    const OptionRow* row = option.positional ? nullptr : find_option(option.name());
    one["keyword"] = row == nullptr ? "" : std::string(row->keyword);
    options.push_back(std::move(one));
  }
  nlohmann::ordered_json examples = nlohmann::ordered_json::array();
  for (const Example& example : verb.examples)
    examples.push_back({{"command", example.command}, {"comment", example.comment}});
  return {{"verb", verb.name},
          {"description", verb.description},
          {"options", options},
          {"examples", examples}};
}

}  // namespace sinter::tools
