// Scales of activations, and factors that move what is hard to round from them to the weights.
#pragma once

#include <span>

#include "fusion/calibration/activation_samples.h"
#include "fusion/eight_bit/operands.h"

namespace sinter::fusion {

enum class ZeroPoints {
  kNone,     // integers are signed in any case
  kOfRange,  // unsigned where the range begins at zero
  kAny       // unsigned with a zero point where the range is not about zero
};
/// Static scales that activations like `sample`, divided by `smoothing` (empty: by nothing), may
/// have: of the whole range, then of ranges cut down to where outliers saturate. Floats have the
/// whole range alone.
std::vector<ActivationScale> possible_scales(const ActivationSample& sample,
                                             std::vector<float> smoothing, DType type,
                                             ZeroPoints zeros);

/// What a value may become, and what the error of each element along the axis counts for, behind
/// the smoothing (empty: all the same). `by_row`: the error of each row counts in parts of the row,
/// since norms behind products make tokens equal, however large some are; the axis is the last.
struct ScaleChoice {
  std::vector<ActivationScale> possible;
  std::vector<float> importance;
  bool by_row = false;
};
/// For each of `values` of `graph` the scale that leaves the least squared error on all of
/// `calibration`'s samples.
std::vector<ActivationScale> best_scales(const Graph& graph, const Calibration& calibration,
                                         std::span<const ValueId> values,
                                         std::span<const ScaleChoice> choices);

/// The norm of each row of all of `weights`, float32 [k, n], behind `smoothing`: what an error of
/// the activation's column adds to the errors of products.
std::vector<float> row_norms(std::span<const Tensor> weights, std::span<const float> smoothing);

/// The smoothing (Xiao et al., "SmoothQuant", 2022) for which integer products of activations like
/// `sample` and all of `weights`, float32 [k, n], are off by least: max|x_j|^a / max|w_j|^(1 - a)
/// for column j, a as `options` say or the best of several, or none where that is as good.
std::vector<float> best_smoothing(const ActivationSample& sample, std::span<const Tensor> weights,
                                  const EightBitOptions& options);

}  // namespace sinter::fusion
