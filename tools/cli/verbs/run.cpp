// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/ranges.h>

#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "tools/cli/input_options.h"
#include "tools/cli/session_options.h"
#include "tools/cli/signature_option.h"
#include "tools/cli/text/table.h"
#include "tools/cli/trace_option.h"
#include "tools/cli/verbs/plan_source.h"
#include "tools/cli/verbs/verbs.h"
#include "tools/compiler/run/binding_texts.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/measure.h"
#include "tools/report/trace.h"

namespace sinter::tools {
namespace {

struct RunArguments {
  std::string plan;
  ModelTexts model;
  InputTexts inputs;
  std::string outputs, expected, trace;
  double tolerance = 1e-3;
  SessionOptions session;
  LoadOptions load;
};

/// Compares with the expected arrays; true if all are within the tolerance.
bool compare(const RunArguments& options, const Plan& plan, const std::vector<ir::Tensor>& outputs,
             const Console& console, nlohmann::ordered_json& report) {
  bool passed = true;
  Rows rows = {{"output", "relative error", "largest difference", ""}};
  const auto bindings = plan.outputs();
  const auto find = [&](const std::string& name) -> const ir::Tensor& {
    for (std::size_t i = 0; i < bindings.size(); ++i)
      if (bindings[i].name == name) return outputs[i];
    throw usage_error("'{}' expects output '{}', which the plan does not have", options.expected,
                      name);
  };
  // Checks shapes before arrays are decompressed.
  const auto check = [&](const std::string& name, DType, const std::vector<std::int64_t>& shape) {
    const ir::Tensor& found = find(name);
    if (found.shape() != shape)
      throw usage_error("output '{}' has shape [{}], expected is [{}]", name,
                        fmt::join(found.shape(), ", "), fmt::join(shape, ", "));
  };
  for (const auto& [name, stored] : read_npz(options.expected, check)) {
    const ir::Tensor& found = find(name);
    const ir::Tensor tensor = as_stored(stored, found.dtype());
    const double error = relative_error(found, tensor);
    const bool ok = error <= options.tolerance;
    passed = passed && ok;
    rows.push_back({name, fmt::format("{:.2e}", error),
                    fmt::format("{:.2e}", largest_difference(found, tensor)),
                    ok ? "ok" : "DIFFERS"});
    report["compared"].push_back({{"output", name}, {"relative_error", error}, {"ok", ok}});
  }
  console.print(format_table(rows));
  return passed;
}

int run_run(const RunArguments& options, const Console& console) {
  std::vector<std::string> read = tensor_paths(options.inputs.inputs.files);
  read.insert(read.end(), {options.plan, options.expected});
  files::check_output(options.outputs, read);
  files::check_output(options.trace, read);
  const auto plan = open_model(options.plan, options.model, options.load, console).plan;
  const RunInputs wanted = parse(options.inputs);
  const BindingTexts texts = texts_of(plan);
  const auto inputs = make_inputs(plan.inputs(), wanted, text_targets(plan));
  Session session(plan, options.session);
  set_inputs(session, plan, inputs);
  first_run(session, wanted);
  const auto outputs = get_outputs(session, plan);

  NamedTensors named;
  nlohmann::ordered_json report;
  Rows rows = {{"output", "type", "first values"}};
  const auto bindings = plan.outputs();
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    named.emplace_back(bindings[i].name, outputs[i]);
    std::vector<std::string> first;
    const auto found = texts.outputs.find(bindings[i].name);
    const auto* text = found == texts.outputs.end() ? nullptr : &found->second;
    for (std::int64_t k = 0; k < std::min<std::int64_t>(5, outputs[i].element_count()); ++k)
      first.push_back(shown_element(outputs[i], k, text));
    rows.push_back(
        {bindings[i].name,
         fmt::format("{}[{}]", to_string(outputs[i].dtype()), fmt::join(outputs[i].shape(), ", ")),
         fmt::format("{}", fmt::join(first, " "))});
    report["outputs"].push_back({{"name", bindings[i].name},
                                 {"dtype", to_string(outputs[i].dtype())},
                                 {"shape", outputs[i].shape()}});
    if (text != nullptr) report["outputs"].back()["labels"] = text->labels;
  }
  console.print(format_table(rows));
  if (!options.outputs.empty()) write_npz(options.outputs, named);
  if (!options.trace.empty())
    write_trace(options.trace, trace_of(plan, profile_steps(session), 0, options.plan), console);
  const bool passed = options.expected.empty() || compare(options, plan, outputs, console, report);
  console.result(report);
  return passed ? 0 : 1;
}

}  // namespace

void add_run(Cli& cli) {
  auto options = std::make_shared<RunArguments>();
  auto* verb = cli.app.add_subcommand("run", "Run a plan or a model once");
  verb->add_option("model", options->plan, "Plan, or a model: ONNX, GGUF, Graph text, folder")
      ->required();
  add_input_options(*verb, options->inputs);
  verb->group("Outputs");
  verb->add_option("--outputs FILE", options->outputs, "Write the outputs to this .npz file");
  verb->add_option("--expected FILE", options->expected,
                   "Compare with the arrays of this .npz file");
  verb->add_option("--tolerance E", options->tolerance,
                   "Most relative error ||a - b|| / ||b|| allowed")
      ->capture_default_str();
  add_trace_option(*verb, options->trace);
  add_session_options(*verb, options->session);
  add_signature_option(*verb, options->load);
  verb->add_threads_option();
  verb->add_graph_flag(options->session.cuda_graphs);
  verb->add_weight_budget(options->session.weight_budget);
  verb->group("Session");
  verb->add_option("--max-iterations N", options->session.max_iterations,
                   "Most iterations of all loops in a run")
      ->capture_default_str();
  add_model_options(*verb, options->model);
  verb->example("sinter run model.plan --inputs in.npz --outputs out.npz");
  verb->example("sinter run model.plan --shapes=x:4x8 --seed 7", "random inputs");
  verb->callback([options, &cli_console = cli.console, &exit_code = cli.exit_code] {
    exit_code = run_run(*options, cli_console);
  });
}

}  // namespace sinter::tools
