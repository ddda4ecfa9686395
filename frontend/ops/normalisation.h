// SPDX-License-Identifier: Apache-2.0
// Shared by normalizations.
#pragma once

#include <cstdint>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Sets the outputs `mean_output` and `deviation_output`, if used: the mean and 1 / sqrt(variance +
/// epsilon) over dimensions `axis`.. of x, in float32 or wider. Without `is_centred` the variance
/// is the mean of squares (RMS normalization).
void output_statistics(NodeContext& node, ValueId x, std::int64_t axis, double epsilon,
                       std::size_t mean_output, std::size_t deviation_output,
                       bool is_centred = true);

/// Normalizes `x` [N, C, ..] over groups of consecutive channels: [N, groups, C / groups, ..].
ValueId normalise_groups(NodeContext& node, ValueId x, std::int64_t groups);

/// Input `i`, one number per channel of x [N, C, ..], in a shape that broadcasts to x.
ValueId per_channel(NodeContext& node, std::size_t i, const char* what, ValueId x);

}  // namespace sinter::frontend
