// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/verify/region_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <sinter/error.h>
#include <sinter/float8.h>
#include <sinter/sinter.h>

#include "codegen/program/describe.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"
#include "runtime/plan/plan_data.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/measure.h"

namespace sinter::tools {
namespace {

using ir::Graph;
using ir::GraphBuilder;
using ir::Node;
using ir::Tensor;
using ir::ValueId;

/// The reference's results of every node, unrounded.
std::vector<std::vector<Tensor>> evaluate_nodes(const Graph& graph,
                                                std::span<const Tensor> inputs) {
  std::vector<std::vector<Tensor>> results;
  ir::EvaluateOptions options;
  options.keep_wide = true;
  options.on_node = [&](const Node&, std::span<const Tensor> values) {
    results.emplace_back(values.begin(), values.end());
  };
  ir::evaluate(graph, inputs, options);
  return results;
}

/// A graph's regions with their results as outputs, in order.
struct Taken {
  Graph graph;
  std::vector<Tensor> inputs;
  std::vector<std::size_t> regions;  // node indices in the original graph
};

class Taker {
 public:
  Taker(const Graph& graph, std::span<const Tensor> inputs)
      : old_(graph), builder_(graph.name()), mapped_(graph.values().size()) {
    for (const auto& [symbol, range] : graph.ranges()) builder_.range(symbol, range);
    taken_.inputs.assign(inputs.begin(), inputs.end());
    for (const ValueId input : graph.inputs())
      map(input) = builder_.input(graph.value(input).name, graph.type(input));
    for (std::size_t i = 0; i < graph.values().size(); ++i) {
      const ir::Value& value = graph.values()[i];
      if (value.constant) mapped_[i] = builder_.constant(value.constant, value.name);
    }
  }

  /// `results`: the reference's results, which regions then read; empty: regions read each other's.
  /// `only`: extracts a single region, by its node.
  Taken take(const std::vector<std::vector<Tensor>>& results,
             std::optional<std::size_t> only = {}) {
    for (std::size_t n = 0; n < old_.nodes().size(); ++n) {
      const Node& node = old_.nodes()[n];
      const bool region = node.op->kind == ir::OpKind::kFused && (!only || *only == n);
      if (region || results.empty()) add(node, n);
      if (region) taken_.regions.push_back(n);
      for (std::size_t k = 0; !results.empty() && k < node.outputs.size(); ++k)
        map(node.outputs[k]) = feed(node.outputs[k], n, k, results[n][k]);
    }
    taken_.graph = builder_.finish();
    return std::move(taken_);
  }

 private:
  ValueId& map(ValueId old) { return mapped_[static_cast<std::size_t>(old.index)]; }

  void add(const Node& node, std::size_t n) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(map(input));
    GraphBuilder::OriginScope scope(builder_, node.origins);
    const auto outputs = builder_.add_multi(node.op->name, inputs, node.attrs, node.body);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      map(node.outputs[k]) = outputs[k];
      if (node.op->kind == ir::OpKind::kFused)
        builder_.output(fmt::format("region{}.{}", n, k), outputs[k]);
    }
  }

  /// Replaces the value by an input with the reference's result.
  ValueId feed(ValueId old, std::size_t n, std::size_t k, const Tensor& result) {
    if (old_.users(old).empty()) return map(old);
    const ir::TensorType& type = old_.type(old);
    taken_.inputs.push_back(ir::reference::convert(result, type.dtype));
    return builder_.input(fmt::format("value{}.{}", n, k), type);
  }

  const Graph& old_;
  GraphBuilder builder_;
  std::vector<ValueId> mapped_;
  Taken taken_;
};

/// Whether all values can be inputs: a plan's input dimensions must be numbers or symbols.
bool can_be_fed(const Graph& graph) {
  for (const Node& node : graph.nodes())
    for (const ValueId output : node.outputs)
      for (const ir::Dim& dim : graph.type(output).shape)
        if (!dim.is_constant() && !dim.as_symbol()) return false;
  return true;
}

void narrowest(const Graph& body, double& bound, bool tf32, bool& floats) {
  for (const ir::Value& value : body.values()) {
    if (!is_float(value.type.dtype)) continue;
    floats = true;
    if (is_float8(value.type.dtype)) {  // a rounding step of the type, if both round differently
      const int mantissa = float8_format(value.type.dtype).mantissa_bits;
      bound = std::max(bound, std::ldexp(1.0, -mantissa));
      continue;
    }
    switch (value.type.dtype) {
      case DType::kFloat16: bound = std::max(bound, 2e-3); break;
      case DType::kBFloat16: bound = std::max(bound, 1.6e-2); break;
      case DType::kFloat64: bound = std::max(bound, 1e-12); break;
      default: bound = std::max(bound, tf32 ? 3e-3 : 2e-5);
    }
  }
  for (const Node& node : body.nodes())
    if (node.body) narrowest(*node.body, bound, tf32, floats);
}

std::vector<Tensor> run_compiled(const Taken& taken, const codegen::CompileOptions& options,
                                 const SessionOptions& session_options) {
  const auto compiled = codegen::compile(taken.graph, options);
  const auto plan = Plan::from_memory(plan::serialize_plan(compiled.parts));
  Session session(plan, session_options);
  set_inputs(session, plan, taken.inputs);
  session.run();
  return get_outputs(session, plan);
}

/// Runs each region alone on the reference's results. False if none fails: then the error is not
/// caused by a region.
bool run_one_by_one(const Graph& graph, std::span<const Tensor> inputs,
                    const std::vector<std::vector<Tensor>>& reference, const RegionOptions& options,
                    const SessionOptions& session, RegionCheck& check) {
  bool any = false;
  for (RegionResult& region : check.regions) {
    const Taken one = Taker(graph, inputs).take(reference, region.node);
    try {
      const std::vector<Tensor> found = run_compiled(one, options.compile, session);
      const auto expected = evaluate_nodes(one.graph, one.inputs);
      for (std::size_t k = 0; k < found.size(); ++k)
        region.error = std::max(region.error, relative_error(found[k], expected[0][k]));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      region.error = std::numeric_limits<double>::infinity();
      region.failure = error.what();
      any = true;
    }
  }
  return any;
}

}  // namespace

double region_bound(const Node& region, bool tf32) {
  double bound = 0;
  bool floats = false;
  narrowest(*region.body, bound, tf32, floats);
  const bool exact = std::ranges::none_of(region.body->outputs(), [&](ValueId output) {
    return is_float(region.body->type(output).dtype);
  });
  // A comparison of two almost equal floats may differ.
  return exact && floats ? std::max(bound, 1e-3) : bound;
}

bool RegionCheck::ok() const { return first_failure() == nullptr; }

const RegionResult* RegionCheck::first_failure() const {
  const auto found =
      std::ranges::find_if(regions, [](const RegionResult& region) { return !region.ok(); });
  return found == regions.end() ? nullptr : &*found;
}

RegionCheck check_regions(const Graph& fused, std::span<const Tensor> inputs, RegionInputs mode,
                          const RegionOptions& options, const SessionOptions& session) {
  RegionCheck check;
  Graph graph = fused;
  if (mode == RegionInputs::kReference && !can_be_fed(fused)) {
    graph = specialised(fused, ir::bind_symbols(fused, inputs));
    check.specialised = true;
  }
  const auto reference = evaluate_nodes(graph, inputs);
  const bool fed = mode == RegionInputs::kReference;
  const Taken taken =
      Taker(graph, inputs).take(fed ? reference : std::vector<std::vector<Tensor>>{});
  // The expected results for the rounded inputs, which differ from the model's reference.
  const auto expected = fed ? evaluate_nodes(taken.graph, taken.inputs) : reference;
  for (std::size_t i = 0; i < taken.regions.size(); ++i) {
    const Node& node = graph.nodes()[taken.regions[i]];
    RegionResult region;
    region.node = taken.regions[i];
    region.name = fmt::format("{}_{}", codegen::name_stem(node), i);
    region.kind = node.attrs.get_string("kind");
    region.origins = node.origins;
    region.bound = options.bound > 0
                       ? options.bound
                       : std::max(options.least_bound, region_bound(node, options.compile.tf32));
    check.regions.push_back(std::move(region));
  }
  try {
    const std::vector<Tensor> found = run_compiled(taken, options.compile, session);
    std::size_t output = 0;
    for (std::size_t i = 0; i < taken.regions.size(); ++i) {
      const auto& results = expected[fed ? i : taken.regions[i]];
      for (std::size_t k = 0; k < graph.nodes()[taken.regions[i]].outputs.size(); ++k)
        check.regions[i].error =
            std::max(check.regions[i].error, relative_error(found[output++], results[k]));
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    if (!run_one_by_one(graph, inputs, reference, options, session, check)) throw;
  }
  return check;
}

ir::Attrs with_sizes(const ir::Attrs& attrs, const OtherSizes& sizes) {
  ir::Attrs result = attrs;
  for (const auto& [name, value] : attrs.values()) {
    const auto* dims = std::get_if<std::vector<ir::Dim>>(&value);
    if (!dims) continue;
    std::vector<ir::Dim> changed;
    for (const ir::Dim& dim : *dims) changed.push_back(sizes.dim(dim));
    result.set(name, std::move(changed));
  }
  return result;
}

Graph with_sizes(const Graph& graph, const std::vector<ir::TensorType>& inputs,
                 const OtherSizes& sizes) {
  GraphBuilder builder(graph.name());
  if (sizes.ranges)
    for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  std::map<ValueId, ValueId> known;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    known[graph.inputs()[i]] = builder.input(graph.value(graph.inputs()[i]).name, inputs[i]);
  const auto map = [&](ValueId value) {
    const auto& constant = graph.value(value).constant;
    if (!constant) return known.at(value);
    const std::string& name = graph.value(value).name;
    return sizes.constant ? builder.constant(sizes.constant(*constant), name)
                          : builder.constant(constant, name);
  };
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> operands;
    std::vector<ir::TensorType> types;
    for (const ValueId input : node.inputs) {
      operands.push_back(map(input));
      types.push_back(builder.type(operands.back()));
    }
    GraphBuilder::OriginScope scope(builder, node.origins);
    const auto body =
        node.body ? std::make_shared<const Graph>(with_sizes(*node.body, types, sizes)) : nullptr;
    const auto outputs =
        builder.add_multi(node.op->name, operands, with_sizes(node.attrs, sizes), body);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      known[node.outputs[k]] = outputs[k];
      builder.name(outputs[k], graph.value(node.outputs[k]).name);
    }
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    builder.output(graph.output_names()[i], map(graph.outputs()[i]));
  for (const ir::State& state : graph.states()) builder.state(state);
  return builder.finish();
}

Graph specialised(const Graph& graph, const ir::Bindings& numbers) {
  const auto number = [&](const ir::Dim& dim) { return ir::Dim(dim.evaluate(numbers)); };
  std::vector<ir::TensorType> inputs;
  for (const ValueId input : graph.inputs()) {
    inputs.push_back(graph.type(input));
    for (ir::Dim& dim : inputs.back().shape) dim = number(dim);
  }
  return with_sizes(graph, inputs, {number, nullptr, false});
}

}  // namespace sinter::tools
