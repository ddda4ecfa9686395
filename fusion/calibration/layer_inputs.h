// What the layers of a graph read while calibration samples run through it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/constant_values.h"

namespace sinter::fusion {

/// Walks through a graph from layer to layer, each sample a step ahead of the layer that is to be
/// rounded next: later layers see what the earlier ones, rounded, make. A part of the graph is
/// compiled and run once for each sample; what later parts need of it is kept.
class LayerInputs {
 public:
  /// `layers`: products, by their place in the graph. Throws Error(kUsage) if there are no samples,
  /// or samples are not inputs of the graph or differ in shape.
  LayerInputs(const Graph& graph, ConstantValues& values, const Calibration& calibration,
              const std::set<std::size_t>& layers);

  /// The mean of x'x, float32 [k, k], of all rows [.., k] that `layer` reads as its first input.
  /// Layers are asked for in the graph's order.
  Tensor moments(std::size_t layer);
  /// From now on `layer` multiplies by these weights [n, k] of its input's type. They are floats: a
  /// product of many rows with integers takes several times as long.
  void replace(std::size_t layer, Tensor weights) { weights_[layer] = std::move(weights); }

 private:
  /// The values of one place in the graph, one for each sample.
  using Samples = std::vector<Tensor>;

  void advance(ValueId x);
  /// What the nodes that `x` needs and that have not run make of what has been made before.
  Graph part(ValueId x, const std::vector<bool>& wanted, std::vector<ValueId>& reads,
             std::vector<ValueId>& writes);
  void forget_unread();

  const Graph& graph_;
  ConstantValues& values_;
  const Calibration& calibration_;
  ir::Bindings sizes_;
  std::vector<bool> needed_, done_;  // nodes
  std::map<std::size_t, Tensor> weights_;
  std::map<ValueId, Samples> made_;
  std::map<ValueId, Tensor> moments_;
  std::set<std::size_t> layers_;  // that have not been asked for
  std::size_t count_ = 0;         // of layers
};

/// The origins of a node as a layer's name: "model/layers.0/q_proj/MatMul".
std::string layer_name(const Node& node);

/// Of `layers`, places of nodes in `graph`, those that no other of them reads from and that read
/// from another themselves: a language model's logits, a classifier's classes. A layer that stands
/// alone is not one.
std::set<std::size_t> last_layers(const Graph& graph, const std::set<std::size_t>& layers);

}  // namespace sinter::fusion
