// SPDX-License-Identifier: Apache-2.0
// The kernels of the family.
#pragma once

#include <span>

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

extern const GemmKernel kSmallMKernel, kInt8GemvKernel, kWarpTileKernel, kSimtKernel, kTmaKernel,
    kPingpongKernel, kMixedInputKernel;

/// In order of comparison: of equal estimates the first kernel's schedule wins.
inline std::span<const GemmKernel* const> gemm_kernels() {
  static constexpr const GemmKernel* kKernels[] = {
      &kSmallMKernel, &kInt8GemvKernel, &kWarpTileKernel,  &kSimtKernel,
      &kTmaKernel,    &kPingpongKernel, &kMixedInputKernel};
  return kKernels;
}

/// Row counts between which mixed-input GEMMs may beat warp tiles and dequantizing the weights
/// first; row counts up to which there is a schedule each.
inline constexpr std::int64_t kLeastMixedInputRows = kFewRows + 1, kMostMixedInputRows = 3072;
/// With 8-bit x there is no upper limit.
inline constexpr std::int64_t kW4A8Rows[] = {64, 128, 256, 512, 1024, 4096};
inline constexpr std::int64_t kMixedInputRows[] = {64, 128, 256, 512, 1024, kMostMixedInputRows};

}  // namespace sinter::codegen
