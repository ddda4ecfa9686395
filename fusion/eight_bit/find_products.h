// Which products and convolutions may have operands of 8 bits: by what they are, and by options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fusion/eight_bit/eight_bit_layer.h"
#include "fusion/regions/constant_values.h"

namespace sinter::fusion {

/// With what is known of them before their scales are chosen.
EightBitProducts find_products(const Graph& graph, Context& context, ConstantValues& values);

/// True if activations of `type` can be operands beside weights of the type asked for.
bool takes_activations(const Context& context, DType type, bool is_conv);

/// Adds a layer that keeps its operands to `kept`. Weights of 4 bits stay so: of them it is the
/// activation that is kept, which the precision notes say.
void note_kept(Context& context, EightBitProducts& products, EightBitLayer layer);

/// What the context says of the layer already, or its end.
std::vector<QuantizedLayer>::iterator own_report(Context& context, const std::string& name);

/// "int8" or "fp8".
std::string_view name_of_type(const EightBitOptions& options);

}  // namespace sinter::fusion
