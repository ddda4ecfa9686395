// Float weights in few bits: integers, or floats of 8.
#pragma once

#include <cstdint>

#include "fusion/context.h"
#include "ir/quantized.h"

namespace sinter::fusion {

/// Weights [n, k] of any float type with the scales (and zero points) that make the squared error
/// of each group least, among those tried: the whole range and ranges cut down to where outliers
/// saturate, each followed by the best scale for the integers found. Rows without numbers that an
/// integer can stand for (infinite, NaN) throw Error(kInvalidModel). Of floats the largest
/// magnitude of a group becomes the largest number, 448.
ir::QuantizedWeights quantize(const Tensor& weights, const WeightOptions& options);

/// The same with the error made up for where it shows in products with inputs x, of which
/// `moments`, float32 [k, k], is the mean of x'x (round_compensated).
ir::QuantizedWeights quantize(const Tensor& weights, const WeightOptions& options,
                              const Tensor& moments);

/// |exact - rounded| / |exact| in the 2-norm; 0 if both are zero.
double weight_error(const Tensor& exact, const Tensor& rounded);

/// The same of x * exact' and x * rounded', for `rows` rows of normal deviates of a fixed seed.
double output_error(const Tensor& exact, const Tensor& rounded, std::int64_t rows);
/// The same for inputs x of which `moments` is the mean of x'x.
double output_error(const Tensor& exact, const Tensor& rounded, const Tensor& moments);

}  // namespace sinter::fusion
