// SPDX-License-Identifier: Apache-2.0
// Statistics of activations on calibration samples.
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

/// Range of each column of an activation; low <= 0 <= high.
struct ColumnRanges {
  std::vector<float> low, high;
};

/// An activation in a piece of the samples (held_out.h).
struct ActivationPiece {
  ColumnRanges ranges;
  std::vector<float> rows;  // some of them, evenly spaced
};

/// An activation; its axis of k elements is summed by a layer.
struct ActivationSample {
  std::vector<ActivationPiece> pieces;
  std::int64_t columns = 0;  // k
  std::size_t axis = 0;
};

/// Ranges of all pieces, or of those for which `is_left_out` is false; of all if there are none.
ColumnRanges ranges_of(const ActivationSample& sample,
                       const std::function<bool(std::size_t piece)>& is_left_out = {});

/// Runs `calibration`'s samples through the part of `graph` that computes `values`; one result for
/// each of them, with columns along one of `axes`. Errors use `names`. Throws Error(kUsage) if
/// there are no samples, if one does not fit the graph, and for values that are not finite.
std::vector<ActivationSample> sample_activations(const Graph& graph, const Calibration& calibration,
                                                 std::span<const ValueId> values,
                                                 std::span<const std::size_t> axes,
                                                 std::span<const std::string> names);

/// Adds nodes that measure value `i` in a run; results may have any shape.
using AddProbes =
    std::function<std::vector<ValueId>(GraphBuilder& builder, std::size_t i, ValueId value)>;
/// Receives the probes' results for value `i` in a sample.
using ReadProbes =
    std::function<void(std::size_t sample, std::size_t i, std::span<const Tensor> found)>;
/// Values of the inputs that the probes have added, in order.
using ProbeInputs = std::function<std::vector<Tensor>(std::size_t sample)>;
/// Runs the samples through the part of `graph` that computes `values`, with probes. Reports
/// progress for `stage`.
void for_each_sample(const Graph& graph, const Calibration& calibration,
                     std::span<const ValueId> values, const AddProbes& add, std::string_view stage,
                     const ReadProbes& read, const ProbeInputs& inputs = {});

/// The pieces of `value` in a sample: itself, or matrices [rows, k]; if there are too few rows to
/// divide, each has all of them.
std::vector<ValueId> add_pieces(GraphBuilder& builder, ValueId value, std::size_t axis,
                                const ir::Bindings& sizes, const Calibration& calibration);

/// The sum of squares of all elements, in float32.
ValueId add_sum_of_squares(GraphBuilder& builder, ValueId value);

}  // namespace sinter::fusion
