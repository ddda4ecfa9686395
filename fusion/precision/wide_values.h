// SPDX-License-Identifier: Apache-2.0
// Values that 16 bits cannot hold, as samples show, and layers that the user names.
#pragma once

#include <map>
#include <string>

#include "fusion/context.h"

namespace sinter::fusion {

/// Whether a node makes spectra of sound (from "log_mel", as tools/compiler/build names them),
/// which stay float32: rounding a loud band would hide the quiet ones.
bool makes_spectra(const Node& node);

/// Why float32 results of nodes of `graph` stay float32 beside the rules of LoweringPolicy: their
/// node's name has a text of --keep, or, for float16, they exceed half of the largest number on a
/// sample of --calibration (values of other inputs are larger).
std::map<ValueId, std::string> find_wide_values(const Graph& graph, const Context& context,
                                                DType narrow);

}  // namespace sinter::fusion
