// SPDX-License-Identifier: Apache-2.0
// Shapes and ranges of dimensions: what was asked for, against what a model has.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <sinter/compiler.h>

#include "frontend/import.h"

namespace sinter::tools {

/// Import options with the ranges that `options` asks for. `model` has been imported without them:
/// it tells which symbol stands where. Throws Error(kUsage) for an unknown input or symbol.
frontend::ImportOptions import_options(const CompileOptions& options, const ir::Graph& model);

/// parse_shapes' text.
std::string to_text(const Shapes& shapes);

/// Inputs by name, with the texts of their dimensions.
using InputDims = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// Symbol values that give each input its shape in `shapes`. Throws Error(kUsage) for an unknown
/// input or another rank.
ir::Bindings given_sizes(const InputDims& inputs, const Shapes& shapes);

/// `shapes`, and those of other inputs: their symbols follow or take `fallback`, or what is the
/// `least` that they may be. Throws what given_sizes throws.
Shapes complete_shapes(const InputDims& inputs, const Shapes& shapes, std::int64_t fallback,
                       const ir::Bindings& least = {});

/// Values of the graph's symbols for typical inputs: what `shapes` say, else the greatest value
/// that its range allows, at most 512, or one where it is unbounded. Throws Error(kUsage) for a
/// name, a rank or a dimension that `model` has not.
ir::Bindings typical_sizes(const ir::Graph& model, const Shapes& shapes);

}  // namespace sinter::tools
