// SPDX-License-Identifier: Apache-2.0
// Recomputes a plan's weights from new values of the model's constants.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include <sinter/compiler.h>

#include "runtime/plan/plan_data.h"
#include "tools/compiler/options/reporter.h"
#include "tools/compiler/refit/recipes.h"

namespace sinter::tools {

struct NewWeights {
  std::string name;  // name of their file, or empty
  std::map<std::string, ir::Tensor> tensors;
  std::uint64_t hash = 0;  // the model hash for the plan
  /// Set for a whole model, which may have unused tensors: it must equal the plan's structure.
  std::optional<std::uint64_t> structure;
};

/// Reads an ONNX model or a safetensors file, recognized by content. Throws Error(kUsage) for other
/// files, and as read_safetensors and frontend::read_weights.
NewWeights read_new_weights(const std::string& path);

struct Refitted {
  plan::PlanParts parts;              // pieces are computed when they are read
  std::size_t changed = 0, kept = 0;  // recomputed weights, and others
};

/// `plan` with `weights`: equal to the plan of the model with these weights, unless two of them
/// have become equal. Throws Error(kUsage) for tensors that the model lacks, for other types or
/// shapes and, unless `partial`, for all missing ones. Throws Error(kUnsupported) for values that
/// contradict the plan's decisions, Error(kInvalidPlan) for a plan without recipes.
Refitted refit(const std::shared_ptr<const plan::PlanData>& plan, const NewWeights& weights,
               bool partial, const Reporter& reporter);

/// The same from tensors in the caller's memory, which must stay valid until they are read.
NewWeights new_weights(std::span<const NamedTensor> tensors);

/// sinter::refit without the exception boundary.
RefitResult refit_to(const Plan& plan, const NewWeights& weights, const std::string& plan_path,
                     bool partial, Reporter& reporter);
RefitResult refit_file(const Plan& plan, const std::string& weights_path,
                       const std::string& plan_path, bool partial, Reporter& reporter);

/// The plan's recipes. Throws Error(kInvalidPlan) without recipes.
Recipes recipes_in(const plan::PlanData& plan);
/// {"tensors": [{"name", "type", "refittable", "weights", "why", "conditions"}]}: "why" a tensor
/// cannot change, and the decisions that depend on it.
nlohmann::ordered_json refit_report(const Plan& plan);

}  // namespace sinter::tools
