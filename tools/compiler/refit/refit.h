// SPDX-License-Identifier: Apache-2.0
// New values for the constants that a plan's weights are made of.
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
  std::string name;  // of the file that they are of, or empty
  std::map<std::string, ir::Tensor> tensors;
  std::uint64_t hash = 0;  // what the plan will say that its model's hash is
  /// Of a whole model, of which the plan may lack tensors: it must be what the plan's model was.
  std::optional<std::uint64_t> structure;
};

/// Of an ONNX model or a safetensors file, which its bytes tell. Throws Error(kUsage) for anything
/// else, and as read_safetensors and frontend::read_weights do.
NewWeights read_new_weights(const std::string& path);

struct Refitted {
  plan::PlanParts parts;              // their pieces are made when they are read
  std::size_t changed = 0, kept = 0;  // weights that were made anew, and others
};

/// `plan` with `weights`: the plan that compiling the model with these would give, if no two of
/// them have become equal. Throws Error(kUsage) for tensors that the model does not have, that are
/// of another type or shape, or that are missing (all at once), unless `partial`;
/// Error(kUnsupported) for values which contradict what the plan was made by; Error(kInvalidPlan)
/// for a plan that does not say how its weights were made.
Refitted refit(const std::shared_ptr<const plan::PlanData>& plan, const NewWeights& weights,
               bool partial, const Reporter& reporter);

/// The same of tensors that lie in the caller's memory, which stay there until they were read.
NewWeights new_weights(std::span<const NamedTensor> tensors);

/// sinter::refit without its boundary.
RefitResult refit_to(const Plan& plan, const NewWeights& weights, const std::string& plan_path,
                     bool partial, Reporter& reporter);
RefitResult refit_file(const Plan& plan, const std::string& weights_path,
                       const std::string& plan_path, bool partial, Reporter& reporter);

/// The plan's recipes. Throws Error(kInvalidPlan) if it has none.
Recipes recipes_in(const plan::PlanData& plan);
/// {"tensors": [{"name", "type", "refittable", "weights", "why", "conditions"}]}: "why" it cannot
/// have another value, or by what questions compile has decided something.
nlohmann::ordered_json refit_report(const Plan& plan);

}  // namespace sinter::tools
