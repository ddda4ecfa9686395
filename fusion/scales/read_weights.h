// SPDX-License-Identifier: Apache-2.0
// Reads recognized dequantizations as weights of a MatMul, and as tables from which rows are
// gathered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusion/context.h"
#include "fusion/patterns/dequantization.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/rebuild.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

/// The weights of a matmul whose right operand, [k, n], is `found`. `columns`, if not null, has an
/// additional factor for each of the n columns, or for all. Nothing, with the reason in `refusal`,
/// if scales are not in groups along k.
std::optional<ir::ScaledTensor> read_weights(const Graph& graph, ConstantValues& values,
                                             const Dequantization& found, std::int64_t k,
                                             std::int64_t n, const Tensor* columns,
                                             std::string& refusal);

/// As graph constants, in the order of a MatMul's inputs after x.
std::vector<ValueId> add_weights(GraphBuilder& builder, const ir::ScaledTensor& weights);

/// If `node` gathers rows of a dequantized table: a gather of the integers, dequantized. Nothing if
/// rows are not independent.
std::optional<Piece> gather_integers(const Graph& graph, ConstantValues& values, const Node& node);

/// The constant right operand, [k, n], of the matmul `node` as codes of its stored type with scales
/// of one: f16 or bf16, behind views and exact casts. Nothing if it is stored otherwise, or if the
/// target does not multiply x by it.
std::optional<ir::ScaledTensor> half_weights(const Graph& graph, const Context& context,
                                             const Node& node);

}  // namespace sinter::fusion
