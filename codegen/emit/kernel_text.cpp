// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/kernel_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinter::codegen {

std::string comment_text(std::string_view text) {
  std::string safe;
  for (const char c : text)
    safe += std::iscntrl(static_cast<unsigned char>(c)) != 0 || c == '\\' ? '?' : c;
  for (std::size_t at = 0; (at = safe.find("*/", at)) != std::string::npos;)
    safe.insert(at + 1, " ");
  return safe;
}

std::string kernel_heading(const std::string& name, const std::vector<std::string>& origins) {
  std::string text = fmt::format("// {}\n", comment_text(name));
  for (const std::string& origin : origins)
    text += fmt::format("// from {}\n", comment_text(origin));
  return text;
}

std::string conditions_text(std::span<const Condition> conditions, const ExprTable& exprs) {
  std::vector<std::string> all;
  for (const auto& condition : conditions) {
    const std::string size = exprs.dim(condition.expression()).to_string();
    if (condition.divisor() > 1)
      all.push_back(fmt::format("{} % {} == 0", size, condition.divisor()));
    if (condition.max() != INT64_MAX) all.push_back(fmt::format("{} <= {}", size, condition.max()));
  }
  return comment_text(fmt::format("{}", fmt::join(all, ", ")));
}

std::string signature_text(const std::string& name, const std::vector<std::string>& parameters) {
  std::string text = name + "(";
  const std::string indent(text.size(), ' ');
  std::size_t column = text.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string parameter = parameters[i] + (i + 1 < parameters.size() ? "," : ")");
    if (i > 0 && column + parameter.size() + 1 > 98) {
      text += "\n" + indent;
      column = indent.size();
    } else if (i > 0) {
      text += " ";
      ++column;
    }
    text += parameter;
    column += parameter.size();
  }
  return text;
}

std::string int_literal(std::int64_t value) {
  if (value == INT64_MIN) return "(-9223372036854775807LL - 1)";
  std::string digits = fmt::format("{}", value < 0 ? -value : value);
  if (value > INT32_MAX || value < -INT32_MAX) digits += "LL";
  return value < 0 ? fmt::format("(-{})", digits) : digits;
}

}  // namespace sinter::codegen
