// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text/compile_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "ir/text/shown.h"
#include "tools/cli/text/table.h"
#include "tools/compiler/inspect/compile_report.h"
#include "tools/compiler/verify/accuracy.h"

namespace sinter::tools {

using nlohmann::ordered_json;

std::vector<std::string> states_text(const std::vector<StateResult>& states) {
  std::vector<std::string> lines;
  std::string in_place;
  std::size_t count = 0;
  for (const auto& state : states) {
    if (!state.in_place) {
      lines.push_back(fmt::format("state {} -> {}: copied after each run: {}",
                                  ir::shown(state.input), ir::shown(state.output),
                                  ir::shown(state.why_copied)));
      continue;
    }
    constexpr std::size_t kMostNames = 4;
    if (++count <= kMostNames) in_place += (count > 1 ? ", " : "") + ir::shown(state.input);
    if (count == kMostNames + 1) in_place += ", ..";
  }
  if (count > 0)
    lines.push_back(fmt::format("{} states are changed in place: {}", count, in_place));
  return lines;
}

std::vector<std::string> fusion_text(const CompileResult& result, bool all) {
  std::vector<std::string> lines;
  const auto add = [&](const FusionDecision& decision, const std::string& more) {
    lines.push_back(fmt::format("{} {} -> {}{}\n     {}", decision.fused ? "[x]" : "[ ]",
                                ir::shown(decision.producer), ir::shown(decision.consumer), more,
                                ir::shown(decision.reason)));
  };
  if (all) {
    for (const auto& decision : result.decisions) add(decision, "");
    for (const auto& choice : result.layouts)
      lines.push_back(
          fmt::format("layout of {}\n     {}", ir::shown(choice.node), ir::shown(choice.reason)));
    return lines;
  }
  // Groups decisions that differ only in numbers: repeated blocks are refused for equal reasons.
  struct Kind {
    const FusionDecision* first;
    std::size_t count = 0;
    double bytes = 0;
  };
  std::vector<Kind> kinds;
  std::map<std::string, std::size_t> places;
  std::size_t refused = 0;
  for (const auto& decision : result.decisions) {
    if (decision.fused) continue;
    ++refused;
    std::string key = decision.producer + "\n" + decision.consumer + "\n" + decision.reason;
    std::erase_if(key, [](unsigned char c) { return std::isdigit(c) != 0; });
    const auto [place, is_new] = places.emplace(std::move(key), kinds.size());
    if (is_new) kinds.push_back({&decision});
    Kind& kind = kinds[place->second];
    ++kind.count;
    kind.bytes += decision.bytes;
  }
  std::ranges::stable_sort(kinds, [](const Kind& a, const Kind& b) {
    return std::pair(a.bytes, a.count) > std::pair(b.bytes, b.count);
  });
  constexpr std::size_t kShown = 10;
  const std::size_t shown = std::min(kShown, kinds.size());
  lines.push_back(fmt::format(
      "fusion: {} of {} pairs fused, {} not{}", result.decisions.size() - refused,
      result.decisions.size(), refused,
      shown == 0             ? ""
      : shown < kinds.size() ? fmt::format("; the {} largest of {} kinds:", shown, kinds.size())
                             : ":"));
  for (const Kind& kind : std::span(kinds).first(shown))
    add(*kind.first,
        (kind.count > 1 ? fmt::format(", and {} like it", kind.count - 1) : "") +
            (kind.bytes > 0 ? fmt::format(" ({} at stake)", format_bytes(kind.bytes)) : ""));
  lines.push_back("all of them: --explain-fusion=all");
  return lines;
}

std::vector<std::string> layers_text(const CompileResult& result, bool is_calibrated) {
  if (result.layers.empty()) return {};
  const bool has_types = std::ranges::any_of(
      result.layers, [](const LayerResult& layer) { return !layer.type.empty(); });
  Rows rows{{"layer", "n", "k", has_types ? "operands" : "bits", "weight error", "output error",
             "before", "after", ""}};
  double before = 0, after = 0;
  std::size_t kept = 0;
  for (const auto& layer : result.layers) {
    before += layer.bytes_before;
    after += layer.bytes_after;
    kept += !layer.kept.empty();
    // Layers kept by name were not tried.
    const auto error = [untried = layer.bits == 0 && layer.output_error == 0](double value) {
      return untried ? std::string() : fmt::format("{:.2e}", value);
    };
    rows.push_back({layer.name, fmt::format("{}", layer.n), fmt::format("{}", layer.k),
                    layer.bits == 0       ? ""
                    : !layer.type.empty() ? layer.type
                                          : fmt::format("{}", layer.bits),
                    error(layer.weight_error), error(layer.output_error),
                    format_bytes(layer.bytes_before), format_bytes(layer.bytes_after),
                    !layer.kept.empty()    ? "kept: " + layer.kept
                    : !layer.wider.empty() ? "wider: " + layer.wider
                                           : ""});
  }
  return {format_table(rows),
          fmt::format("{} of {} layers quantized: their weights {} -> {}, the plan {} -> {}; "
                      "errors are relative, in the 2-norm, outputs on {}",
                      result.layers.size() - kept, result.layers.size(), format_bytes(before),
                      format_bytes(after), format_bytes(result.bytes_without_rounding),
                      format_bytes(static_cast<double>(result.plan_bytes)),
                      is_calibrated ? "the samples of --calibration" : "normal deviates")};
}

std::vector<std::string> caches_text(const std::vector<CacheResult>& caches) {
  if (caches.empty()) return {};
  Rows rows{{"cache", "shape", "elements", "row error", "before", "after"}};
  double before = 0, after = 0;
  for (const auto& cache : caches) {
    before += cache.bytes_before;
    after += cache.bytes_after;
    rows.push_back({cache.input, cache.shape, fmt::format("{} -> {}", cache.model_type, cache.type),
                    fmt::format("{:.2e}", cache.error), format_bytes(cache.bytes_before),
                    format_bytes(cache.bytes_after)});
  }
  return {format_table(rows),
          fmt::format("{} caches in rows of {} with a scale each, in states of their own ({}, ..): "
                      "{} -> {} for a typical shape; errors are relative, in the 2-norm, of normal "
                      "deviates",
                      caches.size(), caches.front().type, caches.front().scales,
                      format_bytes(before), format_bytes(after))};
}

std::vector<std::string> tuning_text(const TuningResult& tuning) {
  std::vector<std::string> lines;
  if (!tuning.kernels.empty()) {
    Rows rows = {{"kernel", "uses", "by rule", "us", "chosen", "us", "tried"}};
    for (const TunedKernelResult& kernel : tuning.kernels) {
      std::vector<std::string> row = {kernel.name, fmt::format("{}", kernel.uses)};
      if (kernel.rule_us <= 0) {
        row.insert(row.end(), {kernel.rule, "", kernel.problem, "", ""});
      } else {
        const bool same = kernel.chosen == kernel.rule;
        row.insert(row.end(),
                   {kernel.rule, fmt::format("{:.2f}", kernel.rule_us),
                    same ? "the rule's" : kernel.chosen, fmt::format("{:.2f}", kernel.chosen_us),
                    fmt::format("{} of {}", kernel.tried, kernel.candidates - 1)});
      }
      rows.push_back(std::move(row));
    }
    lines.push_back(fmt::format("on {}, {}:", tuning.gpu, tuning.versions));
    lines.push_back(format_table(rows));
  }
  if (!tuning.libraries.empty()) {
    Rows rows = {{"problem", "us", "chosen"}};
    for (const TunedLibraryCall& call : tuning.libraries)
      rows.push_back({call.problem.substr(0, call.problem.find(" | ")),
                      fmt::format("{:.2f}", call.microseconds), call.chosen});
    lines.push_back(format_table(rows));
  }
  return lines;
}

std::string accuracy_text(const Accuracy& accuracy, const std::string& option) {
  Rows rows = {{"output", "relative error", "largest difference", ""}};
  for (const auto& output : accuracy.outputs)
    rows.push_back(
        {output.output, fmt::format("{:.2e}", output.relative_error),
         fmt::format("{:.2e}", output.largest_difference),
         output.ok() ? "ok" : fmt::format("DIFFERS ({} is {:.1e})", option, output.max_error)});
  if (!accuracy.same_bits) rows.push_back({"all", "", "", "DIFFER from run to run"});
  return format_table(rows);
}

namespace {

ordered_json tuning_json(const TuningResult& tuning) {
  ordered_json json;
  if (!tuning.gpu.empty()) {
    json["gpu"] = tuning.gpu;
    json["kernels"] = ordered_json::array();
    for (const TunedKernelResult& kernel : tuning.kernels)
      json["kernels"].push_back({{"kernel", kernel.name},
                                 {"uses", kernel.uses},
                                 {"rule", kernel.rule},
                                 {"rule_us", kernel.rule_us},
                                 {"chosen", kernel.chosen},
                                 {"chosen_us", kernel.chosen_us},
                                 {"tried", kernel.tried},
                                 {"candidates", kernel.candidates},
                                 {"problem", kernel.problem}});
  }
  for (const TunedLibraryCall& call : tuning.libraries)
    json["libraries"].push_back({{"environment", call.environment},
                                 {"problem", call.problem},
                                 {"us", call.microseconds},
                                 {"chosen", call.chosen}});
  json["file"] = tuning.file;
  json["kernels_from_cache"] = tuning.kernels_from_file;
  return json;
}

}  // namespace

ordered_json to_json(const CompileResult& result) {
  if (!result.ok()) return {{"plan", nullptr}, {"measured", to_json(*result.accuracy)}};
  ordered_json passes = ordered_json::array(), states = ordered_json::array(),
               layers = ordered_json::array(), caches = ordered_json::array();
  for (const auto& pass : result.passes) passes.push_back(to_json(pass));
  for (const auto& state : result.states)
    states.push_back({{"input", state.input},
                      {"output", state.output},
                      {"in_place", state.in_place},
                      {"why_copied", state.why_copied}});
  for (const auto& layer : result.layers) layers.push_back(to_json(layer));
  for (const auto& cache : result.caches)
    caches.push_back({{"input", cache.input},
                      {"output", cache.output},
                      {"scales", cache.scales},
                      {"model_type", cache.model_type},
                      {"type", cache.type},
                      {"shape", cache.shape},
                      {"error", cache.error},
                      {"bytes_before", cache.bytes_before},
                      {"bytes_after", cache.bytes_after}});
  ordered_json json = {{"plan", result.path},
                       {"bytes", result.plan_bytes},
                       {"target", result.target},
                       {"nodes_imported", result.nodes_imported},
                       {"steps", result.steps},
                       {"kernels", result.kernels},
                       {"kernels_from_cache", result.kernels_from_cache},
                       {"import_ms", result.import_ms},
                       {"passes_ms", result.passes_ms},
                       {"codegen_ms", result.codegen_ms},
                       {"passes", passes},
                       {"states", states},
                       {"caches", caches},
                       {"layers", layers},
                       {"precision_notes", result.precision_notes}};
  if (!result.layers.empty()) json["bytes_without_rounding"] = result.bytes_without_rounding;
  if (result.accuracy) json["measured"] = to_json(*result.accuracy);
  if (result.tuning) json["tuning"] = tuning_json(*result.tuning);
  return json;
}

}  // namespace sinter::tools
