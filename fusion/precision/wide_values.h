// SPDX-License-Identifier: Apache-2.0
// Values that 16 bits cannot hold, as samples show, and layers that the user names.
#pragma once

#include <map>
#include <string>

#include "fusion/context.h"

namespace sinter::fusion {

/// Why float32 results of nodes of `graph` stay float32 beside the rules of LoweringPolicy: their
/// node's name has a text of --keep, or, for float16, they exceed half of the largest number on a
/// sample of --calibration (values of other inputs are larger).
std::map<ValueId, std::string> find_wide_values(const Graph& graph, const Context& context,
                                                DType narrow);

}  // namespace sinter::fusion
