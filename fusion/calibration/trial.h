// SPDX-License-Identifier: Apache-2.0
// Decides which layers of a model get 8-bit operands, by measurement on calibration samples.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Adds layer `number` with rounded operands for `node`, whose inputs are `inputs`.
using AddRoundedLayer = std::function<ValueId(GraphBuilder& builder, std::size_t number,
                                              const Node& node, std::span<const ValueId> inputs)>;

/// A model with two versions of each given layer: exact, and with rounded operands. Inputs of the
/// compiled graph select one, so that it is compiled once for all trials.
class EightBitTrial {
 public:
  /// `layers` are indices of nodes with one result in `graph`.
  EightBitTrial(const Graph& graph, const Calibration& calibration,
                std::span<const std::size_t> layers, const AddRoundedLayer& add_rounded);

  /// Relative error |y' - y| / |y| of each layer's result in the 2-norm over all samples, with
  /// exact preceding layers; elements that ir::RelativeError excludes are excluded from |y|.
  const std::vector<double>& layer_errors() const { return layer_errors_; }
  /// The largest ir::RelativeError of the model's outputs with the layers in `rounded` rounded, on
  /// the first `samples` (0: all). For outputs that are not floats: counts elements that differ.
  double output_error(const std::set<std::size_t>& rounded, std::size_t samples = 0);
  struct Outcome {
    std::vector<std::size_t> kept;  // not to be rounded
    double error = 0;               // of the model's outputs with `kept` exact
    double error_of_all = 0;        // with all rounded
  };
  /// The layers, besides `dropped`, that must stay exact for output errors of at most `max_error`:
  /// those with the largest own effect on the outputs, as many as needed, in that order.
  Outcome choose(const std::set<std::size_t>& dropped, double max_error);

 private:
  /// Sorts layers by the output error that they cause alone, or with their neighbours; largest
  /// first.
  std::vector<std::size_t> by_own_error(std::vector<std::size_t> layers);
  std::vector<Tensor> run(const std::set<std::size_t>& rounded, std::size_t sample);
  void tell(std::size_t done, std::size_t all) const;

  const Calibration& calibration_;
  std::size_t layers_ = 0, outputs_ = 0;
  Calibration::Run run_;
  std::vector<std::vector<Tensor>> exact_;  // the model's outputs, by sample
  std::vector<double> layer_errors_;
};

}  // namespace sinter::fusion
