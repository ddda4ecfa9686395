// SPDX-License-Identifier: Apache-2.0
// Splits samples into pieces, so that decisions are judged on data to which they were not fitted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusion/context.h"

namespace sinter::fusion {

/// With four or more samples each is a piece; with fewer each is four pieces of consecutive rows.
std::size_t pieces_of_each(const Calibration& calibration);
/// At most sixteen pieces, which more samples share.
std::size_t piece_count(const Calibration& calibration);
/// Index of the piece that number `number` of a sample belongs to.
std::size_t piece_of(const Calibration& calibration, std::size_t sample, std::size_t number);

/// Errors are measured on every fourth sample, which fitting does not see.
struct DividedSamples {
  Calibration fitted, held_out;
};
/// With fewer than four samples both sets have all.
DividedSamples divide_samples(const Calibration& calibration);

/// Splits rows into more samples: with fewer than four, each becomes up to sixteen parts along the
/// first dimension. That must be one symbol of all outputs and of all inputs that vary by row.
/// `graph` must give the same results for parts as for the whole. Otherwise returns `calibration`
/// unchanged.
Calibration with_rows_as_samples(const Graph& graph, const Calibration& calibration);

}  // namespace sinter::fusion
