// Attention as CUDA kernels.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/cuda_kernels.h"
#include "codegen/lowering/attention_lowering.h"

namespace sinter::codegen {

/// Chooses schedules and writes the kernel: constants and addresses around device/attention.cuh.
/// `schedule`: the one to use, for measuring; empty: choose, but for what `wish` says. `early`:
/// launched before the step in front has ended (KernelVariant.overlaps). Deterministic. Throws
/// Error(kUnsupported) saying why if no schedule takes the problem.
EmittedKernel emit_attention(const AttentionProgram& program, const std::string& name,
                             const std::vector<std::string>& origins, ExprTable& exprs,
                             bool early = false, const std::string& schedule = {},
                             const ScheduleWish& wish = {});

}  // namespace sinter::codegen
