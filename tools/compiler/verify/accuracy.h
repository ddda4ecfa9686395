// SPDX-License-Identifier: Apache-2.0
// The error of a compiled model against the reference evaluation.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "tools/compiler/build/build.h"

namespace sinter::tools {

/// Default bound of the relative error for a result of type `type`: float32 sums in another order,
/// 10-bit and 7-bit mantissas.
double default_bound(DType type, const CompileOptions& options, const ir::TargetTraits& target);

/// Runs the plan and compares every output with the reference evaluation of the imported model in
/// float64. Throws Error(kDevice) if the plan's target is missing.
Accuracy measure_accuracy(const BuildResult& built, const BuildOptions& build,
                          const VerifyOptions& options, const Reporter& reporter);

/// Evaluates `graph` in float64, as stage "reference". With `keep_wide` only outputs are rounded to
/// their types, else every operator's result.
std::vector<ir::Tensor> evaluate_reference(const ir::Graph& graph,
                                           const std::vector<ir::Tensor>& inputs, bool keep_wide,
                                           const Reporter& reporter);

/// One object per output. JSON has no infinity: an infinite error is null.
nlohmann::ordered_json to_json(const Accuracy& accuracy);

}  // namespace sinter::tools
