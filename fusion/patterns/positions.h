// Integers that are known from where they stand.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace sinter::fusion {

/// The integer that element `index` of `value` is, behind views: a generated one, or one of a
/// constant sequence that counts up by one.
std::optional<ir::Dim> number_at(const ir::Graph& graph, ir::ValueId value,
                                 std::span<const ir::Dim> index, const ir::Ranges& ranges);

/// The element of an operand of shape `shape` that element `index` of what it broadcasts to reads.
std::vector<ir::Dim> operand_index(const ir::Shape& shape, std::span<const ir::Dim> index);

}  // namespace sinter::fusion
