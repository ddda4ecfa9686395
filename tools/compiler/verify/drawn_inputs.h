// SPDX-License-Identifier: Apache-2.0
// Inputs to verify a model on where none are given: as long as its dimensions allow.
#pragma once

#include "ir/graph.h"
#include "sinter/compiler.h"
#include "sinter/error.h"

namespace sinter::tools {

/// Multiplications of one reference evaluation and the largest value in elements, as far as sizes
/// are known before the run.
struct Work {
  double multiplications = 0, largest = 0;
};
Work work_of(const ir::Graph& model, const ir::Bindings& sizes);

/// `asked` with a shape for each input and ranges for integers and angles that it does not give.
///
/// Symbols take the greatest value of their ranges (1,024 where there is none; 2 where a symbol
/// only ever is a leading dimension, a batch), halved together until a reference evaluation takes
/// seconds. Integers that choose rows of constant tables are drawn from all rows. What angles are
/// made of (positions, time steps) is drawn up to the greatest length, 1,000 at least: errors that
/// grow with the length show there alone.
RunInputs long_inputs(const ir::Graph& model, const RunInputs& asked);

/// True if errors of a run on long_inputs say that the model does not take them, which ranges do
/// not tell (more tokens than a cache has room for): then what is asked is drawn as it is.
bool are_too_long(const Error& error);

}  // namespace sinter::tools
