#include "tools/compiler/verify/accuracy.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"
#include "tools/compiler/verify/measure.h"

namespace sinter::tools {
namespace {

/// What rounding weights to few bits costs whole models.
double bound_of_weights(const std::string& weights) {
  if (weights.starts_with("int8")) return 5e-2;
  if (weights.starts_with("int4")) return 3e-1;
  return 0;
}

double bound_of_precision(const std::string& precision) {
  // Relative errors of whole models: float32 sums in another order, 10-bit and 7-bit mantissas.
  if (precision == "fp16") return 5e-3;
  if (precision == "bf16") return 3e-2;
  if (precision == "tf32") return 3e-3;
  return 2e-5;
}

bool same_bytes(const ir::Tensor& a, const ir::Tensor& b) {
  return a.shape() == b.shape() &&
         std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

void save(const std::string& folder, std::string_view name, const Plan& plan,
          const std::vector<ir::Tensor>& outputs) {
  NamedTensors named;
  const auto bindings = plan.outputs();
  for (std::size_t i = 0; i < bindings.size(); ++i)
    named.emplace_back(bindings[i].name, outputs[i]);
  write_npz(fmt::format("{}/{}.npz", folder, name), named);
}

}  // namespace

double default_bound(DType type, const BuildOptions& build, bool cuda) {
  const double base =
      std::max(bound_of_precision(build.precision), bound_of_weights(build.weights.weights));
  // Kernels compute 16-bit results to a sixteenth of their rounding (--math): some round the other
  // way.
  if (!cuda || build.precise_math) return base;
  return type == DType::kFloat16    ? std::max(base, 2e-4)
         : type == DType::kBFloat16 ? std::max(base, 1e-3)
                                    : base;
}

bool Accuracy::ok() const {
  return same_bits && std::all_of(outputs.begin(), outputs.end(),
                                  [](const OutputAccuracy& output) { return output.ok(); });
}

std::vector<ir::Tensor> evaluate_reference(const ir::Graph& graph,
                                           const std::vector<ir::Tensor>& inputs, bool keep_wide,
                                           const Console& console) {
  Progress progress(console, "reference");
  ir::EvaluateOptions options;
  options.keep_wide = keep_wide;
  std::size_t done = 0;
  options.on_node = [&](const ir::Node&, std::span<const ir::Tensor>) {
    progress.update(++done, graph.nodes().size());
  };
  // A plan of lower precision takes caches in it.
  std::vector<ir::Tensor> own = inputs;
  for (std::size_t i = 0; i < std::min(own.size(), graph.inputs().size()); ++i) {
    const DType wanted = graph.type(graph.inputs()[i]).dtype;
    if (is_float(wanted) && is_float(own[i].dtype()))
      own[i] = ir::reference::convert(own[i], wanted);
  }
  return ir::evaluate(graph, own, options);
}

Accuracy measure_accuracy(const BuildResult& built, const BuildOptions& build,
                          const AccuracyOptions& options, const Console& console) {
  const auto plan = load_built(built.plan);
  const auto inputs = make_inputs(plan.inputs(), options.inputs);
  Session session(plan, options.session);
  set_inputs(session, plan, inputs);
  session.run();
  const auto outputs = get_outputs(session, plan);
  Accuracy accuracy;
  for (int run = 1; run < options.runs; ++run) {
    set_inputs(session, plan, inputs);  // the last run has changed states
    session.run();
    const auto again = get_outputs(session, plan);
    accuracy.same_bits =
        accuracy.same_bits && std::equal(outputs.begin(), outputs.end(), again.begin(), same_bytes);
  }
  const auto expected = evaluate_reference(built.model.graph, inputs, true, console);
  if (!options.save.empty()) {
    save(options.save, "outputs", plan, outputs);
    save(options.save, "reference", plan, expected);
    save(options.save, "rounded", plan,
         evaluate_reference(built.model.graph, inputs, false, console));
  }

  accuracy.shapes = describe_shapes(plan, inputs);
  accuracy.source = options.inputs.files.empty()
                        ? fmt::format("seed {}", options.inputs.seed)
                        : fmt::format("{}", fmt::join(options.inputs.files, " "));
  const auto bindings = plan.outputs();
  for (std::size_t i = 0; i < bindings.size(); ++i)
    accuracy.outputs.push_back({bindings[i].name, relative_error(outputs[i], expected[i]),
                                largest_difference(outputs[i], expected[i]),
                                options.bound > 0
                                    ? options.bound
                                    : default_bound(outputs[i].dtype(), build, built.target.cuda)});
  return accuracy;
}

std::string format_accuracy(const Accuracy& accuracy, const std::string& option) {
  std::vector<std::vector<std::string>> rows = {
      {"output", "relative error", "largest difference", ""}};
  for (const auto& output : accuracy.outputs)
    rows.push_back(
        {output.name, fmt::format("{:.2e}", output.relative_error),
         fmt::format("{:.2e}", output.largest_difference),
         output.ok() ? "ok" : fmt::format("DIFFERS ({} is {:.1e})", option, output.bound)});
  if (!accuracy.same_bits) rows.push_back({"all", "", "", "DIFFER from run to run"});
  return format_table(rows);
}

nlohmann::ordered_json to_json(const Accuracy& accuracy) {
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (const auto& output : accuracy.outputs)
    report.push_back({{"output", output.name},
                      {"relative_error", output.relative_error},
                      {"tolerance", output.bound},
                      {"ok", output.ok()}});
  return report;
}

}  // namespace sinter::tools
