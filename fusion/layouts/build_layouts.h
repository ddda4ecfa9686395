// SPDX-License-Identifier: Apache-2.0
// Builds a graph in the chosen layouts.
#pragma once

#include <vector>

#include "fusion/layouts/forms.h"

namespace sinter::fusion {

/// `graph` with each node in its form of `forms`, and Transposes where forms differ.
Graph build_layouts(const Graph& graph, const std::vector<Form>& forms, const TargetTraits& target);

}  // namespace sinter::fusion
