// SPDX-License-Identifier: Apache-2.0
// Draws inputs for verification, as long as the model's dimensions allow.
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

/// Completes `asked`: a shape for each input, and ranges for integers and angles.
///
/// Symbols take the maximum of their ranges (1,024 if unbounded; 2 for a symbol that is only a
/// leading dimension, a batch). They are halved together until a reference evaluation takes
/// seconds. Indices of constant tables are drawn from all rows. Operands of angles (positions, time
/// steps) are drawn up to the maximum length, at least 1,000, because errors that grow with the
/// length show only there.
RunInputs long_inputs(const ir::Graph& model, const RunInputs& asked);

/// True if an error of a run on long_inputs means that the model does not support such lengths,
/// which ranges do not express (more tokens than a cache has room for). The caller then uses the
/// original request.
bool are_too_long(const Error& error);

}  // namespace sinter::tools
