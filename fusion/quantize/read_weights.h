// Recognised dequantizations: as the operands of QuantMatMul, and of tables that rows are gathered
// from.
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

/// The weights of a product whose right operand, [k, n], is `found`. `columns`, if it is not null,
/// has one more factor for each of the n columns, or for all. Nothing, with the reason in
/// `refusal`, where scales do not come in groups along k.
std::optional<ir::QuantizedWeights> read_weights(const Graph& graph, ConstantValues& values,
                                                 const Dequantization& found, std::int64_t k,
                                                 std::int64_t n, const Tensor* columns,
                                                 std::string& refusal);

/// As graph constants, in the order of QuantMatMul's operands behind x.
std::vector<ValueId> add_weights(GraphBuilder& builder, const ir::QuantizedWeights& weights);
Attrs attributes_of(const ir::QuantizedWeights& weights);

/// Rows of a dequantized table, if `node` gathers such: the integers of these rows, dequantized.
/// Nothing where that cannot be told apart row by row.
std::optional<Piece> gather_integers(const Graph& graph, ConstantValues& values, const Node& node);

}  // namespace sinter::fusion
