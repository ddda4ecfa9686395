// SPDX-License-Identifier: Apache-2.0
// Definitions of the operators that OperatorSteps run: what a step's operands and attributes have
// to be. The verifier checks nothing else of such a step, so that a definition says all that its
// kernel relies on.
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

/// What memory an operand may be in.
enum class OperandMemory : std::uint8_t {
  kAny,
  kWeight,  // a constant
  kTable,   // a constant that other weights of the plan do not replace (Session::set_weights)
};

/// A dense tensor in a buffer of its own: no output shares one with another operand.
struct OperandDef {
  std::string_view name;     // "logits", for messages
  std::vector<DType> types;  // that it may have; none: the type of the first input
  std::string_view shape;    // sizes, separated by spaces: "rows vocabulary/32 4"
  OperandMemory memory = OperandMemory::kAny;
};
// A size is a number; a name, which has one value in all of a step; NAME+NUMBER; or NAME/NUMBER,
// rounded up. The name of an attribute is its value.

struct AttributeDef {
  std::string_view name;
  bool is_float = false;                                        // then of any value
  std::int64_t min = std::numeric_limits<std::int64_t>::min();  // of an integer, inclusive
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// What a size must be within; without one it is within 0 and 2^48.
struct SizeLimit {
  std::string_view name;
  std::int64_t min, max;  // inclusive
};

/// Sizes and integer attributes of a step, by the names that its operator's definition has.
class OperatorSizes {
 public:
  std::optional<std::int64_t> find(std::string_view name) const;
  /// Throws Error(kInternal) for a name that the definition does not have.
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
  /// What is wrong with sizes that are within their limits; "": nothing. Null: nothing ever is.
  std::string (*refuse)(const OperatorSizes& sizes) = nullptr;
};

/// All definitions: CMake makes the list of the files runtime/operators/*/*_operator.cpp, each of
/// which defines the function that it is named after.
std::span<const OperatorDef* const> operators();
/// Null if there is none of that name.
const OperatorDef* find_operator(std::string_view name);

/// The number of sizes in OperandDef::shape.
std::size_t rank_of(std::string_view shape);

/// Sizes of a step of `def` whose plan's expressions have `values`, as far as they are consistent;
/// what is wrong with them, or "". Numbers, names and types of operands and attributes are right,
/// and sizes are within 0 and 2^48.
std::pair<OperatorSizes, std::string> bind_sizes(const OperatorDef& def,
                                                 const fb::OperatorStepT& step,
                                                 std::span<const std::int64_t> values);

}  // namespace sinter::plan
