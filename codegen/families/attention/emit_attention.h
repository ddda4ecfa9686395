// Attention as CUDA kernels.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/attention/attention_program.h"

namespace sinter::codegen {

/// Chooses schedules and writes the kernel: constants and addresses around device/attention.cuh.
/// `schedule`: the one to use, for measuring; empty: choose, but for what `requested` says.
/// `programmatic_launch`: launched before the step in front has ended
/// (KernelVariant.programmatic_launch). `facts`: what else a kernel is written by where the program
/// has something in front: the types of its buffers, which of them no step writes, `precise`.
/// Deterministic. Throws Error(kUnsupported) saying why if no schedule takes the problem.
EmittedKernel emit_attention(const AttentionProgram& program, const std::string& name,
                             const std::vector<std::string>& origins, ExprTable& exprs,
                             bool programmatic_launch = false, const std::string& schedule = {},
                             const RequestedSchedules& requested = {},
                             const KernelRequest& facts = {});

}  // namespace sinter::codegen
