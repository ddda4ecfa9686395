// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/trtexec.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinter::tools {
namespace {

// trtexec's options without an equal Sinter option. Options with the same name (--minShapes,
// --iterations, ..) are accepted as they are.
constexpr std::array<std::string_view, 12> kOfTrtexec = {
    "--onnx",        "--saveEngine", "--loadEngine",
    "--fp16",        "--bf16",       "--int8",
    "--fp8",         "--best",       "--timingCacheFile",
    "--memPoolSize", "--workspace",  "--useCudaGraph"};

/// "model.plan" for "folder/model.onnx".
std::string plan_of(std::string_view model) {
  if (const std::size_t slash = model.rfind('/'); slash != model.npos)
    model.remove_prefix(slash + 1);
  return fmt::format("{}.plan", model.substr(0, model.rfind('.')));
}

}  // namespace

std::string command_for_trtexec(std::span<const char* const> words) {
  std::map<std::string_view, std::string_view> given;
  for (const std::string_view word : words) {
    const std::size_t equals = word.find('=');
    given[word.substr(0, equals)] = equals == word.npos ? "" : word.substr(equals + 1);
  }
  if (std::ranges::none_of(kOfTrtexec, [&](std::string_view name) { return given.contains(name); }))
    return "";
  std::vector<std::string> result = {"sinter"};
  const auto take = [&](std::string_view option) {
    if (given.contains(option)) result.push_back(fmt::format("{}={}", option, given[option]));
  };
  if (given.contains("--loadEngine")) {
    result.insert(result.end(), {"bench", std::string(given["--loadEngine"])});
    for (const char* option : {"--shapes", "--iterations", "--duration"}) take(option);
    return fmt::format("{}", fmt::join(result, " "));
  }
  const std::string_view model = given["--onnx"].empty() ? "model.onnx" : given["--onnx"];
  const std::string plan =
      given["--saveEngine"].empty() ? plan_of(model) : std::string(given["--saveEngine"]);
  result.insert(result.end(), {"compile", std::string(model), "-o", plan, "--target=cuda"});
  if (given.contains("--bf16"))
    result.emplace_back("--precision=bf16");
  else if (given.contains("--fp16") || given.contains("--best") || given.contains("--int8") ||
           given.contains("--fp8"))
    result.emplace_back("--precision=fp16");
  if (given.contains("--int8") || given.contains("--best")) result.emplace_back("--weights=int8");
  for (const char* option : {"--minShapes", "--optShapes", "--maxShapes", "--shapes"}) take(option);
  if (given.contains("--timingCacheFile"))
    result.push_back(fmt::format("--tuning-cache={}", given["--timingCacheFile"]));
  return fmt::format("{}; then sinter bench {}", fmt::join(result, " "), plan);
}

}  // namespace sinter::tools
