// A graph in the layouts that were chosen for it.
#pragma once

#include <vector>

#include "fusion/layouts/forms.h"

namespace sinter::fusion {

/// `graph` with each node in its form of `forms`, and Transposes where forms disagree.
Graph build_layouts(const Graph& graph, const std::vector<Form>& forms, const TargetTraits& target);

}  // namespace sinter::fusion
