// SPDX-License-Identifier: Apache-2.0
// Finds matmuls and convolutions that may get 8-bit operands, by their form and by options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fusion/regions/constant_values.h"
#include "fusion/scales/choice/eight_bit_layer.h"

namespace sinter::fusion {

/// The candidates, before scales are chosen.
EightBitProducts find_products(const Graph& graph, Context& context, ConstantValues& values);

/// True if activations of `type` can be multiplied by weights of the requested type.
bool takes_activations(const Context& context, DType type, std::string_view op);

/// Adds a layer with unchanged operands to `kept`. For 4-bit weights only the activation is
/// unchanged, which the precision notes report.
void note_kept(Context& context, EightBitProducts& products, EightBitLayer layer);

/// The context's existing report of the layer, or end().
std::vector<QuantizedLayer>::iterator own_report(Context& context, const std::string& name);

/// "int8" or "fp8".
std::string_view name_of_type(const EightBitOptions& options);

}  // namespace sinter::fusion
