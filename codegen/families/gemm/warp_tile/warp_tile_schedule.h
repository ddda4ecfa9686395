// Products and convolutions by warps: operands come by multistage cp.async, each warp has a part of
// the tile (mma.sync). See WarpTile in codegen/families/gemm/warp_tile/warp_tile.cuh.
#pragma once

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

/// Warps along m, n and k of the tile.
struct WarpTile final : GemmTile {
  int warps_m, warps_n, warps_k;

  WarpTile(int along_m, int along_n, int along_k)
      : warps_m(along_m), warps_n(along_n), warps_k(along_k) {}

  int epilogue_threads() const override { return 32 * warps_m * warps_n * warps_k; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override;
  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override;
  double estimate(const GemmProblem& problem, const GemmSchedule& s, std::int64_t m) const override;
  std::string to_string(const GemmSchedule& s) const override;
  std::string header(const GemmProgram& product) const override;
  std::string type(const GemmText& text) const override;
  void write_operands(GemmText& text) const override;
};

extern const GemmKernel kWarpTileKernel;

}  // namespace sinter::codegen
