// SPDX-License-Identifier: Apache-2.0
// A kernel for a loop program.
#pragma once

#include <memory>

#include "codegen/families/family.h"

namespace sinter::codegen {

/// The family of regions that become loops over elements or rows.
const KernelFamily& loops_family();

/// The kernel of `program`, whose buffers are the plan's. `scan_tiles`: memory of as many words as
/// scan_chain_words() says, which a first launch clears.
std::shared_ptr<const KernelProgram> loops_kernel(
    plan::fb::LoopProgramT program, const CompileOptions& options,
    std::optional<std::uint32_t> scan_tiles = std::nullopt);
/// The same, where the plan's buffer `summands.buffer` has the rank's summand, and the program
/// reads the sum of all ranks'.
std::shared_ptr<const KernelProgram> loops_kernel_of_sum(plan::fb::LoopProgramT program,
                                                         const CompileOptions& options,
                                                         RankSummands summands);

}  // namespace sinter::codegen
