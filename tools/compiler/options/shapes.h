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

/// Import options with the ranges in `options`. `model` is the model imported without them, which
/// shows the positions of symbols. Throws Error(kUsage) for an unknown input or symbol.
frontend::ImportOptions import_options(const CompileOptions& options, const ir::Graph& model);

/// The inverse of parse_shapes.
std::string to_text(const Shapes& shapes);

/// Inputs by name, with their dimensions as text.
using InputDims = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// Symbol values for which each input has its shape in `shapes`. Throws Error(kUsage) for an
/// unknown input or another rank.
ir::Bindings given_sizes(const InputDims& inputs, const Shapes& shapes);

/// Completes `shapes` for all inputs: other symbols are derived, or take `fallback`, or their
/// minimum in `least` if that is larger. Throws as given_sizes.
Shapes complete_shapes(const InputDims& inputs, const Shapes& shapes, std::int64_t fallback,
                       const ir::Bindings& least = {});

/// Symbol values for typical inputs: from `shapes`, else the maximum of the range, at most 512, or
/// 1 if it is unbounded. Throws Error(kUsage) for an unknown name, or another rank or dimension
/// than the model's.
ir::Bindings typical_sizes(const ir::Graph& model, const Shapes& shapes);

}  // namespace sinter::tools
