// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

namespace sinter::ir {

/// Whether the node is an Extent of a size that may be one number alone: a check of a run.
bool is_size_check(const Node& node, const Ranges& ranges);

}  // namespace sinter::ir
