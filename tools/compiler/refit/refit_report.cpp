// SPDX-License-Identifier: Apache-2.0
// What can be refitted in a plan, and why not.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "runtime/plan_access.h"
#include "tools/compiler/refit/refit.h"

namespace sinter::tools {

nlohmann::ordered_json refit_report(const Plan& plan) {
  const Recipes recipes = recipes_in(*PlanAccess::data(plan));
  using nlohmann::ordered_json;
  struct Facts {
    std::size_t weights = 0;
    std::string why;
    std::vector<std::string> conditions;
  };
  std::vector<Facts> facts(recipes.sources.size());
  const auto each_source = [&](const RecipeTensor& tensor, const auto& visit) {
    const std::vector<bool> sources = sources_of(recipes, tensor);
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (sources[i]) visit(facts[i]);
  };
  for (const RecipeUse& use : recipes.weights)
    each_source(use.tensor, [](Facts& of) { ++of.weights; });
  for (const RecipeRead& read : recipes.reads) {
    const bool answers = is_answer(recipes, read.tensor);
    each_source(read.tensor, [&](Facts& of) {
      if (answers)
        of.conditions.push_back(fmt::format(
            "{}, asked by {}", recipes.calls[static_cast<std::size_t>(read.tensor.call)].name,
            read.reader));
      else if (of.why.empty())
        of.why = fmt::format("{} read its value", read.reader);
    });
  }
  for (const auto& [a, b] : recipes.equal)
    for (const RecipeTensor* tensor : {&a, &b})
      each_source(*tensor, [&](Facts& of) {
        of.conditions.emplace_back("equal to another constant of the model");
      });
  ordered_json tensors = ordered_json::array();
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const RecipeSource& source = recipes.sources[i];
    Facts& of = facts[i];
    std::ranges::sort(of.conditions);
    of.conditions.erase(std::unique(of.conditions.begin(), of.conditions.end()),
                        of.conditions.end());
    tensors.push_back(
        {{"name", source.name},
         {"type", fmt::format("{}[{}]", to_string(source.dtype), fmt::join(source.shape, ", "))},
         {"refittable", of.why.empty()},
         {"weights", of.weights},
         {"why", of.why},
         {"conditions", of.conditions}});
  }
  return {{"tensors", std::move(tensors)}, {"unused", recipes.unused}};
}

}  // namespace sinter::tools
