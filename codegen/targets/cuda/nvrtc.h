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

struct NvrtcInfo {
  bool found = false;
  std::string path;
  int version = 0;      // 13000 for 13.0
  std::string problem;  // why not, and how to get it
};

/// Loads NVRTC as compiling would; problems are reported, not thrown.
NvrtcInfo find_nvrtc();

}  // namespace sinter::codegen
