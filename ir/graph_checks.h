// What GraphBuilder, verify and the reference check alike; nothing else includes this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::ir {

/// What a plan can hold (runtime/plan/verify/checker.h): dimensions of a tensor, and elements,
/// whose addresses can then be added up.
inline constexpr std::size_t kMaxRank = 32;
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;
/// Symbols and functions in one dimension: every step of index arithmetic goes over all of them.
inline constexpr int kMaxDimSize = 256;

/// Throws Error(kInvalidModel) for a dimension that is known and negative, kUnsupported for more
/// dimensions or, by those that are known, more elements than a plan can hold, or for a dimension
/// that is too long a formula.
void check_type(const TensorType& type);

/// "MatMul (from encoder/MatMul_3)", for messages.
std::string describe(const OpDef& op, std::span<const std::string> origins);

/// Checks `attrs` against the operator's schema and fills in defaults; an int stands for a float
/// and ints for dims. Throws Error(kInvalidModel).
Attrs complete_attrs(const OpDef& op, Attrs attrs);

/// Checks the number of inputs and infers the outputs' types; a fused node's are its body's. Throws
/// Error(kInvalidModel).
std::vector<TensorType> infer_types(const OpDef& op, const Attrs& attrs, Types inputs,
                                    const Graph* body);

/// Throws Error(kInvalidModel) if a state's input and output do not exist or differ in type.
void check_states(const Graph& graph);
void check_range(const std::string& symbol, const Range& range);

}  // namespace sinter::ir
