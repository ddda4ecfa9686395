// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/verify/accuracy.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/float8.h>

#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/measure.h"
#include "tools/compiler/verify/drawn_inputs.h"
#include "tools/compiler/verify/exact_caches.h"

namespace sinter::tools {
namespace {

/// Error bound of whole models with quantized weights.
double bound_of_weights(int bits) { return bits == 8 ? 5e-2 : bits == 4 ? 3e-1 : 0; }

/// Error bound of rows of quantized caches.
double bound_of_caches(CachePrecision precision) {
  return precision == CachePrecision::kFloat8 ? 5e-2
         : precision == CachePrecision::kInt8 ? 2e-2
                                              : 0;
}

/// Error bounds of whole models: float32 sums in another order, 10-bit and 7-bit mantissas.
double bound_of_precision(Precision precision) {
  switch (precision) {
    case Precision::kFloat16: return 5e-3;
    case Precision::kBFloat16: return 3e-2;
    case Precision::kTf32: return 3e-3;
    case Precision::kInt8:
    case Precision::kFloat8: return 1e-1;
    case Precision::kModel: break;
  }
  return 2e-5;
}

bool same_bytes(const ir::Tensor& a, const ir::Tensor& b) {
  return a.shape() == b.shape() && std::ranges::equal(a.bytes(), b.bytes());
}

void save(const std::string& folder, std::string_view name, const Plan& plan,
          const std::vector<ir::Tensor>& outputs) {
  NamedTensors named;
  const auto bindings = plan.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) named.emplace_back(bindings[i].name, outputs[i]);
  write_npz(fmt::format("{}/{}.npz", folder, name), named);
}

template <typename Bindings>
std::vector<std::string> names_of(const Bindings& bindings) {
  std::vector<std::string> names;
  names.reserve(bindings.size());
  for (const auto& binding : bindings) names.push_back(binding.name);
  return names;
}

/// long_inputs for the plan's inputs: --serve and --packed change them.
RunInputs drawn_for(const Plan& plan, const ir::Graph& model, const RunInputs& asked) {
  RunInputs drawn = long_inputs(model, asked);
  const std::vector<std::string> names = names_of(plan.inputs());
  const auto is_unknown = [&](const auto& entry) {
    return std::ranges::find(names, entry.first) == names.end() &&
           !asked.shapes.contains(entry.first) && !asked.ranges.contains(entry.first);
  };
  std::erase_if(drawn.shapes, is_unknown);
  std::erase_if(drawn.ranges, is_unknown);
  return drawn;
}

/// Measures on these inputs; `model` is the reference.
Accuracy measure(const BuildResult& built, const BuildOptions& build, const VerifyOptions& options,
                 const Reporter& reporter, const Plan& plan, const std::vector<ir::Tensor>& inputs,
                 const ir::Graph& model) {
  Session session(plan, options.session);
  set_inputs(session, plan, inputs);
  session.run();
  const auto stored = get_outputs(session, plan);
  const auto& caches = built.pipeline.context.caches;
  const auto outputs = with_exact_caches(stored, names_of(plan.outputs()), caches, false);
  const auto given = with_exact_caches(inputs, names_of(plan.inputs()), caches, true);
  Accuracy accuracy;
  for (int run = 1; run < options.runs; ++run) {
    reporter.check();
    set_inputs(session, plan, inputs);  // the last run has changed states
    session.run();
    const auto again = get_outputs(session, plan);
    accuracy.same_bits = accuracy.same_bits && std::ranges::equal(stored, again, same_bytes);
  }
  const auto expected = evaluate_reference(model, given, true, reporter);
  if (!options.save_folder.empty()) {
    save(options.save_folder, "outputs", plan, outputs);
    save(options.save_folder, "reference", plan, expected);
    save(options.save_folder, "rounded", plan, evaluate_reference(model, given, false, reporter));
  }

  accuracy.shapes = describe_shapes(plan, inputs);
  accuracy.source = source_of(options.inputs);
  // Cache scales are the last outputs, and none of the model's.
  const auto bindings = plan.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    accuracy.outputs.push_back(
        {bindings[i].name, relative_error(outputs[i], expected[i]),
         largest_difference(outputs[i], expected[i]),
         options.max_error > 0 ? options.max_error
                               : default_bound(outputs[i].dtype(), build, built.target.traits())});
  return accuracy;
}

}  // namespace

double default_bound(DType type, const CompileOptions& options, const ir::TargetTraits& target) {
  const double base =
      std::max({bound_of_precision(options.precision), bound_of_weights(options.weights.bits),
                bound_of_caches(options.states.cache_precision),
                options.attention_precision == AttentionPrecision::kFloat8 ? 1e-1 : 0.0});
  // Another summation order may round to the neighbouring number, which is far in 8 bits.
  if (is_float8(type)) return std::max(base, std::ldexp(1.0, -float8_format(type).mantissa_bits));
  // Kernels compute 16-bit results to 1/16 of their rounding error (--math), so some round
  // differently.
  if (!target.approximates_functions || options.precise_math) return base;
  return type == DType::kFloat16    ? std::max(base, 2e-4)
         : type == DType::kBFloat16 ? std::max(base, 1e-3)
                                    : base;
}

std::vector<ir::Tensor> evaluate_reference(const ir::Graph& graph,
                                           const std::vector<ir::Tensor>& inputs, bool keep_wide,
                                           const Reporter& reporter) {
  ir::EvaluateOptions options;
  options.keep_wide = keep_wide;
  std::size_t done = 0;
  options.on_node = [&](const ir::Node&, std::span<const ir::Tensor>) {
    reporter.progress("reference", ++done, graph.nodes().size());
  };
  // A plan of lower precision expects caches in that precision.
  std::vector<ir::Tensor> own = inputs;
  for (std::size_t i = 0; i < std::min(own.size(), graph.inputs().size()); ++i) {
    const DType wanted = graph.type(graph.inputs()[i]).dtype;
    if (is_float(wanted) && is_float(own[i].dtype()))
      own[i] = ir::reference::convert(own[i], wanted);
  }
  return ir::evaluate(graph, own, options);
}

namespace {

/// Measures on inputs drawn by `drawn`.
Accuracy measure_on(const RunInputs& drawn, const BuildResult& built, const BuildOptions& build,
                    const VerifyOptions& options, const Reporter& reporter, const Plan& plan) {
  auto inputs = make_inputs(plan.inputs(), drawn);
  const auto& flag = built.model.flag;
  if (!flag) return measure(built, build, options, reporter, plan, inputs, built.model.graph);
  // Measures both bodies; the worse result of each output counts.
  ir::Tensor& choice = inputs[plan.input_index(flag->input)];
  std::optional<Accuracy> both;
  for (std::size_t body = 0; body < flag->graphs.size(); ++body) {
    const auto value = static_cast<std::int64_t>(body);
    choice = ir::Tensor::from_ints(DType::kBool, choice.shape(), {&value, 1});
    Accuracy one = measure(built, build, options, reporter, plan, inputs, flag->graphs[body]);
    if (!both) {
      both = std::move(one);
      continue;
    }
    both->same_bits = both->same_bits && one.same_bits;
    for (std::size_t i = 0; i < both->outputs.size(); ++i)
      if (!(one.outputs[i].relative_error <= both->outputs[i].relative_error))
        both->outputs[i] = one.outputs[i];
  }
  return *both;
}

}  // namespace

Accuracy measure_accuracy(const BuildResult& built, const BuildOptions& build,
                          const VerifyOptions& options, const Reporter& reporter) {
  const auto plan = load_built(built.plan);
  try {
    return measure_on(drawn_for(plan, built.model.graph, options.inputs), built, build, options,
                      reporter, plan);
  } catch (const Error& error) {
    if (!are_too_long(error)) throw;
  }
  return measure_on(options.inputs, built, build, options, reporter, plan);
}

nlohmann::ordered_json to_json(const Accuracy& accuracy) {
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (const auto& output : accuracy.outputs)
    report.push_back({{"output", output.output},
                      {"relative_error", output.relative_error},
                      {"tolerance", output.max_error},
                      {"ok", output.ok()}});
  return report;
}

}  // namespace sinter::tools

namespace sinter {

bool Accuracy::ok() const {
  return same_bits &&
         std::ranges::all_of(outputs, [](const OutputAccuracy& output) { return output.ok(); });
}

}  // namespace sinter
