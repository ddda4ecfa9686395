// Kernels' texts as code: NVRTC, and the cache of what it made.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/targets/compile_kernels.h"

namespace sinter::codegen {

/// Compiles in parallel; see Target::compile. Throws Error(kDevice) if NVRTC is not found (saying
/// how to get it).
std::vector<CompiledKernel> compile_cuda(std::span<const KernelText> texts,
                                         const KernelCompileOptions& options,
                                         KernelCompileStats& stats);

}  // namespace sinter::codegen
