// SPDX-License-Identifier: Apache-2.0
// Inputs of a graph's layers while calibration samples run through it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/constant_values.h"

namespace sinter::fusion {

/// Runs a graph layer by layer, all samples up to the layer that is rounded next: later layers see
/// the results of rounded earlier ones. Each part of the graph is compiled once and runs once for
/// each sample; values that later parts need are kept.
class LayerInputs {
 public:
  /// `layers`: indices of matmul nodes in the graph. Throws Error(kUsage) if there are no samples,
  /// or if they are not the graph's inputs or differ in shape.
  LayerInputs(const Graph& graph, ConstantValues& values, const Calibration& calibration,
              const std::set<std::size_t>& layers);

  /// The mean of x'x, float32 [k, k], over all rows [.., k] of the first input of `layer`,
  /// whichever group they are in: samples may have none of a group. Must be called in the graph's
  /// order.
  Tensor moments(std::size_t layer);
  /// From now on `layer` has this right operand, in its input's type. It is floats, as integer
  /// matmuls of many rows take several times as long.
  void replace(std::size_t layer, Tensor weights) { weights_[layer] = std::move(weights); }

 private:
  /// A value of the graph, for each sample.
  using Samples = std::vector<Tensor>;

  void advance(ValueId x);
  /// The nodes that `x` needs and that have not run, as a graph over values computed before.
  Graph part(ValueId x, const std::vector<bool>& wanted, std::vector<ValueId>& reads,
             std::vector<ValueId>& writes);
  void forget_unread();

  const Graph& graph_;
  ConstantValues& values_;
  const Calibration& calibration_;
  ir::Bindings sizes_;
  std::vector<bool> needed_, done_;  // by node
  std::map<std::size_t, Tensor> weights_;
  std::map<ValueId, Samples> made_;
  std::map<ValueId, Tensor> moments_;
  std::set<std::size_t> layers_;  // not yet asked for
  std::size_t count_ = 0;         // of layers
};

/// The origins of a node as a layer's name: "model/layers.0/q_proj/MatMul".
std::string layer_name(const Node& node);

/// The layers (node indices in `graph`) that depend on another layer and on which no other depends:
/// a language model's logits, a classifier's classes. A single layer is not one.
std::set<std::size_t> last_layers(const Graph& graph, const std::set<std::size_t>& layers);

}  // namespace sinter::fusion
