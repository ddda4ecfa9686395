// A recognised dequantization as the operands of QuantMatMul.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fusion/patterns/dequantization.h"
#include "fusion/regions/constant_values.h"
#include "ir/quantized.h"

namespace sinter::fusion {

/// The weights of a product whose right operand, [k, n], is `found`. `column_scale`, if it is not
/// empty, has one more factor for each of the n columns. Nothing, with the reason in `refusal`,
/// where scales do not come in groups along k.
std::optional<ir::QuantizedWeights> read_weights(const ir::Graph& graph, ConstantValues& values,
                                                 const Dequantization& found, std::int64_t k,
                                                 std::int64_t n,
                                                 const std::vector<double>& column_scale,
                                                 std::string& refusal);

/// As graph constants, in the order of QuantMatMul's operands behind x.
std::vector<ir::ValueId> add_weights(ir::GraphBuilder& builder,
                                     const ir::QuantizedWeights& weights);
ir::Attrs attributes_of(const ir::QuantizedWeights& weights);

}  // namespace sinter::fusion
