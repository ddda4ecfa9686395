// The kernels of the family.
#pragma once

#include <span>

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

/// In the order in which their schedules are compared: of two that take as long, the first's.
std::span<const GemmKernel* const> gemm_kernels();

}  // namespace sinter::codegen
