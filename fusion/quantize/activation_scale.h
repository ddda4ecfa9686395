// Scales of activations, and factors that move what is hard to round from them to the weights.
#pragma once

#include <span>

#include "fusion/quantize/activation_samples.h"
#include "fusion/quantize/eight_bit.h"

namespace sinter::fusion {

/// Static scales that activations like `sample`, divided by `smoothing` (empty: by nothing), may
/// have: of the whole range, then of ranges cut down to where outliers saturate. Integers are
/// signed if their range is about zero, else unsigned, with a zero point unless `has_zero` is false
/// and the range begins below zero. Floats have the whole range alone.
std::vector<ActivationScale> possible_scales(const ActivationSample& sample,
                                             std::vector<float> smoothing, DType type,
                                             bool has_zero);

/// Of the possible scales of each of `values` of `graph` the one that leaves the least squared
/// error on all of `calibration`'s samples, behind the smoothing.
std::vector<ActivationScale> best_scales(const Graph& graph, const Calibration& calibration,
                                         std::span<const ValueId> values,
                                         std::span<const std::vector<ActivationScale>> possible);

/// The smoothing (Xiao et al., "SmoothQuant", 2022) for which integer products of activations like
/// `sample` and all of `weights`, float32 [k, n], are off by least: max|x_j|^a / max|w_j|^(1 - a)
/// for column j, a as `options` say or the best of several, or none where that is as good.
std::vector<float> best_smoothing(const ActivationSample& sample, std::span<const Tensor> weights,
                                  const EightBitOptions& options);

}  // namespace sinter::fusion
