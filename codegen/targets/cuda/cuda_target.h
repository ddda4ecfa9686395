// NVIDIA's GPUs: fused regions become CUDA kernels, which NVRTC compiles for each architecture.
#pragma once

#include "codegen/targets/target.h"

namespace sinter::codegen {

const Target& cuda_target();

}  // namespace sinter::codegen
