// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text/plan_text.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text/shown.h"
#include "tools/cli/text/table.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;
using Strings = std::vector<std::string>;

std::string string(const ordered_json& object, const char* key) {
  return ir::shown(object.at(key).get<std::string>());
}

/// A list of strings.
Strings strings(const ordered_json& object, const char* key) {
  Strings all = object.at(key).get<Strings>();
  for (std::string& text : all) text = ir::shown(text);
  return all;
}

std::string number(const ordered_json& object, const char* key) { return object.at(key).dump(); }

/// The array under `key`; empty if absent.
const ordered_json& list(const ordered_json& report, const char* key) {
  static const ordered_json none = ordered_json::array();
  const auto found = report.find(key);
  return found == report.end() ? none : *found;
}

/// Inputs or outputs; states are printed separately.
void add_bindings(const ordered_json& report, const char* what, Lines& lines) {
  std::set<std::string> states;
  for (const auto& state : list(report, "states")) states.insert(string(state, what));
  for (const auto& binding : list(report, fmt::format("{}s", what).c_str()))
    if (!states.contains(string(binding, "name")))
      lines.push_back(
          fmt::format("{} {}: {}", what, string(binding, "name"), string(binding, "type")));
}

}  // namespace

Lines plan_summary_text(const ordered_json& report) {
  Lines lines;
  const auto architectures = strings(report, "architectures");
  const int cuda = report.at("cuda_version").get<int>();
  lines.push_back(
      fmt::format("plan for {}{}, written by sinter {}{}", string(report, "target"),
                  architectures.empty() ? "" : fmt::format(" ({})", fmt::join(architectures, ", ")),
                  string(report, "compiler"),
                  cuda > 0 ? fmt::format(" with NVRTC {}.{}", cuda / 1000, cuda % 1000 / 10) : ""));
  if (report.contains("model")) {
    lines.push_back(fmt::format("model {} ({}), {} nodes; {}", string(report, "model"),
                                string(report, "model_hash"), number(report, "nodes_imported"),
                                fmt::join(strings(report, "options"), ", ")));
    for (const auto& note : strings(report, "precision_notes"))
      lines.push_back("precision: " + note);
    for (const auto& output : list(report, "measured"))
      lines.push_back(fmt::format("measured: output {}, relative error {:.2e}",
                                  string(output, "output"),
                                  output.at("relative_error").get<double>()));
  }
  for (const auto& code : list(report, "custom_code"))
    lines.push_back(
        fmt::format("custom code: {}, {}{}", string(code, "operator"), string(code, "kind"),
                    string(code, "kind") == "host function"
                        ? "; a library that has it is named when the plan is loaded (--op-library)"
                        : fmt::format(" ({})", string(code, "hash"))));
  add_bindings(report, "input", lines);
  add_bindings(report, "output", lines);
  for (const auto& state : list(report, "states")) {
    const auto& inputs = list(report, "inputs");
    const auto input = std::ranges::find_if(
        inputs, [&](const auto& binding) { return binding.at("name") == state.at("input"); });
    lines.push_back(fmt::format("state {} -> {}: {}", string(state, "input"),
                                string(state, "output"), string(*input, "type")));
  }
  for (const auto& entry : list(report, "entries"))
    lines.push_back(fmt::format("entry {}: {}, {} steps", string(entry, "name"),
                                string(entry, "limits"), number(entry, "steps")));
  lines.push_back(fmt::format("{} steps, weights {}", number(report, "steps"),
                              format_bytes(report.at("weight_bytes").get<double>())));
  return lines;
}

Lines steps_text(const ordered_json& report, std::size_t most) {
  Rows rows = {{"step", "kind", "launches", "read", "written", "flops", "from"}};
  for (const auto& step : list(report, "step_list")) {
    const std::string name =
        std::string(2 * step.at("depth").get<std::size_t>(), ' ') + string(step, "name");
    rows.push_back({step.contains("entry") ? string(step, "entry") + ": " + name : name,
                    string(step, "ways"), number(step, "launches") + string(step, "runs"),
                    string(step, "bytes_read"), string(step, "bytes_written"),
                    string(step, "flops"),
                    fmt::format("{}", fmt::join(strings(step, "origins"), ", "))});
  }
  Lines lines = {format_table(rows, most)};
  if (const auto totals = report.find("totals"); totals != report.end())
    lines.push_back(fmt::format("{} steps, {} launches; {} read, {} written, {:.3f} GFLOP",
                                number(*totals, "steps"), number(*totals, "launches"),
                                format_bytes(totals->at("bytes_read").get<double>()),
                                format_bytes(totals->at("bytes_written").get<double>()),
                                totals->at("flops").get<double>() * 1e-9));
  return lines;
}

Lines kernels_text(const ordered_json& report, std::size_t most) {
  Rows rows = {{"kernel", "block", "grid", "shared", "when", "schedule", "by"}};
  for (const auto& kernel : list(report, "kernels")) {
    std::string blocks = fmt::format("{}", fmt::join(strings(kernel, "grid"), " x "));
    if (const int cluster = kernel.at("cluster").get<int>(); cluster > 1)
      blocks += fmt::format(" in clusters of {}", cluster);
    else if (cluster == 0)
      blocks += " at once";
    const auto conditions = strings(kernel, "conditions");
    // Variants for all architectures are named only by their function.
    const auto architectures = strings(kernel, "architectures");
    std::string function = string(kernel, "function");
    if (architectures.size() < strings(report, "architectures").size())
      function += fmt::format(" ({})", fmt::join(architectures, ", "));
    rows.push_back(
        {function, fmt::format("{}", fmt::join(kernel.at("block").get<std::vector<int>>(), "x")),
         blocks, number(kernel, "shared_bytes"),
         conditions.empty() ? "always" : fmt::format("{}", fmt::join(conditions, " and ")),
         string(kernel, "schedule"), string(kernel, "chosen_by")});
  }
  if (rows.size() == 1) return {"no kernels: the CPU target runs loop programs"};
  return {format_table(rows, most)};
}

Lines source_text(const ordered_json& report) {
  Lines lines;
  for (const auto& source : list(report, "sources")) {
    for (const auto& schedule : strings(source, "schedules")) lines.push_back(schedule);
    lines.push_back(source.at("source").get<std::string>());  // has several lines
  }
  if (lines.empty()) lines.emplace_back("no CUDA text: this plan is for the CPU");
  return lines;
}

Lines memory_text(const ordered_json& report) {
  Rows rows = {{"buffer", "kind", "bytes", "offset", "steps"}};
  for (const auto& buffer : list(report, "buffers")) {
    const bool arena = buffer.contains("offset");
    rows.push_back(
        {number(buffer, "buffer"), string(buffer, "kind"), number(buffer, "bytes"),
         arena ? number(buffer, "offset") : "",
         arena ? number(buffer, "first_step") + ".." + number(buffer, "last_step") : ""});
  }
  return {format_table(rows),
          fmt::format("arena {}; without reuse it would be {}",
                      format_bytes(report.at("arena_bytes").get<double>()),
                      format_bytes(report.at("arena_bytes_without_reuse").get<double>()))};
}

Lines plan_tuning_text(const ordered_json& report) {
  Lines lines;
  std::string environment;
  Rows rows;
  const auto flush = [&] {
    if (!rows.empty()) lines.push_back(environment + "\n" + format_table(rows));
    rows.clear();
  };
  for (const auto& entry : list(report, "tuning")) {
    if (string(entry, "environment") != environment) flush();
    environment = string(entry, "environment");
    if (rows.empty()) rows = {{"problem", "us", "chosen"}};
    // The tactics with their sizes follow the bar; a hash precedes a kernel's name.
    const std::string problem = string(entry, "problem");
    rows.push_back({entry.at("is_schedule").get<bool>()
                        ? problem.substr(std::min(problem.find(' ') + 1, problem.size()))
                        : problem.substr(0, problem.find(" | ")),
                    fmt::format("{:.2f}", entry.at("us").get<double>()), string(entry, "chosen")});
  }
  flush();
  if (lines.empty())
    lines.push_back(fmt::format("nothing has been chosen by timing yet: there is no {}",
                                string(report, "tuning_file")));
  return lines;
}

}  // namespace sinter::tools
