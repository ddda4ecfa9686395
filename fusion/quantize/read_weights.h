// SPDX-License-Identifier: Apache-2.0
// Reads recognized dequantizations as operands of QuantMatMul, and as tables from which rows are
// gathered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusion/context.h"
#include "fusion/patterns/dequantization.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/rebuild.h"
#include "ir/quantized.h"

namespace sinter::fusion {

/// The weights of a matmul whose right operand, [k, n], is `found`. `columns`, if not null, has an
/// additional factor for each of the n columns, or for all. Nothing, with the reason in `refusal`,
/// if scales are not in groups along k.
std::optional<ir::QuantizedWeights> read_weights(const Graph& graph, ConstantValues& values,
                                                 const Dequantization& found, std::int64_t k,
                                                 std::int64_t n, const Tensor* columns,
                                                 std::string& refusal);

/// As graph constants, in the order of QuantMatMul's operands after x.
std::vector<ValueId> add_weights(GraphBuilder& builder, const ir::QuantizedWeights& weights);
Attrs attributes_of(const ir::QuantizedWeights& weights);

/// If `node` gathers rows of a dequantized table: a gather of the integers, dequantized. Nothing if
/// rows are not independent.
std::optional<Piece> gather_integers(const Graph& graph, ConstantValues& values, const Node& node);

}  // namespace sinter::fusion
