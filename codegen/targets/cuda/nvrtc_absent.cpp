// SPDX-License-Identifier: Apache-2.0
// A build without CUDA toolkit headers: generates kernel text but cannot compile it.
#include <sinter/error.h>

#include "codegen/targets/cuda/compile_cuda.h"
#include "codegen/targets/cuda/nvrtc_info.h"

namespace sinter::codegen {
namespace {

constexpr const char* kCpuOnly =
    "this build of Sinter is CPU-only: build it where a CUDA toolkit is found (or run "
    "tools/setup --cuda) to compile for target cuda";

}  // namespace

std::vector<CompiledKernel> compile_cuda(std::span<const KernelText>, const KernelCompileOptions&,
                                         KernelCompileStats&) {
  throw Error(ErrorCode::kUnsupported, kCpuOnly);
}

NvrtcInfo find_nvrtc() {
  NvrtcInfo info;
  info.problem = kCpuOnly;
  return info;
}

}  // namespace sinter::codegen
