// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/option_names.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tools/compiler/options/option_table.h"

namespace sinter::tools {
namespace {

// Options of calls with more than CompileOptions, and options that set several members.
constexpr std::array kOthers = {
    OptionName{"--calibration", "weights.calibration"},
    OptionName{"--max-error", "verify.max_error"},
    OptionName{"--op-library", "operator_libraries"},
    OptionName{"--partial", "partial"},
    OptionName{"--shapes", "shapes"},
};

bool is_of_flag(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

}  // namespace

std::span<const OptionName> option_names() {
  static const std::vector<OptionName> all = [] {
    std::vector<OptionName> names(kOthers.begin(), kOthers.end());
    for (const OptionRow& row : option_rows())
      if (!row.flag.empty() && !row.field.empty() &&
          std::ranges::find(kOthers, row.name(), &OptionName::flag) == kOthers.end())
        names.push_back({row.name(), row.field});
    return names;
  }();
  return all;
}

std::string with_fields(std::string_view message) {
  std::string result;
  while (!message.empty()) {
    const std::size_t at = message.find("--");
    result += message.substr(0, at);
    if (at == message.npos) break;
    const bool begins = at == 0 || !is_of_flag(message[at - 1]);
    message.remove_prefix(at);
    const auto end = std::ranges::find_if_not(message, is_of_flag);
    const std::string_view flag(message.begin(), end);
    const auto found = std::ranges::find(option_names(), flag, &OptionName::flag);
    result += begins && found != option_names().end() ? found->field : flag;
    message.remove_prefix(flag.size());
  }
  return result;
}

}  // namespace sinter::tools
