// What kernels do that begin before the one in front of them has ended.
#pragma once

#include <string>

#include "codegen/emit/arguments.h"

namespace sinter::codegen {

/// Statements in front of grid_dependency_wait(), each indented: they have the L2 fetch what
/// the program reads, the same for all rows and elements or little, of memory that no step writes
/// (KernelRequest::given), rows of tables at places that such memory says among it. Empty for
/// grids of more blocks than begin at once, whose later blocks find it there.
std::string prefetches(const ProgramAnalysis& analysis, Arguments& args, const Dim& blocks,
                       int threads);

}  // namespace sinter::codegen
