// Samples, and pieces of them, that something is judged on which it was not made of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusion/context.h"

namespace sinter::fusion {

/// Of four and more samples each is a piece; of fewer each is four, rows that follow each other.
std::size_t pieces_of_each(const Calibration& calibration);
/// There are sixteen in all at most, which more samples share.
std::size_t piece_count(const Calibration& calibration);
/// Which of them piece `number` of a sample is.
std::size_t piece_of(const Calibration& calibration, std::size_t sample, std::size_t number);

/// Errors are measured on every fourth sample, of which fitted weights know nothing.
struct DividedSamples {
  Calibration fitted, held_out;
};
/// Of fewer than four samples both have all.
DividedSamples divide_samples(const Calibration& calibration);

/// The same rows as more samples: of fewer than four each in up to sixteen parts along the first
/// dimension, if that is one symbol of all inputs that are not the same for all rows, and of all
/// outputs, and if `graph` makes the same of parts as of the whole. Else `calibration` as it is.
Calibration with_rows_as_samples(const Graph& graph, const Calibration& calibration);

}  // namespace sinter::fusion
