// SPDX-License-Identifier: Apache-2.0
// conformance: ONNX's backend test data through compile, plan bytes and session.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <fmt/format.h>
#include <onnx.pb.h>
#include <sinter/error.h>

#include "tests/conformance/execute.h"
#include "tests/conformance/expectations.h"
#include "tests/conformance/report.h"
#include "tests/conformance/scope.h"
#include "tests/conformance/workers.h"

namespace sinter::conformance {
namespace {

struct Options {
  std::string data, list, json, filter = "*", target = "cpu", commit;
  ExecuteOptions execute;
  int jobs = 0;
  double limit_s = 60;
  bool update = false, show = false, verbose = false;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("ONNX's backend test data through Sinter. Exit status: 0 as listed, 1 otherwise.");
  app.add_option("--data", options.data, "The folder onnx/backend/test/data")->required();
  app.add_option("--list", options.list, "Expected failures (list.json)")->required();
  app.add_option("--target", options.target, "cpu, cuda, or cuda:sm_90 to name the architecture")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--fuse", [&](const std::string& text) { options.execute.fuse = text == "on"; },
         "on, or off: every operator its own kernel")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_flag("!--compile-only", options.execute.run, "Run nothing: needs no GPU");
  app.add_option("--kernel-cache", options.execute.kernel_cache, "Folder of compiled kernels");
  app.add_option("--filter", options.filter,
                 "Cases to run: a name in which * is any text, "
                 "or several with commas between");
  app.add_option("-j,--jobs", options.jobs, "Processes; 0 is one for each core");
  app.add_option("--limit", options.limit_s, "Seconds that one case may take")
      ->capture_default_str();
  app.add_option("--json", options.json, "Write results to this file");
  app.add_option("--commit", options.commit, "What the results say that they are of");
  app.add_flag("--update", options.update, "Rewrite the expected failures of the list");
  app.add_flag("--show", options.show, "Name the cases that would run, and run none");
  app.add_flag("-v,--verbose", options.verbose, "Show every failure, expected ones too");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return options;
}

bool wanted(const std::string& filter, const std::string& name) {
  for (std::size_t start = 0; start <= filter.size();) {
    const auto end = std::min(filter.find(',', start), filter.size());
    const std::string pattern = filter.substr(start, end - start);
    if (matches(pattern, name) || matches("*/" + pattern, name)) return true;
    start = end + 1;
  }
  return false;
}

/// What a child says of a case, as JSON.
std::string run_case(const Case& test, const ExecuteOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  nlohmann::json answer;
  try {
    answer["fixed"] = execute(test, options);
  } catch (const Error& error) {
    answer["error"] = error.what();
    answer["code"] = to_string(error.code());
  } catch (const std::exception& error) {
    answer["error"] = fmt::format("unexpected exception: {}", error.what());
    answer["code"] = "internal";
  }
  answer["seconds"] =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void read_answer(const std::string& text, Result& result) {
  const auto answer = nlohmann::json::parse(text);
  result.seconds = answer["seconds"];
  if (answer.contains("error")) {
    result.error = answer["error"];
    result.code = answer["code"];
  } else {
    result.fixed = answer["fixed"].get<std::set<std::string>>();
  }
}

/// Finds the GPU, if one is asked for, in a process of its own: the driver does not survive a fork.
tools::Target find_target(const std::string& text) {
  std::string found, failure;
  spread(
      {1, 1, 60},
      [&](std::size_t) {
        try {
          return tools::resolve_target(text).to_string();
        } catch (const Error& error) {
          return fmt::format("!{}", error.what());
        }
      },
      [&](std::size_t, const std::string& answer) { found = answer; },
      [&](std::size_t, const std::string& why) { failure = why; });
  if (found.starts_with("!")) failure = found.substr(1);
  if (!failure.empty()) throw Error(ErrorCode::kDevice, failure);
  return tools::resolve_target(found);
}

int run(const Options& given) {
  Options options = given;
  options.execute.target = find_target(options.target);
  auto list = ExpectationList::load(options.list, options.execute.fuse);
  std::vector<Case> cases;
  Report report;
  report.target = options.execute.target.kind->name();
  std::set<std::string> names;
  for (auto& test : find_cases(options.data)) {
    names.insert(test.name);
    if (!wanted(options.filter, test.name)) continue;
    const auto model = read_model(test.model);
    Result result{test.name, operator_of(model)};
    result.out_of_scope = out_of_scope(model).value_or(list.out_of_scope(test.name));
    if (result.out_of_scope.empty()) {
      result.expected_failure = list.expected_failure(test.name, report.target);
      cases.push_back(std::move(test));
    }
    report.results.push_back(std::move(result));
  }
  if (options.show) {
    for (const auto& test : cases) fmt::print("{}\n", test.name);
    return 0;
  }
  std::map<std::string, Result*> by_name;
  for (auto& result : report.results) by_name[result.name] = &result;
  WorkOptions work{cases.size(), options.jobs, options.limit_s};
  if (work.jobs <= 0)
    work.jobs = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  spread(
      work, [&](std::size_t i) { return run_case(cases[i], options.execute); },
      [&](std::size_t i, const std::string& text) { read_answer(text, *by_name[cases[i].name]); },
      [&](std::size_t i, const std::string& why) {
        Result& result = *by_name[cases[i].name];
        result.error = why;
        result.code = "crash";
      });

  const bool whole = options.filter == "*";
  if (options.update) {
    if (!whole) throw Error(ErrorCode::kUsage, "--update wants all cases: leave --filter out");
    list.update(report.target, report.failures(), report.passes());
    list.save(options.list);
    for (auto& result : report.results)
      result.expected_failure = list.expected_failure(result.name, report.target);
  }
  if (whole) report.stale = list.unmatched(report.target, names);
  report.print(options.verbose);
  if (!options.json.empty())
    report.save(options.json, options.commit, options.execute.target.to_string(),
                options.execute.fuse);
  return report.as_expected() ? 0 : 1;
}

}  // namespace
}  // namespace sinter::conformance

int main(int argc, char** argv) {
  try {
    return sinter::conformance::run(sinter::conformance::parse(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
}
