// SPDX-License-Identifier: Apache-2.0
// Definitions of the operators that OperatorSteps run: the requirements for a step's operands and
// attributes. The verifier checks nothing else of such a step, so a definition must state
// everything on which its kernel relies.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// The kinds of memory allowed for an operand.
enum class OperandMemory : std::uint8_t {
  kAny,
  kWeight,  // a constant
  kTable,   // a constant that Session::set_weights cannot replace
};

/// A dense tensor in a buffer of its own: outputs do not alias other operands, but what they
/// change.
struct OperandDef {
  std::string_view name;     // "logits", for messages
  std::vector<DType> types;  // allowed types; empty: the type of the first input
  std::string_view shape;    // sizes, separated by spaces: "rows vocabulary/32 4"
  OperandMemory memory = OperandMemory::kAny;
  /// Of an output: the input in whose buffer it may lie; -1: none. The kernel reads each element
  /// before it writes it.
  int changes = -1;
};
// A size is a number; a name, which has the same value everywhere in a step; NAME+NUMBER; or
// NAME/NUMBER, rounded up. An attribute's name is its value.

struct AttributeDef {
  std::string_view name;
  bool is_float = false;                                        // a float may have any value
  std::int64_t min = std::numeric_limits<std::int64_t>::min();  // of integers, inclusive
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// The range of a size; the default is 0 to 2^48.
struct SizeLimit {
  std::string_view name;
  std::int64_t min, max;  // inclusive
};

/// Sizes and integer attributes of a step, by their names in the operator's definition.
class OperatorSizes {
 public:
  std::optional<std::int64_t> find(std::string_view name) const;
  /// Throws Error(kInternal) for a name that the definition lacks.
  std::int64_t operator[](std::string_view name) const;
  void add(std::string_view name, std::int64_t value) { sizes_.emplace_back(name, value); }

 private:
  std::vector<std::pair<std::string_view, std::int64_t>> sizes_;
};

struct OperatorDef {
  std::string_view name;  // OperatorStep.operator_name
  std::vector<OperandDef> inputs, outputs;
  std::vector<AttributeDef> attributes = {};
  std::vector<SizeLimit> limits = {};
  /// Further checks of sizes that are within their limits: returns the problem, or "". Null: no
  /// check.
  std::string (*refuse)(const OperatorSizes& sizes) = nullptr;
};

/// All definitions. CMake generates the list from the files runtime/operators/*/*_operator.cpp,
/// each of which defines the function named after it.
std::span<const OperatorDef* const> operators();
/// Null for an unknown name.
const OperatorDef* find_operator(std::string_view name);

/// The number of sizes in OperandDef::shape.
std::size_t rank_of(std::string_view shape);

/// Binds the sizes of a step of `def`; `values` are those of the plan's expressions. Also returns
/// the first inconsistency, or "". The caller has checked numbers, names and types of operands and
/// attributes, and that sizes are within 0 and 2^48.
std::pair<OperatorSizes, std::string> bind_sizes(const OperatorDef& def,
                                                 const fb::OperatorStepT& step,
                                                 std::span<const std::int64_t> values);

}  // namespace sinter::plan
