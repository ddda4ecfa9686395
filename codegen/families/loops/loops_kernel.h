// SPDX-License-Identifier: Apache-2.0
// A kernel for a loop program.
#pragma once

#include <memory>

#include "codegen/families/family.h"

namespace sinter::codegen {

/// The family of regions that become loops over elements or rows.
const KernelFamily& loops_family();

/// The kernel of `program`, whose buffers are the plan's.
std::shared_ptr<const KernelProgram> loops_kernel(plan::fb::LoopProgramT program,
                                                  const CompileOptions& options);

}  // namespace sinter::codegen
