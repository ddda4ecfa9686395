// SPDX-License-Identifier: Apache-2.0
// Prefetches of kernels with programmatic launch.
#pragma once

#include <string>

#include "codegen/emit/arguments.h"

namespace sinter::codegen {

/// Statements before grid_dependency_wait(), each indented. They prefetch into the L2 what the
/// program reads of memory that no step writes (KernelRequest::given): small tensors, tensors that
/// all rows or elements share, and table rows that such memory indexes. Empty for grids that exceed
/// one wave, whose later blocks find the data in the L2.
std::string prefetches(const ProgramAnalysis& analysis, Arguments& args, const Dim& blocks,
                       int threads);

}  // namespace sinter::codegen
