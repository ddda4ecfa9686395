// TMA warp-specialized ping-pong products (sm_90 alone): consumers alternate, so that one
// multiplies while the other has the epilogue of the tile before; blocks are persistent. See
// PingpongTile in codegen/families/gemm/pingpong/pingpong.cuh.
#pragma once

#include "codegen/families/gemm/gemm_kernel.h"

namespace sinter::codegen {

struct Pingpong final : GemmTile {
  int consumers;   // that alternate; one does not
  int warpgroups;  // of each consumer
  int blocks;      // of the grid, at most: they take tiles in order
  /// Whether the epilogue is unrolled and a thread computes with other columns than it loads and
  /// stores; else its passes are a loop over accumulators that pass through shared memory.
  bool spread;

  Pingpong(int of_block, int of_consumer, int of_grid, bool is_spread)
      : consumers(of_block), warpgroups(of_consumer), blocks(of_grid), spread(is_spread) {}

  int epilogue_threads() const override { return 128 * warpgroups; }  // of a tile
  int threads() const override { return epilogue_threads() * consumers + 128; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override;
  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override;
  int most_shared_bytes(const DeviceModel& device) const override;
  bool map_epilogue(const ProgramAnalysis& analysis, int columns, GemmSchedule& s) const override;
  double estimate(const GemmProblem& problem, const GemmSchedule& s, std::int64_t m) const override;
  std::string to_string(const GemmSchedule& s) const override;
  std::string header(const GemmProgram& product) const override;
  std::string type(const GemmText& text) const override;
  void write_operands(GemmText& text) const override;
  void write(GemmText& text) const override;

  /// Bytes of the accumulators of a pass of all consumers.
  int pass_bytes(const GemmSchedule& s) const;

 private:
  void write_tile_loop(GemmText& text) const;
  void write_passes(GemmText& text) const;
};

extern const GemmKernel kPingpongKernel;

}  // namespace sinter::codegen
