// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/report.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include <fmt/format.h>
#include <onnx.pb.h>
#include <sinter/error.h>

#include "tools/cli/text/table.h"

namespace sinter::conformance {
namespace {

struct Counts {
  int in_scope = 0, passed = 0, out_of_scope = 0;
};

Counts count(const std::vector<Result>& results) {
  Counts counts;
  for (const auto& result : results) {
    counts.in_scope += result.in_scope() ? 1 : 0;
    counts.passed += result.passed() ? 1 : 0;
    counts.out_of_scope += result.in_scope() ? 0 : 1;
  }
  return counts;
}

std::map<std::string, std::vector<Result>> by_operator(const std::vector<Result>& results) {
  std::map<std::string, std::vector<Result>> groups;
  for (const auto& result : results) groups[result.op].push_back(result);
  return groups;
}

double percent(const Counts& counts) {
  return counts.in_scope == 0 ? 100 : 100.0 * counts.passed / counts.in_scope;
}

}  // namespace

bool Report::as_expected() const {
  return stale.empty() && std::none_of(results.begin(), results.end(),
                                       [](const Result& result) { return result.unexpected(); });
}

std::map<std::string, std::string> Report::failures() const {
  std::map<std::string, std::string> failed;
  for (const auto& result : results)
    if (result.in_scope() && !result.passed()) failed.emplace(result.name, result.error);
  return failed;
}

std::set<std::string> Report::passes() const {
  std::set<std::string> passed;
  for (const auto& result : results)
    if (result.passed()) passed.insert(result.name);
  return passed;
}

void Report::print(bool verbose) const {
  std::vector<std::vector<std::string>> table = {{"operator", "in scope", "passed", "failed"}};
  for (const auto& [op, group] : by_operator(results)) {
    const Counts counts = count(group);
    if (counts.in_scope == counts.passed && !verbose) continue;
    table.push_back({op, std::to_string(counts.in_scope), std::to_string(counts.passed),
                     std::to_string(counts.in_scope - counts.passed)});
  }
  if (table.size() > 1) fmt::print("{}\n", tools::format_table(table));
  for (const auto& result : results) {
    if (!result.in_scope() || (!result.unexpected() && !verbose)) continue;
    if (!result.error.empty())
      fmt::print("{} {}\n    {}\n", result.unexpected() ? "FAILED" : "failed as expected",
                 result.name, result.error);
    else if (result.unexpected())
      fmt::print("PASSED, but is listed as failing: {} ({})\n", result.name,
                 result.expected_failure);
  }
  for (const auto& name : stale) fmt::print("listed, but there is no such case: {}\n", name);
  const Counts counts = count(results);
  const auto unexpected = std::count_if(results.begin(), results.end(),
                                        [](const Result& result) { return result.unexpected(); });
  fmt::print("{}: {} cases, {} out of scope, {} in scope: {} passed ({:.2f} %), {} failed; {}\n",
             target, results.size(), counts.out_of_scope, counts.in_scope, counts.passed,
             percent(counts), counts.in_scope - counts.passed,
             unexpected == 0 ? "all as listed" : fmt::format("{} not as listed", unexpected));
}

void Report::save(const std::string& path, const std::string& commit,
                  const std::string& target_option, bool fuse) const {
  using nlohmann::ordered_json;
  const Counts counts = count(results);
  ordered_json json = {{"commit", commit},
                       {"target", target_option},
                       {"fuse", fuse},
                       {"cases", results.size()},
                       {"out_of_scope", counts.out_of_scope},
                       {"in_scope", counts.in_scope},
                       {"passed", counts.passed},
                       {"percent", percent(counts)},
                       {"as_listed", as_expected()}};
  ordered_json& operators = json["operators"] = ordered_json::object();
  for (const auto& [op, group] : by_operator(results)) {
    const Counts part = count(group);
    operators[op] = {{"in_scope", part.in_scope}, {"passed", part.passed}};
  }
  ordered_json& failed = json["failed"] = ordered_json::object();
  ordered_json& fixed = json["compiled_for_values_of"] = ordered_json::object();
  std::map<std::string, int> reasons;
  for (const auto& result : results) {
    if (!result.in_scope()) ++reasons[result.out_of_scope];
    if (result.in_scope() && !result.passed())
      failed[result.name] = {{"code", result.code}, {"error", result.error}};
    if (!result.fixed.empty()) fixed[result.name] = result.fixed;
  }
  json["out_of_scope_reasons"] = reasons;
  std::ofstream file(path);
  if (!(file << json.dump(1) << '\n'))
    throw Error(ErrorCode::kUsage, fmt::format("'{}' cannot be written", path));
}

std::string operator_of(const onnx::ModelProto& model) {
  std::set<std::string> types;
  for (const auto& node : model.graph().node())
    if (node.op_type() != "Constant") types.insert(node.op_type());
  return types.size() == 1 ? *types.begin() : "(several)";
}

}  // namespace sinter::conformance
