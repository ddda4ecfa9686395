// SPDX-License-Identifier: Apache-2.0
// Compiles kernels by NVRTC, with a cache.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/targets/compile_kernels.h"

namespace sinter::codegen {

/// Compiles in parallel; see Target::compile. Throws Error(kDevice), which says how to install
/// NVRTC, if it is not found.
std::vector<CompiledKernel> compile_cuda(std::span<const KernelText> texts,
                                         const KernelCompileOptions& options,
                                         KernelCompileStats& stats);

}  // namespace sinter::codegen
