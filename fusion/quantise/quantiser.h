// Float weights as integers of few bits.
#pragma once

#include <cstdint>

#include "fusion/pipeline.h"
#include "ir/quantised.h"

namespace sinter::fusion {

/// Weights [n, k] of any float type with the scales (and zero points) that make the squared error
/// of each group least, among those tried: the whole range and ranges cut down to where outliers
/// saturate, each followed by the best scale for the integers found. Rows without numbers that an
/// integer can stand for (infinite, NaN) throw Error(kInvalidModel).
ir::QuantisedWeights quantise(const ir::Tensor& weights, const WeightOptions& options);

/// |exact - rounded| / |exact| in the 2-norm; 0 if both are zero.
double weight_error(const ir::Tensor& exact, const ir::Tensor& rounded);

/// The same of x * exact' and x * rounded', for `rows` rows of normal deviates of a fixed seed.
double output_error(const ir::Tensor& exact, const ir::Tensor& rounded, std::int64_t rows);

}  // namespace sinter::fusion
