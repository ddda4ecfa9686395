// SPDX-License-Identifier: Apache-2.0
// What normalisations share.
#pragma once

#include <cstdint>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Gives the outputs `mean_output` and `deviation_output`, as far as they are used: the mean and
/// 1 / sqrt(variance + epsilon) over dimensions `axis`.. of x, in float32 or wider. Without
/// `is_centred` the variance is the mean of squares, as of RMS normalisations.
void output_statistics(NodeContext& node, ValueId x, std::int64_t axis, double epsilon,
                       std::size_t mean_output, std::size_t deviation_output,
                       bool is_centred = true);

/// `x` [N, C, ..] normalised over groups of neighbouring channels: [N, groups, C / groups, ..].
ValueId normalise_groups(NodeContext& node, ValueId x, std::int64_t groups);

/// Input `i`, a vector over the channels of x [N, C, ..], as what broadcasts to x.
ValueId per_channel(NodeContext& node, std::size_t i, const char* what, ValueId x);

}  // namespace sinter::frontend
