// SPDX-License-Identifier: Apache-2.0
// Exact float32 GEMMs and convolutions on CUDA cores: multistage cp.async copies, fused
// multiply-adds on each thread's part of the tile. See SimtTile in
// codegen/families/gemm/simt/simt_tile.cuh.
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
// Threads that compute 16 x 8 accumulators load least from shared memory, those of 8 x 8 hide each
// other's latency better. Small tiles spread few rows over all multiprocessors; their warps share
// k.
constexpr Tile kTiles[] = {
    {128, 128, 16, 2, 2, 1, 4}, {256, 128, 16, 4, 2, 1, 4}, {128, 128, 16, 4, 2, 1, 4},
    {256, 64, 16, 4, 1, 1, 4},  {128, 64, 16, 4, 1, 1, 4},  {64, 128, 16, 2, 2, 1, 4},
    {64, 64, 32, 2, 1, 2, 3},   {64, 64, 32, 2, 2, 1, 3},   {64, 64, 32, 2, 1, 4, 3},
    {128, 32, 32, 4, 1, 1, 3},  {64, 32, 32, 2, 1, 2, 4},   {32, 128, 32, 1, 2, 2, 3},
    {32, 64, 32, 1, 1, 4, 4},   {32, 32, 32, 1, 1, 4, 4},   {16, 64, 32, 1, 1, 4, 4},
    {16, 32, 64, 1, 1, 4, 4},   {128, 16, 32, 4, 1, 1, 4},  {64, 16, 32, 2, 1, 2, 4}};
constexpr int kSplitK[] = {1, 2, 3, 4, 6, 8};

constexpr int kThreadsM = 4, kThreadsN = 8;  // of a warp
constexpr int kAtOnce = 4;                   // elements of a load from shared memory
constexpr int kReserved = 1024;              // bytes of a block, for the system

bool is_for(const GemmProgram& product) {
  return !product.by_warpgroups && product.is_exact_float();
}

std::string refuse(const GemmProblem& problem) {
  if (problem.product.parts > 1) return "float32 has no gated kernel";
  if (problem.product.prologue) return "float32 has no kernel that makes its rows";
  return problem.reductions > 0 ? "float32 has no kernel that reduces rows" : "";
}

struct Simt final : GemmTile {
  int warps_m, warps_n, warps_k;

  Simt(int along_m, int along_n, int along_k)
      : warps_m(along_m), warps_n(along_n), warps_k(along_k) {}

  int epilogue_threads() const override { return 32 * warps_m * warps_n * warps_k; }
  int rows(const GemmSchedule& s) const { return s.m / warps_m / kThreadsM; }
  int columns(const GemmSchedule& s) const { return s.n / warps_n / kThreadsN; }

  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override {
    constexpr int kMostAccumulators = 128, kMostThreads = 512;
    const GemmProgram& product = problem.product;
    // Elements one by one: a thread copies those of one window.
    const bool keeps_row = !product.windows || s.vector_a > 1 || threads() % s.m == 0;
    return is_for(product) && refuse(problem).empty() && s.m % (kThreadsM * warps_m) == 0 &&
           s.n % (kThreadsN * warps_n) == 0 && s.k % (kAtOnce * warps_k) == 0 &&
           (!product.rows_are_k || columns(s) % kAtOnce == 0) && keeps_row && s.stages >= 2 &&
           rows(s) * columns(s) <= kMostAccumulators && threads() <= kMostThreads;
  }

  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override {
    constexpr int kBytes = 4;
    return kBytes *
           std::max(s.stages * staged_elements(problem.product, s), warps_k * s.m * (s.n + 8));
  }

  /// As many as leave registers for the accumulators, for what is loaded of b, and for the
  /// addresses of the windows that the thread copies.
  int blocks_at_once(const GemmProblem& problem, const GemmSchedule& s) const override {
    constexpr int kOthers = 26, kOfWindow = 3, kByRows = 8, kAllocated = 8;
    int registers = rows(s) * columns(s) + kAtOnce * columns(s) + kOthers;
    if (problem.product.rows_are_k) registers += kByRows;
    if (problem.product.windows && s.vector_a > 1)
      registers += kOfWindow * ceil_div(s.m * s.k / s.vector_a, threads());
    registers = ceil_div(registers, kAllocated) * kAllocated;
    const DeviceModel& device = problem.device;
    const int by_registers = static_cast<int>(device.registers) / (registers * threads());
    const int by_memory = device.shared_bytes / (shared_bytes(problem, s) + kReserved);
    return std::clamp(std::min(by_registers, by_memory), 1, device.threads / threads());
  }

  /// A thread has several vectors of a row, whose loads are in flight together; eight threads store
  /// whole lines.
  bool map_epilogue(const ProgramAnalysis&, int columns, GemmSchedule& s) const override {
    constexpr int kLineElements = 32, kMostElements = 64;
    const int vectors = columns / s.epilogue.vector;
    int lanes = 1;
    while (lanes * 2 <= std::min(vectors, kLineElements / s.epilogue.vector)) lanes *= 2;
    s.epilogue.threads_x = lanes;
    s.epilogue.unroll = ceil_div(vectors, lanes);
    return s.epilogue.unroll * s.epilogue.vector <= kMostElements;
  }

  /// Time until the first operands are there, of a multiprocessor's multiplications or copies, and
  /// of the epilogue.
  double estimate(const GemmProblem& problem, const GemmSchedule& s,
                  std::int64_t m) const override {
    const SimtCosts& costs = problem.device.fitted->simt;
    const double processors = filled_multiprocessors(problem.device, s.cluster());
    const double blocks = problem.matrices * static_cast<double>(s.split_k) *
                          static_cast<double>(ceil_div(m, s.m)) *
                          std::max(1.0, static_cast<double>(ceil_div(problem.n, s.n)));
    const double resident = std::clamp(std::ceil(blocks / processors), 1.0,
                                       static_cast<double>(blocks_at_once(problem, s)));
    const double waves = blocks / (processors * resident);
    // Few blocks take whole waves; of many, others begin as some end.
    const double turns = waves < costs.few_waves ? std::max(1.0, std::ceil(waves)) : waves;
    const double depth = static_cast<double>(ceil_div(ceil_div(problem.k, s.k), s.split_k)) * s.k;
    const double flops = 2.0 * s.m * s.n * depth, bytes = 4.0 * (s.m + s.n) * depth;
    // Loads of fragments take issue slots; few warps hide no latency.
    const double own = rows(s) * columns(s), loaded = rows(s) + columns(s);
    const double warps = resident * threads() / 32;
    const double slowdown = (1 + costs.load * loaded / own) * (1 + costs.idle / warps);
    const double work =
        std::max({flops * resident / costs.flops * slowdown, bytes * resident / costs.bytes,
                  bytes * std::min(blocks, processors * resident) / costs.all_bytes});
    const double sums =
        4.0 * s.m * s.n * (warps_k + s.split_k - 1 + problem.epilogue.row_bytes / 4);
    double time = costs.latency + turns * (costs.wave + work + depth / s.k * costs.step +
                                           sums / s.split_k * resident / costs.sums);
    if (s.cluster() > 1) time += costs.barrier + costs.block * s.cluster();
    return time;
  }

  std::string to_string(const GemmSchedule& s) const override {
    return fmt::format("simt {}x{}x{} warps={}x{}x{} stages={}", s.m, s.n, s.k, warps_m, warps_n,
                       warps_k, s.stages);
  }

  std::string header(const GemmProgram&) const override { return "simt_tile.cuh"; }

  std::string type(const GemmText& text) const override {
    const GemmSchedule& s = text.schedule();
    return fmt::format("WithAccumulators<SimtTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}>>",
                       s.m, s.n, s.k, warps_m, warps_n, warps_k, s.stages, s.split_k,
                       text.product().rows_are_k, s.vector_a, s.vector_b, text.reader_of_a());
  }

  void write_operands(GemmText& text) const override {
    text.write_rows_of_a();
    text.write_strided_b();
    text.write_rows();
    text.write_columns();
  }
};

std::vector<GemmSchedule> schedules(const GemmProblem&) {
  std::vector<GemmSchedule> all;
  for (const Tile& tile : kTiles)
    for (const int split_k : kSplitK) {
      GemmSchedule s;
      s.m = tile.m, s.n = tile.n, s.k = tile.k;
      s.stages = tile.stages;
      s.split_k = split_k;
      s.tile = std::make_shared<Simt>(tile.warps_m, tile.warps_n, tile.warps_k);
      all.push_back(std::move(s));
    }
  return all;
}

std::optional<GemmSchedule> parse(const std::string& text) {
  GemmSchedule s;
  int warps_m = 0, warps_n = 0, warps_k = 0;
  if (!read_sizes(text, "simt %dx%dx%d warps=%dx%dx%d stages=%d split_k=%d cluster_n=%d", &s.m,
                  &s.n, &s.k, &warps_m, &warps_n, &warps_k, &s.stages, &s.split_k, &s.cluster_n))
    return std::nullopt;
  s.tile = std::make_shared<Simt>(warps_m, warps_n, warps_k);
  return s;
}

}  // namespace

constinit const GemmKernel kSimtKernel = {"simt", is_for, refuse, schedules, parse};

}  // namespace sinter::codegen
