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

/// Every source for every architecture; result [source][architecture].
std::vector<std::vector<CompiledKernel>> compile_cuda(std::span<const std::string> sources,
                                                      std::span<const std::string> architectures,
                                                      const KernelCompileOptions& options,
                                                      KernelCompileStats& stats);

}  // namespace sinter::codegen
