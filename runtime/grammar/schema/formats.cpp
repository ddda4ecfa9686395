// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema/formats.h"

#include <map>

#include <fmt/ranges.h>

#include "runtime/format_error.h"

namespace sinter::grammar {
namespace {

const std::map<std::string, std::string, std::less<>>& expressions() {
  static const auto all = [] {
    const std::string year = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
    const std::string date =
        year +
        "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
        "02-(?:0[1-9]|1[0-9]|2[0-8]))";
    const std::string time =
        "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"
        "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
    const std::string clock =
        "T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|"
        "[0-9]{1,4}S)";
    const std::string days =
        "(?:[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?|"
        "[0-9]{1,4}D)";
    const std::string label = "[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
    const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    const std::string four = octet + "(?:\\." + octet + "){3}";
    std::string six = "(?:h:){7}h|(?:h:){1,7}:|:(?:(?::h){1,7}|:)";
    for (int i = 1; i <= 6; ++i) six += fmt::format("|(?:h:){{1,{}}}(?::h){{1,{}}}", 7 - i, i);
    for (std::size_t at = 0; (at = six.find('h', at)) != std::string::npos;) {
      constexpr std::string_view kGroup = "[0-9a-fA-F]{1,4}";
      six.replace(at, 1, kGroup);
      at += kGroup.size();
    }
    const std::string character = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
    const std::string path = "(?:/" + character + "*)*";
    const std::string rest = "(?:\\?" + character + "*)?(?:#" + character + "*)?";
    const std::string uri =
        "[a-z][a-z0-9+.-]{0,15}://[A-Za-z][A-Za-z0-9]*"
        "(?:[.-][A-Za-z0-9]+)*(?::[1-9][0-9]{0,3})?" +
        path + rest;
    const std::string reference = "(?:" + uri + "|" + path + rest + ")";
    const std::string email =
        "[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*\\.[A-Za-z]{2,10}";
    const std::string pointer = "(?:/(?:[^/~]|~[01])*)*";
    return std::map<std::string, std::string, std::less<>>{
        {"date", date},
        {"time", time},
        {"date-time", date + "T" + time},
        {"duration", "P(?:[0-9]{1,4}W|" + days + "(?:" + clock + ")?|" + clock + ")"},
        {"email", email},
        {"idn-email", email},
        {"hostname", label + "(?:\\." + label + "){0,2}"},
        {"idn-hostname", "[a-z][a-z0-9]{0,20}(?:\\.[a-z][a-z0-9]{0,20}){0,3}"},
        {"ipv4", four},
        {"ipv6", six},
        {"uri", uri},
        {"iri", uri},
        {"uri-reference", reference},
        {"iri-reference", reference},
        {"uri-template", reference},
        {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
        {"json-pointer", pointer},
        {"relative-json-pointer", "(?:0|[1-9]{1,8})(?:#|" + pointer + ")"},
        {"byte",
         "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"},
        {"password", "(?:[^\\n]|\\n)*"},
    };
  }();
  return all;
}

}  // namespace

std::optional<Pattern> format_pattern(std::string_view format) {
  const auto found = expressions().find(format);
  if (found == expressions().end()) return std::nullopt;
  return parse_pattern(found->second, Anchoring::kWhole);
}

std::string format_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, _] : expressions()) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace sinter::grammar
