// SPDX-License-Identifier: Apache-2.0
// Smoothing: factors that move quantization difficulty from activations to weights.
#pragma once

#include <span>
#include <vector>

#include "fusion/context.h"
#include "fusion/scales/choice/activation_scale.h"

namespace sinter::fusion {

/// The smoothing (Xiao et al., "SmoothQuant", 2022) of activations for all of `weights`, float32
/// [k, n]: max|x_j|^a / max|w_j|^(1 - a) for column j. None for exponent a = 0.
SmoothingOf smoothing_with(double exponent, std::span<const Tensor> weights);

/// The exponent with the least error of integer matmuls of activations like `sample` with all of
/// `weights`, float32 [k, n]: the one in `options`, the best of several, or 0 if that is about as
/// good. Each piece is judged by judging_scale(). `by_row`: as in RangeChoice.
double best_exponent(const ActivationSample& sample, std::span<const Tensor> weights, bool by_row,
                     const EightBitOptions& options);

/// The norm of each row of all of `weights`: the weight of an activation column's error in the
/// errors of matmuls.
std::vector<float> row_norms(std::span<const Tensor> weights);

}  // namespace sinter::fusion
