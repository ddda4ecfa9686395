// SPDX-License-Identifier: Apache-2.0
// Recipes: how a plan's weights derive from its model's constants, stored as text in the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compiled_plan.h"
#include "ir/constants/recipe.h"
#include "ir/op_def.h"

namespace sinter::tools {

/// A constant: a tensor of the model, a result of a call, or bytes of the compiler's own.
struct RecipeTensor {
  DType dtype = DType::kFloat32;
  ir::Ints shape;
  int source = -1;  // index of Recipes::sources
  int call = -1;    // index of Recipes::calls
  std::size_t output = 0;
  std::vector<std::byte> bytes;  // if neither source nor call

  std::size_t byte_count() const;
};

struct RecipeSource {
  std::string name;  // name in the model
  DType dtype = DType::kFloat32;
  ir::Ints shape;
};

struct RecipeCall {
  std::string name;  // name of an operator, ir::Transform or ir::Derivation
  ir::Attrs attrs;
  std::vector<RecipeTensor> inputs;  // may refer only to earlier calls
};

/// A weight at `offset` of the plan's section, or constant number `offset` in its graph text.
struct RecipeUse {
  std::uint64_t offset = 0;
  RecipeTensor tensor;
};

/// Bytes that influenced `reader`: other values may need another plan.
struct RecipeRead {
  RecipeTensor tensor;
  std::uint64_t hash = 0;  // XXH3
  std::string reader;      // "the pass simplify"
};

struct Recipes {
  std::uint64_t structure = 0;  // as ImportedModel::structure
  std::vector<RecipeSource> sources;
  std::vector<std::string> unused;  // constants of the model that the plan does not use
  std::vector<RecipeCall> calls;
  std::vector<RecipeUse> weights, lines;
  std::vector<RecipeRead> reads;
  std::vector<std::pair<RecipeTensor, RecipeTensor>> equal;  // constants merged because they were
                                                             // equal
};

/// Collects how the weights of `plan` were computed.
Recipes recipes_of(const codegen::CompiledPlan& plan, const ir::ReadLog& reads,
                   std::uint64_t structure);

/// JSON; equal recipes give equal text.
std::string to_text(const Recipes& recipes);
/// The inverse of to_text; throws Error(kInvalidPlan) for other text.
Recipes parse_recipes(std::string_view text);

/// The function of a call's name; all null for an unknown name.
struct Callable {
  const ir::OpDef* op = nullptr;
  const ir::Transform* transform = nullptr;
  const ir::Derivation* derivation = nullptr;
  explicit operator bool() const { return op || transform || derivation; }
};
Callable find_callable(std::string_view name);
/// Throws Error(kInvalidPlan) unless the function is applicable to the call's attributes and
/// `inputs`, and gives no constant above `limit` bytes.
void check_call(const Callable& callable, const RecipeCall& call,
                std::span<const ir::Tensor> inputs, std::uint64_t limit);
/// True for a result that only influences a decision and is not stored.
bool is_answer(const Recipes& recipes, const RecipeTensor& tensor);
/// By source: whether `tensor` depends on it.
std::vector<bool> sources_of(const Recipes& recipes, const RecipeTensor& tensor);

}  // namespace sinter::tools
