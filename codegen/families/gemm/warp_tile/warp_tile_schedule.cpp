// SPDX-License-Identifier: Apache-2.0
// GEMMs and convolutions by warps: multistage cp.async copies, mma.sync on each warp's part of the
// tile. See WarpTile in codegen/families/gemm/warp_tile/warp_tile.cuh.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {
namespace {

struct Tile {
  int m, n, k, warps_m, warps_n, warps_k, stages;
};
// Small tiles spread few rows over all multiprocessors and keep a whole k in flight; large ones
// read operands less often.
constexpr Tile kTiles[] = {
    {16, 16, 128, 1, 1, 4, 4}, {16, 32, 128, 1, 1, 4, 4}, {16, 64, 128, 1, 2, 2, 4},
    {16, 128, 64, 1, 4, 1, 4}, {32, 32, 128, 1, 1, 4, 3}, {32, 32, 64, 2, 2, 1, 4},
    {32, 64, 64, 1, 2, 2, 4},  {32, 128, 64, 1, 4, 1, 4}, {64, 32, 64, 2, 1, 2, 4},
    {64, 64, 64, 2, 2, 1, 4},  {64, 128, 64, 2, 2, 1, 3}, {128, 64, 64, 2, 2, 1, 3},
    {128, 128, 32, 2, 2, 1, 4}};
// Copies of windows take more instructions: eight warps hide each other's latency.
constexpr Tile kWindowTiles[] = {
    {32, 32, 64, 1, 2, 2, 4},  {32, 64, 64, 2, 2, 1, 4},   {64, 64, 64, 2, 4, 1, 4},
    {64, 64, 64, 2, 2, 2, 4},  {64, 128, 64, 2, 4, 1, 3},  {128, 64, 64, 4, 2, 1, 3},
    {128, 64, 64, 4, 2, 1, 4}, {128, 128, 64, 4, 2, 1, 3}, {256, 64, 64, 4, 2, 1, 3}};
constexpr int kSplitK[] = {1, 2, 4, 8};
/// With row reductions: rows of a tile, and tiles of a cluster that form whole rows.
constexpr int kNormRows[] = {16, 32};
constexpr int kNormClusters[] = {1, 2, 3, 4, 6, 8, 12, 16};

bool is_for(const GemmProgram& product) {
  return !product.by_warpgroups && !product.weights && product.parts == 1 && !product.prologue &&
         !product.is_exact_float();
}

constexpr std::int64_t kScaledDepth = 128;  // k's with one block scale: BlockScales

std::string refuse(const GemmProblem& problem) {
  const auto& blocks = problem.product.blocks;
  return blocks && blocks->depth != kScaledDepth
             ? fmt::format("scales of blocks are those of {} of k", kScaledDepth)
             : "";
}

/// Whether a warp's part of a step has one scale for each row. MMAs then need registers besides the
/// accumulators.
bool scales_blocks(const GemmProgram& product, const GemmSchedule& s, int warps, int warps_k) {
  constexpr int kMostAccumulators = 64;
  return !product.blocks ||
         (product.blocks->rows % s.n == 0 && kScaledDepth % (s.k / warps_k) == 0 &&
          s.m * s.n / (32 * warps) <= kMostAccumulators);
}

/// Warps along m, n and k of the tile.
struct WarpTile final : GemmTile {
  int warps_m, warps_n, warps_k;

  WarpTile(int along_m, int along_n, int along_k)
      : warps_m(along_m), warps_n(along_n), warps_k(along_k) {}

  int epilogue_threads() const override { return 32 * warps_m * warps_n * warps_k; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override {
    return is_for(problem.product) && s.m % (16 * warps_m) == 0 && s.n % (8 * warps_n) == 0 &&
           s.k % (32 / problem.product.element_bytes() * warps_k) == 0 && s.stages >= 2 &&
           threads() <= 1024 && scales_blocks(problem.product, s, warps_m * warps_n, warps_k);
  }

  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override {
    const int bytes = problem.product.element_bytes();
    return std::max(s.stages * staged_elements(problem.product, s) * bytes,
                    warps_k * s.m * (s.n + 8) * 4);
  }

  /// Time that a block waits, time of its multiprocessor's loads and MMAs, and contention among
  /// blocks.
  double estimate(const GemmProblem& problem, const GemmSchedule& s,
                  std::int64_t m) const override {
    const DeviceModel& device = problem.device;
    const double processors = device.multiprocessors;
    const double shared_of_processor = device.block_shared_bytes;
    const double threads_of_processor = device.threads;
    const auto& fitted = device.fitted->warp_tile;
    const WarpTileCosts& costs = problem.product.windows ? fitted.windows : fitted.dense;
    const double tiles = static_cast<double>(ceil_div(m, s.m)) *
                         std::max(1.0, static_cast<double>(ceil_div(problem.n, s.n))) *
                         problem.matrices;
    const double blocks = tiles * s.split_k;
    const double resident =
        std::max(1.0, std::min(std::min(shared_of_processor / shared_bytes(problem, s),
                                        threads_of_processor / threads()),
                               blocks / processors));
    const double waves = std::max(
        1.0, static_cast<double>(ceil_div(static_cast<std::int64_t>(blocks),
                                          static_cast<std::int64_t>(processors * resident))));
    const double depth = static_cast<double>(ceil_div(ceil_div(problem.k, s.k), s.split_k)) * s.k;
    const double bytes = (s.m + s.n) * depth * problem.product.element_bytes(),
                 flops = 2.0 * s.m * s.n * depth;
    const double work = std::max(
        std::max(bytes / costs.bytes, flops / costs.flops / problem.tensor_speed()) * resident,
        bytes * blocks / costs.all_bytes / waves);
    const double accumulator_time =
        s.m * s.n * 4.0 * (warps_k + s.split_k) / s.split_k / costs.bytes / costs.accumulator_rate;
    double time =
        waves * (costs.latency + work + depth / s.k * costs.step + accumulator_time * resident);
    if (s.cluster() > 1) time += costs.barrier * (1 + costs.barrier_more * s.cluster());
    if (s.cluster() > kPortableCluster) time += costs.barrier;
    time += costs.split * (s.split_k - 1) * resident * waves;
    time += problem.reductions * (s.cluster_n > 1 ? costs.barrier : costs.reduction);
    return time;
  }

  std::string to_string(const GemmSchedule& s) const override {
    return fmt::format("warp_tile {}x{}x{} warps={}x{}x{} stages={}", s.m, s.n, s.k, warps_m,
                       warps_n, warps_k, s.stages);
  }

  std::string header(const GemmProgram& product) const override {
    return product.windows ? "implicit_gemm.cuh" : "warp_tile.cuh";
  }

  std::string type(const GemmText& text) const override {
    const GemmSchedule& s = text.schedule();
    const GemmProgram& product = text.product();
    return fmt::format(
        "WithAccumulators<WarpTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}{}>>",
        storage_name(product.type), storage_name(product.b_type), s.m, s.n, s.k, warps_m, warps_n,
        warps_k, s.stages, s.split_k, product.rows_are_k, s.vector_a, s.vector_b,
        text.reader_of_a(), product.blocks ? ", DenseRows, true" : "");
  }

  void write_operands(GemmText& text) const override {
    text.write_rows_of_a();
    text.write_strided_b();
    for (std::string& line : text.block_scales()) text.line(std::move(line));
    text.write_rows();
    text.write_columns();
  }
};

std::vector<GemmSchedule> schedules(const GemmProblem& problem) {
  std::vector<GemmSchedule> all;
  const auto add = [&](const Tile& tile, int split_k, int cluster_n) {
    GemmSchedule s;
    s.m = tile.m, s.n = tile.n, s.k = tile.k * 2 / problem.product.element_bytes();
    s.stages = tile.stages;
    s.split_k = split_k;
    s.cluster_n = cluster_n;
    s.tile = std::make_shared<WarpTile>(tile.warps_m, tile.warps_n, tile.warps_k);
    all.push_back(std::move(s));
  };
  if (problem.reductions == 0) {
    for (const Tile& tile : kTiles)
      for (const int split_k : kSplitK) add(tile, split_k, 1);
    for (const Tile& tile : kWindowTiles)
      for (const int split_k : kSplitK)
        if (problem.product.windows) add(tile, split_k, 1);
    return all;
  }
  for (const int rows : kNormRows) {
    for (const int cluster_n : kNormClusters) {
      if (!problem.most_n) break;
      const int n = ceil_div(ceil_div(*problem.most_n, cluster_n), 8) * 8;
      for (const int split_k : kSplitK) {
        add({rows, n, 128, 1, 1, 4, 3}, split_k, cluster_n);
        if (n % 16 == 0) add({rows, n, 128, 1, 2, 2, 3}, split_k, cluster_n);
        if (n % 32 == 0) add({rows, n, 64, 1, 4, 1, 4}, split_k, cluster_n);
      }
    }
  }
  return all;
}

std::optional<GemmSchedule> parse(const std::string& text) {
  GemmSchedule s;
  int warps_m = 0, warps_n = 0, warps_k = 0;
  if (!read_sizes(text, "warp_tile %dx%dx%d warps=%dx%dx%d stages=%d split_k=%d cluster_n=%d", &s.m,
                  &s.n, &s.k, &warps_m, &warps_n, &warps_k, &s.stages, &s.split_k, &s.cluster_n))
    return std::nullopt;
  s.tile = std::make_shared<WarpTile>(warps_m, warps_n, warps_k);
  return s;
}

}  // namespace

constinit const GemmKernel kWarpTileKernel = {"warp_tile", is_for, refuse, schedules, parse};

}  // namespace sinter::codegen
