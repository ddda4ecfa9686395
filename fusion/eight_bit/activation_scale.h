// Static scales of activations.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "fusion/calibration/activation_samples.h"
#include "fusion/eight_bit/operands.h"

namespace sinter::fusion {

enum class ZeroPoints {
  kNone,     // integers are signed in any case
  kOfRange,  // unsigned where the range begins at zero
  kAny       // unsigned with a zero point where the range is not about zero
};

/// The scale of the whole range that an activation with columns along `axis` has, divided by
/// `smoothing` (empty: by nothing).
ActivationScale whole_scale(const ColumnRanges& ranges, std::size_t axis,
                            std::vector<float> smoothing, DType type, ZeroPoints zeros);

/// `x` as integers of `scale` stand for it; the smoothing is x's own business.
float rounded_by(const ActivationScale& scale, float x);

/// Parts of the whole range that may be taken: down to where outliers saturate, up for what no
/// sample has. Smoothing makes all columns alike, so that this is in any of them: theirs may be
/// wider.
std::span<const float> range_parts(bool is_smoothed);

/// The smoothing that ranges give; nothing: none.
using SmoothingOf = std::function<std::vector<float>(const ColumnRanges& ranges)>;

/// What pieces are judged by that are left out of `sample`, as `whole` is of all: the range and the
/// smoothing that the others give, since what a model reads is in no sample. It is `whole` where
/// pieces are so large that no part of the others' range has them: they say nothing of what else
/// will be read.
ActivationScale judging_scale(const ActivationSample& sample, const ActivationScale& whole,
                              const SmoothingOf& smoothing,
                              const std::function<bool(std::size_t piece)>& is_left_out);

/// How the range of one activation of integers is chosen.
struct RangeChoice {
  ActivationScale whole;
  /// What the error of each column counts for; empty: all the same.
  std::vector<float> importance;
  /// The error of each row counts in parts of the row, since norms behind products make rows equal,
  /// however large some are; columns lie along the last axis.
  bool by_row = false;
  SmoothingOf smoothing;
};
/// For each of `values` of `graph`, which are like `samples`, the part of its range with which the
/// squared error is least. Each piece is judged by the range and the smoothing that the others
/// give, as what the model will read is.
std::vector<float> best_parts(const Graph& graph, const Calibration& calibration,
                              std::span<const ValueId> values,
                              std::span<const ActivationSample> samples,
                              std::span<const RangeChoice> choices);

}  // namespace sinter::fusion
