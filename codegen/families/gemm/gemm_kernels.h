// The kernels of the family.
#pragma once

#include <span>

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

extern const GemmKernel kSmallMKernel, kInt8GemvKernel, kWarpTileKernel, kTmaKernel,
    kPingpongKernel, kMixedInputKernel;

/// In the order in which their schedules are compared: of two that take as long, the first's.
inline std::span<const GemmKernel* const> gemm_kernels() {
  static constexpr const GemmKernel* kKernels[] = {&kSmallMKernel,   &kInt8GemvKernel,
                                                   &kWarpTileKernel, &kTmaKernel,
                                                   &kPingpongKernel, &kMixedInputKernel};
  return kKernels;
}

/// Rows from which on mixed-input products may be ahead of tiles by warps, and up to which of
/// making the weights floats first; up to which they get a schedule each.
inline constexpr std::int64_t kLeastMixedInputRows = 17, kMostMixedInputRows = 3072;
/// With x of 8 bits they are ahead up to any number.
inline constexpr std::int64_t kW4A8Rows[] = {64, 128, 256, 512, 1024, 4096};
inline constexpr std::int64_t kMixedInputRows[] = {64, 128, 256, 512, 1024, kMostMixedInputRows};

}  // namespace sinter::codegen
