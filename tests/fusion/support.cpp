// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "ir/ranks/ranks.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"

namespace sinter::fusion::test {

using ir::Graph;
using ir::Node;
using ir::OpKind;
using ir::Tensor;

ir::Bindings small_sizes(const Graph& graph) {
  ir::Bindings sizes;
  std::int64_t next = 2;
  const auto add = [&](const std::string& symbol) {
    if (sizes.count(symbol) != 0) return;
    const auto range = graph.ranges().find(symbol);
    const std::int64_t low = range == graph.ranges().end() ? 1 : range->second.min;
    const std::int64_t high = range == graph.ranges().end() ? 64 : range->second.max;
    sizes[symbol] = std::clamp(next, low, high);
    next = next == 2 ? 5 : next + 2;
  };
  for (ir::ValueId input : graph.inputs())
    for (const ir::Dim& dim : graph.type(input).shape)
      for (const std::string& symbol : dim.symbols()) add(symbol);
  return sizes;
}

std::vector<Tensor> random_inputs(const Graph& graph, std::uint64_t seed) {
  const ir::Bindings sizes = small_sizes(graph);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Tensor> inputs;
  for (ir::ValueId input : graph.inputs()) {
    const ir::TensorType& type = graph.type(input);
    std::vector<std::int64_t> shape;
    std::int64_t count = 1;
    for (const ir::Dim& dim : type.shape) {
      shape.push_back(dim.evaluate(sizes));
      count *= shape.back();
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values)
      value = is_float(type.dtype) ? normal(random) : static_cast<double>(random() % 2);
    inputs.push_back(Tensor::from_doubles(type.dtype, shape, values));
  }
  return inputs;
}

std::shared_ptr<Calibration> random_calibration(const Graph& graph, int samples) {
  constexpr std::uint64_t kFirstSeed = 10;  // apart from what results are compared on
  auto calibration = std::make_shared<Calibration>();
  for (int i = 0; i < samples; ++i)
    calibration->samples.push_back(
        random_inputs(graph, kFirstSeed + static_cast<std::uint64_t>(i)));
  calibration->compile = [](const Graph& part) -> Calibration::Run {
    return [part](std::span<const Tensor> inputs) { return ir::evaluate(part, inputs); };
  };
  return calibration;
}

double relative_error(const Tensor& found, const Tensor& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Where all of a result cancels (a LayerNorm of equal values), it is the rounding errors of what
  // it was made of: values of about one.
  constexpr double kCancelled = 1e-3;
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape()) return kInfinity;
  double largest = 0, error = 0;
  for (std::int64_t i = 0; i < found.element_count(); ++i) {
    const double a = found.at(i), b = expected.at(i);
    if (std::isnan(a) != std::isnan(b)) return kInfinity;
    if (std::isnan(a) || a == b) continue;
    if (std::isinf(a) || std::isinf(b)) return kInfinity;
    largest = std::max(largest, std::abs(b));
    error = std::max(error, std::abs(a - b));
  }
  return error == 0 ? 0 : error / std::max(largest, kCancelled);
}

void expect_equivalent(const Graph& before, const Graph& after, double tolerance,
                       std::uint64_t seed) {
  ir::verify(after);
  const auto inputs = random_inputs(before, seed);
  const ir::EvaluateOptions wide{.keep_wide = true, .on_node = {}};
  const auto expected = ir::evaluate(before, inputs, wide);
  const auto found = ir::evaluate(after, inputs, wide);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_LE(relative_error(found[i], expected[i]), tolerance)
        << "output '" << before.output_names()[i] << "'\nbefore:\n"
        << ir::print(before) << "\nafter:\n"
        << ir::print(after);
}

ShardingOptions ranks_of_slow_devices(std::int64_t ranks, double start) {
  ShardingOptions options;
  options.ranks = ranks;
  options.memory_bandwidth = options.product_rate = 1e6;
  const ir::CollectiveRate fast{start, 0, 1e8};
  options.links = {fast, fast, fast};
  return options;
}

namespace {

/// Part `part` of `parts` of a tensor along `axis`.
Tensor part_of_tensor(const Tensor& tensor, int axis, std::int64_t part, std::int64_t parts) {
  std::vector<std::int64_t> shape = tensor.shape();
  const auto at = static_cast<std::size_t>(axis);
  ir::Shape starts(shape.size(), ir::Dim(0)), size(shape.begin(), shape.end());
  size[at] = shape[at] / parts;
  starts[at] = size[at] * ir::Dim(part);
  return ir::evaluate_op(
      ir::get_op("Slice"),
      {{"starts", starts}, {"shape", size}, {"steps", ir::Ints(shape.size(), 1)}},
      std::vector{tensor})[0];
}

}  // namespace

void expect_equivalent_ranks(const Graph& before, const Graph& after, const ShardingReport& report,
                             double tolerance, std::uint64_t seed) {
  ir::verify(after);
  const std::int64_t ranks = ir::rank_count(after);
  const auto inputs = random_inputs(before, seed);
  const ir::EvaluateOptions wide{.keep_wide = true, .on_node = {}};
  std::vector<std::vector<Tensor>> own(static_cast<std::size_t>(ranks), inputs);
  const auto expected = ir::rank_count(before) > 1 ? ir::evaluate_ranks(before, own, wide).at(0)
                                                   : ir::evaluate(before, inputs, wide);
  const auto state_of = [&](const std::string& name, bool is_input) -> const ShardedState* {
    for (const ShardedState& state : report.states)
      if ((is_input ? state.input : state.output) == name) return &state;
    return nullptr;
  };
  for (std::int64_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (const auto* state = state_of(before.value(before.inputs()[i]).name, true))
        own[static_cast<std::size_t>(r)][i] =
            part_of_tensor(inputs[i], state->axis, r * state->parts / ranks, state->parts);
  const auto found = ir::evaluate_ranks(after, own, wide);
  for (std::int64_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto* state = state_of(before.output_names()[i], false);
      const Tensor wanted =
          state ? part_of_tensor(expected[i], state->axis, r * state->parts / ranks, state->parts)
                : expected[i];
      EXPECT_LE(relative_error(found[static_cast<std::size_t>(r)][i], wanted), tolerance)
          << "output '" << before.output_names()[i] << "' of rank " << r << " of " << ranks
          << "\nbefore:\n"
          << ir::print(before) << "\nafter:\n"
          << ir::print(after);
    }
}

PipelineResult run_checked(const ir::Graph& graph, Context& context, PipelineOptions options) {
  options.check_facts = true;
  return run_pipeline(graph, context, options);
}

Graph run_pass(std::string_view name, const Graph& graph, Context& context) {
  for (const Pass& pass : pipeline())
    if (pass.name == name) return pass.run(graph, context);
  ADD_FAILURE() << "no pass '" << name << "'";
  return graph;
}

namespace {

void expect_family(const Node& node) {
  const std::string& kind = node.attrs.get_string("kind");
  const Graph& body = *node.body;
  std::set<std::string> reduced;
  for (const Node& inner : body.nodes()) {
    switch (inner.op->kind) {
      case OpKind::kPointwise: break;
      case OpKind::kView: break;
      case OpKind::kReduce: {
        EXPECT_TRUE(kind == "reduction" || kind == "scatter") << kind << " reduces";
        std::string space = ir::to_string(body.type(inner.inputs[0]).shape);
        for (std::int64_t axis : inner.attrs.get_ints("axes")) space += "/" + std::to_string(axis);
        reduced.insert(space);
        break;
      }
      case OpKind::kIndexed:
        if (inner.op->generate()) break;
        if (inner.op->scan()) {
          EXPECT_EQ(kind, "scan");
          break;
        }
        if (inner.op->scatter()) {
          EXPECT_EQ(kind, "scatter");
        }
        EXPECT_EQ(body.producer(inner.inputs[0]), nullptr) << "gathers from a computed value";
        break;
      case OpKind::kLibrary: EXPECT_EQ(kind, inner.op->kernel); break;
      case OpKind::kFused:
        EXPECT_TRUE(kind == "gemm" || kind == "horizontal" || kind == "attention")
            << "a fused node within another";
        expect_family(inner);
        break;
      default: ADD_FAILURE() << inner.op->name << " within a fused node";
    }
  }
  if (kind == "reduction") {
    EXPECT_FALSE(reduced.empty());
  }
  EXPECT_LE(reduced.size(), 1u) << "reductions over several spaces in one region";
  if (kind == "pointwise") {
    for (ir::ValueId output : body.outputs())
      EXPECT_EQ(body.type(output).shape, body.type(body.outputs()[0]).shape);
  }
}

}  // namespace

void expect_fused(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op->name == "Reshape") continue;
    ASSERT_EQ(node.op->kind, OpKind::kFused) << node.op->name << "\n" << ir::print(graph);
    SCOPED_TRACE(ir::print(*node.body));
    expect_family(node);
  }
}

}  // namespace sinter::fusion::test
