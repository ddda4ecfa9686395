// Factors that move what is hard to round from activations to weights.
#pragma once

#include <span>
#include <vector>

#include "fusion/context.h"
#include "fusion/eight_bit/activation_scale.h"

namespace sinter::fusion {

/// The smoothing (Xiao et al., "SmoothQuant", 2022) of activations for all of `weights`, float32
/// [k, n]: max|x_j|^a / max|w_j|^(1 - a) for column j. None for an exponent a of 0.
SmoothingOf smoothing_with(double exponent, std::span<const Tensor> weights);

/// The exponent for which integer products of activations like `sample` and all of `weights`,
/// float32 [k, n], are off by least: what `options` say or the best of several, or 0 where that is
/// about as good. Each piece is judged by judging_scale. `by_row`: as in RangeChoice.
double best_exponent(const ActivationSample& sample, std::span<const Tensor> weights, bool by_row,
                     const EightBitOptions& options);

/// The norm of each row of all of `weights`: what an error of the activation's column adds to the
/// errors of products.
std::vector<float> row_norms(std::span<const Tensor> weights);

}  // namespace sinter::fusion
