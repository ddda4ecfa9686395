// What activations are like in calibration samples.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/context.h"
#include "ir/dim/dim.h"

namespace sinter::fusion {

/// An activation over all samples; k elements lie along the axis that a layer sums up.
struct ActivationSample {
  std::vector<float> low, high;  // of each of the k columns; low is 0 at most, high 0 at least
  std::int64_t columns = 0;      // k
  std::vector<float> rows;       // some rows of k, evenly spread over each sample
  std::size_t axis = 0;
};

/// Runs `calibration`'s samples through what makes `values` of `graph`; one result for each of
/// them, along one of `axes`. `names` are what errors call them by. Throws Error(kUsage) if there
/// are no samples, if one does not fit the graph, and for values that are not finite.
std::vector<ActivationSample> sample_activations(const Graph& graph, const Calibration& calibration,
                                                 std::span<const ValueId> values,
                                                 std::span<const std::size_t> axes,
                                                 std::span<const std::string> names);

/// Adds what is to be known of value `i` in a run; the results are of any shape.
using AddProbes =
    std::function<std::vector<ValueId>(GraphBuilder& builder, std::size_t i, ValueId value)>;
/// Is given what the probes of value `i` came to in a sample.
using ReadProbes =
    std::function<void(std::size_t sample, std::size_t i, std::span<const Tensor> found)>;
/// Runs the samples through what makes `values` of `graph`, with probes. Progress is `stage`'s.
void for_each_sample(const Graph& graph, const Calibration& calibration,
                     std::span<const ValueId> values, const AddProbes& add, std::string_view stage,
                     const ReadProbes& read);

/// The sum of the squares of all elements, in float32.
ValueId add_sum_of_squares(GraphBuilder& builder, ValueId value);

/// The dimensions that the samples have. Throws Error(kUsage) if there are none, they differ, or
/// are no inputs of `graph`.
ir::Bindings sample_sizes(const Graph& graph, const Calibration& calibration);
/// `graph` with these numbers for its dimensions.
Graph with_sizes(const Graph& graph, const ir::Bindings& sizes);

}  // namespace sinter::fusion
