// Scales of activations, and factors that move what is hard to round from them to the weights.
#pragma once

#include <span>

#include "fusion/quantize/activation_samples.h"
#include "fusion/quantize/eight_bit.h"

namespace sinter::fusion {

/// The static scale of activations like `sample`, divided by `smoothing` (empty: by nothing), that
/// leaves the least squared error on its rows, of the whole range and ranges cut down to where
/// outliers saturate. Integers are signed if their range is about zero, else unsigned, with a zero
/// point unless `has_zero` is false and the range begins below zero. Floats have the whole range.
ActivationScale static_scale(const ActivationSample& sample, std::vector<float> smoothing,
                             DType type, bool has_zero);

/// The smoothing (Xiao et al., "SmoothQuant", 2022) for which integer products of activations like
/// `sample` and all of `weights`, float32 [k, n], are off by least: max|x_j|^a / max|w_j|^(1 - a)
/// for column j, a as `options` say or the best of several, or none where that is as good.
std::vector<float> best_smoothing(const ActivationSample& sample, std::span<const Tensor> weights,
                                  const EightBitOptions& options);

}  // namespace sinter::fusion
