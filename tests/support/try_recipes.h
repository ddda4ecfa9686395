// SPDX-License-Identifier: Apache-2.0
// What a plan says of how its weights are made, taken at its word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <sinter/error.h>

#include "tools/compiler/refit/refit.h"

namespace sinter::tests {

/// Refits a plan of these recipes with numbers for all of its tensors and reads what it makes; true
/// if that goes well. It throws nothing but Error, or tensors would be too large to try.
inline bool try_recipes(const std::string& text) {
  constexpr std::uint64_t kMost = 1 << 20;
  auto plan = std::make_shared<plan::PlanData>();
  plan->meta.refit = text;
  const tools::Recipes recipes = tools::parse_recipes(text);
  const auto size_of = [&](DType dtype, const ir::Ints& shape) {
    return tools::RecipeTensor{dtype, shape, -1, -1, 0, {}}.byte_count();
  };
  tools::NewWeights weights;
  for (const tools::RecipeSource& source : recipes.sources) {
    const std::uint64_t bytes = size_of(source.dtype, source.shape);
    if (bytes > kMost) return false;
    std::vector<double> values(bytes / sinter::size_of(source.dtype));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7) / 4;
    weights.tensors.emplace(source.name,
                            ir::Tensor::from_doubles(source.dtype, source.shape, values));
  }
  std::uint64_t end = 0;
  for (const tools::RecipeUse& use : recipes.weights) {
    const std::uint64_t bytes = use.tensor.byte_count();
    if (bytes > kMost || use.offset > kMost) return false;
    end = std::max(end, use.offset + bytes);
  }
  const auto section = std::make_shared<std::vector<std::byte>>(end);
  plan->weights = *section;
  plan->owner = section;
  const tools::Reporter reporter;
  try {
    (void)tools::refit(plan, weights, false, reporter);
  } catch (const Error& error) {
    // Other values than the ones that the plan was made of.
    if (error.code() != ErrorCode::kUnsupported) throw;
  }
  nlohmann::json json = nlohmann::json::parse(text);
  json["reads"] = json["equal"] = nlohmann::json::array();
  plan->meta.refit = json.dump();
  const tools::Refitted made = tools::refit(plan, weights, false, reporter);
  for (const auto& piece : made.parts.weights) (void)piece.read();
  return true;
}

}  // namespace sinter::tests
