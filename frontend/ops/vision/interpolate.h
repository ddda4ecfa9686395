// SPDX-License-Identifier: Apache-2.0
// Interpolation: weighted sums of neighbours along several dimensions.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "frontend/ops/term.h"

namespace sinter::frontend {

/// One neighbour along one dimension: its index (in range), its weight (nullopt: the only
/// neighbour, with weight 1), and where it is outside and counts as zero.
struct Tap {
  Term index;
  std::optional<Term> weight;
  std::optional<Term> inside;
};

/// Sum over taps[0], taps[1], .. of the product of their weights with data[indices]. `taps` has an
/// entry per dimension of the data. Index tensors broadcast to the result's shape. The result has
/// type `compute`.
Term interpolate(const Term& data, const std::vector<std::vector<Tap>>& taps, DType compute);

/// Weights of Keys' cubic convolution for the neighbours at -1, 0, 1 and 2 of a point at t in [0,
/// 1); a is Keys' parameter, usually -0.75 or -0.5.
std::array<Term, 4> cubic_weights(const Term& t, double a);

}  // namespace sinter::frontend
