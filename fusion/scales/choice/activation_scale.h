// SPDX-License-Identifier: Apache-2.0
// Static scales of activations.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "fusion/calibration/activation_samples.h"
#include "fusion/scales/choice/operands.h"

namespace sinter::fusion {

enum class ZeroPoints {
  kNone,     // always signed integers
  kOfRange,  // unsigned if the range begins at zero
  kAny       // unsigned with a zero point if the range is not symmetric
};

/// The scale for the full range of an activation with columns along `axis`, after division by
/// `smoothing` (empty: none).
ActivationScale whole_scale(const ColumnRanges& ranges, std::size_t axis,
                            std::vector<float> smoothing, DType type, ZeroPoints zeros);

/// `x` after quantization and dequantization; the caller applies the smoothing.
float rounded_by(const ActivationScale& scale, float x);

/// Candidate ranges as parts of the full range: below 1 outliers saturate, above 1 there is room
/// beyond the samples. Smoothing makes all columns alike, so that any may exceed its range: its
/// candidates include wider ones.
std::span<const float> range_parts(bool is_smoothed);

/// Computes the smoothing from ranges; empty: none.
using SmoothingOf = std::function<std::vector<float>(const ColumnRanges& ranges)>;

/// The scale for judging the pieces that are left out of `sample`; `whole` is the scale of all.
/// Range and smoothing come from the other pieces, as real inputs are in no sample either. It is
/// `whole` if pieces exceed every candidate part of the others' range: then they tell nothing about
/// unseen inputs.
ActivationScale judging_scale(const ActivationSample& sample, const ActivationScale& whole,
                              const SmoothingOf& smoothing,
                              const std::function<bool(std::size_t piece)>& is_left_out);

/// How the range of one integer activation is chosen.
struct RangeChoice {
  ActivationScale whole;
  /// Weight of each column's error; empty: equal.
  std::vector<float> importance;
  /// Errors are relative to each row, as norms after matmuls make rows equal, however large some
  /// are. Columns are the last axis.
  bool by_row = false;
  SmoothingOf smoothing;
};
/// For each of `values` of `graph`, whose statistics are `samples`, the part of its range with the
/// least squared error. Each piece is judged with the range and smoothing of the other pieces, like
/// unseen inputs.
std::vector<float> best_parts(const Graph& graph, const Calibration& calibration,
                              std::span<const ValueId> values,
                              std::span<const ActivationSample> samples,
                              std::span<const RangeChoice> choices);

}  // namespace sinter::fusion
