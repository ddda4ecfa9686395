// SPDX-License-Identifier: Apache-2.0
// Weights of grouped matmuls, which have scales as those of one matrix: the rows of all groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "fusion/context.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/rebuild.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

/// A GroupedMatMul of plain operands.
bool is_plain_grouped(const Node& node);

/// The right operand of a plain GroupedMatMul as rows [groups * n, k]; and back.
Tensor rows_of_groups(const Node& node, const Tensor& operand);
Tensor operand_of_rows(const Node& node, const Tensor& rows, std::int64_t groups);

/// The parts of weights [groups * n, k], each [groups, n, ..].
std::vector<Tensor> parts_of_groups(const ir::ScaledTensor& weights, std::int64_t groups);
/// Weights of a GroupedMatMul in a format, as plain numbers [groups, n, k]; `parts` are its inputs
/// between x and the offsets.
Tensor dequantized_groups(const Node& node, std::span<const Tensor> parts, std::int64_t k,
                          DType type);

/// The group of each of `rows` rows of a grouped matmul with these offsets, i32 [rows]; of rows in
/// none, any group.
ValueId group_of_rows(GraphBuilder& builder, ValueId offsets, const Dim& rows, std::int64_t groups);

/// A matmul with weights of floats of 4 bits whose float scales are all powers of two, with these
/// as e8m0 (MXFP4).
std::optional<Piece> with_power_scales(ConstantValues& values, const Node& node);

/// The matmuls (node indices) whose results say which group rows are in, or whose order says which
/// elements are selected: routers of mixtures, where a rounding error changes what is computed.
std::set<std::size_t> choosing_products(const Graph& graph);

}  // namespace sinter::fusion
