// SPDX-License-Identifier: Apache-2.0
// Symbolic dimensions that tests of graphs share.
#pragma once

#include "ir/dim/dim.h"

namespace sinter::ir {

inline const Dim B = Dim::symbol("batch"), S = Dim::symbol("seq");

}  // namespace sinter::ir
