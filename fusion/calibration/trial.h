// Which layers of a model may have operands of 8 bits: measured on calibration samples.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// Adds layer `number` with rounded operands for the `node` with `inputs`.
using AddRoundedLayer = std::function<ValueId(GraphBuilder& builder, std::size_t number,
                                              const Node& node, std::span<const ValueId> inputs)>;

/// A model that has each of some layers twice: as it is, and with rounded operands. Inputs of the
/// compiled graph choose between them, so that it is compiled once for all that is tried.
class EightBitTrial {
 public:
  /// `layers` are places of nodes of one result in `graph`.
  EightBitTrial(const Graph& graph, const Calibration& calibration,
                std::span<const std::size_t> layers, const AddRoundedLayer& add_rounded);

  /// |y' - y| / |y| of each layer's result in the 2-norm over all samples, where the layers in
  /// front are as they are; of |y| what ir::RelativeError leaves out is left out.
  const std::vector<double>& layer_errors() const { return layer_errors_; }
  /// ir::RelativeError of the model's outputs, the largest of them, where the layers in `rounded`
  /// are; on the first `samples`, 0: all. Outputs without floats count the elements that differ.
  double output_error(const std::set<std::size_t>& rounded, std::size_t samples = 0);
  struct Outcome {
    std::vector<std::size_t> kept;  // that are not to be rounded
    double error = 0;               // of the model's outputs without them
    double error_of_all = 0;        // with them
  };
  /// Which layers, `dropped` aside, must not be rounded so that the outputs are off by no more than
  /// `max_error`: those whose own error is largest there, as many as it takes, in that order.
  Outcome choose(const std::set<std::size_t>& dropped, double max_error);

 private:
  /// Those first that alone, or with their neighbours, put the outputs off by most.
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
