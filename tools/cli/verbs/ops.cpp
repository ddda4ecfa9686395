// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/targets/registry.h"
#include "frontend/custom/expression.h"
#include "frontend/import.h"
#include "ir/text/similar.h"
#include "runtime/format_error.h"
#include "tools/cli/text/table.h"
#include "tools/cli/verbs/verbs.h"

namespace sinter::tools {
namespace {

/// The versions at which an operator's supported meaning changed: "1, 13".
std::string versions_of(const std::vector<frontend::SupportedOp>& ops,
                        const frontend::SupportedOp& op) {
  std::string text;
  for (const auto& other : ops)
    if (other.domain == op.domain && other.name == op.name)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", other.since_version);
  return text;
}

/// Each operator once, by family, in the order of `ops`.
std::map<std::string, std::vector<const frontend::SupportedOp*>> by_family(
    const std::vector<frontend::SupportedOp>& ops) {
  std::map<std::string, std::vector<const frontend::SupportedOp*>> families;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (i == 0 || ops[i].name != ops[i - 1].name || ops[i].domain != ops[i - 1].domain)
      families[ops[i].family].push_back(&ops[i]);
  return families;
}

/// "Softmax (1, 13)"; only the name if the meaning has not changed since version 1.
std::string with_versions(const std::vector<frontend::SupportedOp>& ops,
                          const frontend::SupportedOp& op) {
  const std::string versions = versions_of(ops, op);
  return versions == "1" ? op.name : fmt::format("{} ({})", op.name, versions);
}

void print_markdown(const Console& console) {
  const auto ops = frontend::supported_ops();
  const auto [first, last] = frontend::supported_opsets();
  console.print(
      "# Operators\n\nWritten by `tools/update_docs` from the importer's table; do not edit.\n\n"
      "Models may use opsets {} to {} of ai.onnx. Numbers are the versions at which an operator "
      "got a meaning\nthat import knows (none: 1); a version between two has the earlier meaning. "
      "Every target ({}) compiles\nevery operator. A line begins with the types that its operators "
      "compute on: floats are f16, bf16, f32, f64;\nintegers i8 to i64 and u8 to u64; "
      "numbers both; any also bool; float8 f8e4m3fn, f8e5m2 and their fnuz forms.",
      first, last, codegen::target_names());
  for (const auto& [family, members] : by_family(ops)) {
    std::map<std::string, std::vector<std::string>> by_types;
    for (const auto* op : members) by_types[op->types].push_back(with_versions(ops, *op));
    console.print("\n## {}\n", family);
    for (const auto& [types, names] : by_types)
      console.print("- {}: {}", types, fmt::join(names, ", "));
  }
}

/// Prints the functions available in expressions of operator definitions.
void print_functions(const Console& console) {
  const std::vector<std::string> names = frontend::expression_functions();
  console.print("{}", fmt::join(names, "\n"));
  console.result({{"functions", names}});
}

/// Throws if the importer knows no operator `name`.
void check_name(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& op : frontend::supported_ops()) known.push_back(op.name);
  if (std::ranges::find(known, name) == known.end())
    throw usage_error("import knows no operator '{}'{}; `sinter ops` lists them", name,
                      ir::did_you_mean(name, known));
}

/// Prints all operators, or only `name`.
void run_ops(const std::string& name, const Console& console) {
  if (!name.empty()) check_name(name);
  Rows rows = {{"domain", "operator", "since opset", "types", "targets"}};
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  // Every imported operator compiles for every target.
  nlohmann::ordered_json targets = nlohmann::ordered_json::array();
  for (const codegen::Target* target : codegen::targets()) targets.push_back(target->name());
  for (const auto& op : frontend::supported_ops()) {
    if (!name.empty() && op.name != name) continue;
    rows.push_back({op.domain, op.name, fmt::format("{}", op.since_version), op.types,
                    codegen::target_names()});
    nlohmann::ordered_json types = nlohmann::ordered_json::array();
    for (const DType type : op.dtypes) types.push_back(to_string(type));
    nlohmann::ordered_json attributes = nlohmann::ordered_json::array();
    for (const auto& each : op.attributes)
      attributes.push_back({{"name", each.name}, {"first", each.first}, {"last", each.last}});
    nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
    for (const auto& [version, names] : op.inputs)
      inputs.push_back({{"since", version}, {"names", names}});
    report.push_back({{"domain", op.domain},
                      {"operator", op.name},
                      {"since", op.since_version},
                      {"until", op.until},
                      {"attributes", attributes},
                      {"inputs", inputs},
                      {"family", op.family},
                      {"types", types},
                      {"targets", targets}});
  }
  const auto [first, last] = frontend::supported_opsets();
  console.print(format_table(rows));
  console.print("models may use versions {} to {} of ai.onnx", first, last);
  console.result({{"opsets", {first, last}}, {"operators", report}});
}

}  // namespace

void add_ops(Cli& cli) {
  auto name = std::make_shared<std::string>();
  auto markdown = std::make_shared<bool>(false);
  auto* verb = cli.app.add_subcommand("ops", "List the ONNX operators that import knows");
  verb->add_option("name", *name, "Only this operator: Conv");
  verb->group("Lists");
  verb->add_flag("--markdown", *markdown, "As frontend/OPERATORS.md has them");
  auto functions = std::make_shared<bool>(false);
  verb->add_flag("--functions", *functions,
                 "The functions that expressions of --op files may call instead");
  verb->example("sinter ops");
  verb->example("sinter ops Conv");
  verb->callback([name, markdown, functions, &console = cli.console] {
    if (*functions)
      print_functions(console);
    else
      *markdown ? print_markdown(console) : run_ops(*name, console);
  });
}

}  // namespace sinter::tools
