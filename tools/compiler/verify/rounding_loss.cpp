// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/verify/rounding_loss.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "fusion/regions/operand.h"
#include "ir/reference/evaluate.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::tools {
namespace {

constexpr double kExplained = 2;

bool is_half(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }

bool multiplies(const ir::Node& node) {
  return fusion::is_matrix_product(node) || node.op->name == "Conv";
}

/// The unfused graph with 16-bit types.
ir::Graph lowered(const BuildResult& built, const BuildOptions& build, const Reporter& reporter) {
  BuildOptions until = build;
  until.stop_after = "lower_precision";
  until.observe = nullptr;
  Reporter quiet = reporter.quiet();
  return run_passes(until, built.model, built.target, quiet).graph;
}

/// Evaluates a graph with some values rounded, and compares with the model's outputs.
class Trials {
 public:
  Trials(const ir::Graph& graph, const std::vector<ir::Tensor>& inputs,
         std::vector<ir::Tensor> expected, const Reporter& reporter)
      : graph_(graph), inputs_(inputs), expected_(std::move(expected)), reporter_(reporter) {}

  double error(const std::set<std::size_t>& rounded) const {
    reporter_.check();
    ir::EvaluateOptions options;
    options.keep_wide = true;
    options.rounds = [&](const ir::Node& node) {
      return rounded.contains(graph_.value(node.outputs[0]).producer.position());
    };
    const auto found = ir::evaluate(graph_, inputs_, options);
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, relative_error(found[i], expected_[i]));
    return worst;
  }

  /// The node with the largest loss, found by bisection.
  std::size_t worst(std::vector<std::size_t> nodes) const {
    while (nodes.size() > 1) {
      const auto middle = nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2);
      const std::vector<std::size_t> first(nodes.begin(), middle), second(middle, nodes.end());
      const bool in_first =
          error({first.begin(), first.end()}) >= error({second.begin(), second.end()});
      nodes = in_first ? first : second;
    }
    return nodes[0];
  }

 private:
  const ir::Graph& graph_;
  const std::vector<ir::Tensor>& inputs_;
  std::vector<ir::Tensor> expected_;
  const Reporter& reporter_;
};

}  // namespace

std::optional<RoundingLoss> find_rounding_loss(const BuildResult& built, const BuildOptions& build,
                                               const std::vector<ir::Tensor>& inputs,
                                               const Reporter& reporter) {
  if (build.precision != Precision::kFloat16 && build.precision != Precision::kBFloat16)
    return std::nullopt;
  const ir::Graph graph = lowered(built, build, reporter);
  if (graph.inputs().size() != inputs.size()) return std::nullopt;  // scales of caches are inputs
  std::set<std::size_t> all, matmuls;
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const ir::Node& node = graph.nodes()[i];
    if (!is_half(graph.type(node.outputs[0]).dtype)) continue;
    const bool of_matmul =
        multiplies(node) || std::ranges::any_of(graph.users(node.outputs[0]), [&](ir::NodeId user) {
          return multiplies(graph.node(user));
        });
    all.insert(i);
    if (of_matmul)
      matmuls.insert(i);
    else
      rest.push_back(i);
  }
  const Trials trials(graph, inputs, evaluate_reference(built.model.graph, inputs, true, reporter),
                      reporter);
  RoundingLoss loss;
  loss.all = trials.error(all);
  loss.matmuls = trials.error(matmuls);
  if (!(loss.all > kExplained * loss.matmuls)) return std::nullopt;
  loss.constants = trials.error({});
  if (rest.empty()) return loss;
  const ir::Node& node = graph.nodes()[trials.worst(rest)];
  loss.alone = trials.error({graph.value(node.outputs[0]).producer.position()});
  const std::string& name = graph.value(node.outputs[0]).name;
  loss.value = name.empty() ? node.op->name : name;
  loss.origins = node.origins;
  return loss;
}

std::optional<Overflow> find_overflow(const BuildResult& built, const BuildOptions& build,
                                      const std::vector<ir::Tensor>& inputs) {
  constexpr double kLargest = 65504, kMask = 1e8;  // larger ones are masks
  if (build.precision != Precision::kFloat16) return std::nullopt;
  Overflow found;
  ir::EvaluateOptions evaluate;
  evaluate.keep_wide = true;
  evaluate.on_node = [&](const ir::Node& node, std::span<const ir::Tensor> results) {
    const bool is_kept = std::ranges::any_of(build.weights.keep, [&](const std::string& text) {
      return std::ranges::any_of(node.origins, [&](const std::string& origin) {
        return origin.find(text) != std::string::npos;
      });
    });
    if (is_kept) return;
    double largest = 0;
    for (const ir::Tensor& result : results)
      if (is_float(result.dtype()))
        for (std::int64_t i = 0; i < result.element_count(); ++i)
          if (const double x = std::abs(result.at(i)); x < kMask) largest = std::max(largest, x);
    if (largest <= kLargest) return;
    if (found.nodes++ == 0) {
      found.origins = node.origins;
      found.largest = largest;
    }
  };
  ir::evaluate(built.model.graph, inputs, evaluate);
  if (found.nodes == 0) return std::nullopt;
  return found;
}

nlohmann::ordered_json to_json(const Overflow& overflow) {
  return {{"origins", overflow.origins}, {"largest", overflow.largest}, {"nodes", overflow.nodes}};
}

nlohmann::ordered_json to_json(const RoundingLoss& loss) {
  return {{"all", loss.all},     {"matmuls", loss.matmuls}, {"constants", loss.constants},
          {"value", loss.value}, {"alone", loss.alone},     {"origins", loss.origins}};
}

}  // namespace sinter::tools
