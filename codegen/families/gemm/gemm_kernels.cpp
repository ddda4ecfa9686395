#include "codegen/families/gemm/gemm_kernels.h"

#include "codegen/families/gemm/int8_gemv/int8_gemv_schedule.h"
#include "codegen/families/gemm/mixed_input/mixed_input_schedule.h"
#include "codegen/families/gemm/pingpong/pingpong_schedule.h"
#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/gemm/tma/tma_schedule.h"
#include "codegen/families/gemm/warp_tile/warp_tile_schedule.h"

namespace sinter::codegen {

std::span<const GemmKernel* const> gemm_kernels() {
  static constexpr const GemmKernel* kKernels[] = {&kSmallMKernel,   &kInt8GemvKernel,
                                                   &kWarpTileKernel, &kTmaKernel,
                                                   &kPingpongKernel, &kMixedInputKernel};
  return kKernels;
}

}  // namespace sinter::codegen
