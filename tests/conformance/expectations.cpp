// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/expectations.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::conformance {
namespace {

using nlohmann::ordered_json;

std::vector<Expectation> read_entries(const ordered_json& entries) {
  std::vector<Expectation> result;
  for (const auto& entry : entries) {
    Expectation expectation{entry.at("case"), entry.at("reason"), {"cpu", "cuda"}};
    if (entry.contains("targets")) {
      const auto targets = entry["targets"].get<std::vector<std::string>>();
      expectation.targets = {targets.begin(), targets.end()};
    }
    expectation.fuse = entry.value("fuse", "");
    if (expectation.reason.empty())
      throw Error(ErrorCode::kUsage, fmt::format("'{}' has no reason", expectation.name));
    result.push_back(std::move(expectation));
  }
  return result;
}

ordered_json write_entries(const std::vector<Expectation>& expectations) {
  ordered_json entries = ordered_json::array();
  for (const auto& expectation : expectations) {
    ordered_json entry = {{"case", expectation.name}, {"reason", expectation.reason}};
    if (expectation.targets.size() == 1) entry["targets"] = expectation.targets;
    if (!expectation.fuse.empty()) entry["fuse"] = expectation.fuse;
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// The first line of an error, short enough for the list.
std::string first_line(const std::string& text) {
  constexpr std::size_t kLongest = 200;
  // An import error's first line says how many nodes are refused; the second names one.
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() < text.size() && line.ends_with(":")) {
    const auto start = text.find_first_not_of(" \n", line.size());
    if (start != std::string::npos) line = text.substr(start, text.find('\n', start) - start);
  }
  return line.size() > kLongest ? line.substr(0, kLongest) + ".." : line;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t skip = star; skip <= name.size(); ++skip)
    if (matches(rest, name.substr(skip))) return true;
  return false;
}

ExpectationList ExpectationList::load(const std::string& path, bool fuse) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorCode::kUsage, fmt::format("'{}' cannot be read", path));
  ExpectationList list;
  try {
    const auto json = ordered_json::parse(file);
    list.out_of_scope_ = read_entries(json.at("out_of_scope"));
    for (Expectation& entry : read_entries(json.at("expected_failures"))) {
      const bool applies = entry.fuse.empty() || (entry.fuse == "on") == fuse;
      (applies ? list.failures_ : list.other_failures_).push_back(std::move(entry));
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kUsage, fmt::format("'{}': {}", path, error.what()));
  }
  return list;
}

void ExpectationList::save(const std::string& path) const {
  std::vector<Expectation> all = failures_;
  all.insert(all.end(), other_failures_.begin(), other_failures_.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const ordered_json json = {{"out_of_scope", write_entries(out_of_scope_)},
                             {"expected_failures", write_entries(all)}};
  std::ofstream file(path);
  if (!(file << json.dump(1) << '\n'))
    throw Error(ErrorCode::kUsage, fmt::format("'{}' cannot be written", path));
}

std::string ExpectationList::out_of_scope(std::string_view name) const {
  for (const auto& entry : out_of_scope_)
    if (matches(entry.name, name)) return entry.reason;
  return "";
}

std::string ExpectationList::expected_failure(std::string_view name,
                                              std::string_view target) const {
  for (const auto& entry : failures_)
    if (entry.targets.contains(std::string(target)) && matches(entry.name, name))
      return entry.reason;
  return "";
}

void ExpectationList::update(std::string_view target,
                             const std::map<std::string, std::string>& failures,
                             const std::set<std::string>& passes) {
  const std::string name(target);
  for (auto& entry : failures_) {
    if (!entry.targets.contains(name)) continue;
    const auto fits = [&](const std::string& test) { return matches(entry.name, test); };
    const bool fails = std::any_of(failures.begin(), failures.end(),
                                   [&](const auto& failure) { return fits(failure.first); });
    if (!fails || std::any_of(passes.begin(), passes.end(), fits)) entry.targets.erase(name);
  }
  std::erase_if(failures_, [](const Expectation& entry) { return entry.targets.empty(); });
  for (const auto& [test, error] : failures) {
    if (!expected_failure(test, target).empty()) continue;
    const auto same = std::find_if(
        failures_.begin(), failures_.end(),
        [wanted = std::string_view(test)](const auto& entry) { return entry.name == wanted; });
    if (same != failures_.end())
      same->targets.insert(name);
    else
      failures_.push_back({test, first_line(error), {name}});
  }
  std::sort(failures_.begin(), failures_.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

std::vector<std::string> ExpectationList::unmatched(std::string_view target,
                                                    const std::set<std::string>& names) const {
  std::vector<std::string> stale;
  const auto collect = [&](const std::vector<Expectation>& entries) {
    for (const auto& entry : entries)
      if (entry.targets.contains(std::string(target)) &&
          std::none_of(names.begin(), names.end(),
                       [&](const auto& test) { return matches(entry.name, test); }))
        stale.push_back(entry.name);
  };
  collect(out_of_scope_);
  collect(failures_);
  return stale;
}

}  // namespace sinter::conformance
