// SPDX-License-Identifier: Apache-2.0
// Attention as CUDA kernels.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/attention/attention_program.h"

namespace sinter::codegen {

/// Chooses schedules and writes the kernel: constants and addresses around attention.cuh.
/// `schedule`: use this one, for measurements; empty: choose, unless `requested` does.
/// `programmatic_launch`: launched before the preceding step ends
/// (KernelVariant.programmatic_launch). `facts`: for a program with a prologue, the types of its
/// buffers, which of them no step writes, and `precise`. Deterministic. Throws Error(kUnsupported)
/// with the reason if no schedule accepts the problem.
EmittedKernel emit_attention(const AttentionProgram& program, const std::string& name,
                             const std::vector<std::string>& origins, ExprTable& exprs,
                             bool programmatic_launch = false, const std::string& schedule = {},
                             const RequestedSchedules& requested = {},
                             const KernelRequest& facts = {});

}  // namespace sinter::codegen
