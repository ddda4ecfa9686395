// SPDX-License-Identifier: Apache-2.0
// Random loop programs for tests of the CUDA emitter.
#pragma once

#include "cuda_programs.h"

namespace sinter::test {

/// A program over up to 4 loops (some of size "s" or "t"): dense, permuted, broadcast, sliced,
/// reversed, gathered, padded and repeated inputs of mixed float types, up to three dependent
/// reductions, outputs per element and per row. The same seed gives the same program.
ProgramBuilder random_program(codegen::ExprTable& exprs, std::uint64_t seed);

}  // namespace sinter::test
