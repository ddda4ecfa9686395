// SPDX-License-Identifier: Apache-2.0
// Checks shared by GraphBuilder, verify, the reference evaluator and the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sinter::ir {

/// Limits of a plan (runtime/plan/verify/checker.h): dimensions of a tensor, and elements, so that
/// address arithmetic cannot overflow.
inline constexpr std::size_t kMaxRank = 32;
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;
/// Symbols and functions in one dimension: index arithmetic is linear in them.
inline constexpr int kMaxDimSize = 256;

/// Throws Error(kInvalidModel) for a known negative dimension. Throws kUnsupported if a plan cannot
/// hold the number of dimensions or the known number of elements, or if a dimension's expression is
/// too long.
void check_type(const TensorType& type);

/// "MatMul (from encoder/MatMul_3)", for messages.
std::string describe(const OpDef& op, std::span<const std::string> origins);

/// Checks `attrs` against the operator's schema and fills in defaults; an int is accepted for a
/// float, and ints for dims. Throws Error(kInvalidModel).
Attrs complete_attrs(const OpDef& op, Attrs attrs);

/// Checks the number of inputs and infers the outputs' types; those of a fused node come from its
/// body. Throws Error(kInvalidModel).
std::vector<TensorType> infer_types(const OpDef& op, const Attrs& attrs, Types inputs,
                                    const Graph* body);

/// Throws Error(kInvalidModel) if a state's input or output does not exist, or if their types
/// differ.
void check_states(const Graph& graph);
void check_range(const std::string& symbol, const Range& range);

/// Whether the node is an Extent of a size that may be one number alone: a check of a run.
bool is_size_check(const Node& node, const Ranges& ranges);

}  // namespace sinter::ir
