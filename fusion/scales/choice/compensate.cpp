// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/compensate.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/calibration/layer_inputs.h"
#include "fusion/regions/constant_values.h"
#include "fusion/scales/grouped_weights.h"
#include "fusion/scales/rounding/gptq.h"

namespace sinter::fusion {
namespace {

/// `graph` with rounded layers, and the index of the layer at each node.
struct RoundedGraph {
  Graph graph;
  std::map<std::size_t, std::size_t> numbers;  // of layers, by node index
};

RoundedGraph rounded_graph(const Graph& graph, std::span<const RoundedLayer> layers,
                           const AddRoundedLayer& add) {
  std::map<std::size_t, std::size_t> numbers;
  for (std::size_t i = 0; i < layers.size(); ++i) numbers[layers[i].node_index] = i;
  std::vector<std::size_t> products;  // as outputs, before the graph's own
  Graph result = ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph&, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        const auto found = numbers.find(static_cast<std::size_t>(&node - graph.nodes().data()));
        if (found == numbers.end()) return std::nullopt;
        const std::size_t number = found->second;
        const ValueId product = add(builder, number, node, inputs);
        if (layers[number].exact.element_count() > 0) {
          builder.output(fmt::format("product{}", number), product);
          products.push_back(number);
        }
        return std::vector{product};
      });
  RoundedGraph made{std::move(result), {}};
  for (std::size_t i = 0; i < products.size(); ++i) {
    const Node* node = made.graph.producer(made.graph.outputs()[i]);
    made.numbers[static_cast<std::size_t>(node - made.graph.nodes().data())] = products[i];
  }
  return made;
}

/// A scale for each of the rows, or for each block of each row.
std::vector<float> scales_of(const ir::ScaledTensor& weights) {
  const Tensor scales = weights.scales.plain();
  const std::span<const float> all = scales.as<float>();
  if (weights.format.rows == 0)
    return std::vector<float>(static_cast<std::size_t>(weights.n()), all[0]);
  return {all.begin(), all.end()};
}

}  // namespace

void compensate(const Graph& graph, const Calibration& calibration,
                std::span<const RoundedLayer> layers, const AddRoundedLayer& add) {
  const RoundedGraph made = rounded_graph(graph, layers, add);
  std::set<std::size_t> node_indices;
  for (const auto& [node_index, number] : made.numbers) node_indices.insert(node_index);
  if (node_indices.empty()) return;
  ConstantValues values(made.graph);
  LayerInputs inputs(made.graph, values, calibration, node_indices);
  for (const auto& [node_index, number] : made.numbers) {
    const RoundedLayer& layer = layers[number];
    const Node& node = made.graph.nodes()[node_index];
    ir::ScaledTensor& weights = *layer.weights;
    const DType type = weights.values.dtype();
    with_context("layer '" + layer_name(node) + "'", [&, node_index = node_index] {
      const Tensor moments = inputs.moments(node_index);
      const Tensor rows = transposed(computed("Cast", {{"to", DType::kFloat32}}, {layer.exact}));
      const std::int64_t n = rows.shape()[0], k = rows.shape()[1];
      const std::int64_t depth = weights.format.depth;
      const Tensor numbers =
          Tensor::of(DType::kFloat32, {n, k},
                     round_compensated(rows.as<float>(), n, k, depth > 0 ? depth : k, type,
                                       scales_of(weights), moments.as<float>()));
      weights.values = computed("Cast", {{"to", type}}, {numbers});
    });
    const ir::TensorType& operand = made.graph.type(node.inputs[1]);
    const Tensor rows = dequantized_rows(weights);
    inputs.replace(node_index, computed("Cast", {{"to", operand.dtype}},
                                        {is_plain_grouped(node)
                                             ? operand_of_rows(node, rows, operand.shape[0].value())
                                             : transposed(rows)}));
  }
}

}  // namespace sinter::fusion
