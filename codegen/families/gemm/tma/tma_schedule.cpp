#include "codegen/families/gemm/tma/tma_schedule.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "codegen/emit/tensor_maps.h"
#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/tensor_map_limits.h"

namespace sinter::codegen {
namespace {

constexpr int kMostStages = 12, kMostWarpgroups = 4;
constexpr int kReservedShared = 1024;    // of each block, for the system
constexpr std::int64_t kLeastRows = 33;  // a tile has 64

struct Tile {
  int m, n, warpgroups, blocks;  // blocks: that a multiprocessor has room for
};
constexpr Tile kTiles[] = {{64, 32, 1, 1},   {64, 64, 1, 1},   {64, 64, 1, 2},  {64, 96, 1, 1},
                           {64, 96, 1, 2},   {64, 128, 1, 1},  {64, 128, 1, 2}, {64, 192, 1, 1},
                           {128, 64, 2, 1},  {128, 64, 2, 2},  {128, 96, 2, 1}, {128, 128, 2, 1},
                           {128, 128, 2, 2}, {128, 192, 2, 1}, {128, 256, 2, 1}};
constexpr int kSplitK[] = {1, 2, 3, 4, 6, 8};

/// Boxes of b are 64 columns wide; rows of b may be any number that warpgroups take.
int column_unit(const GemmProgram& product) { return product.rows_are_k ? kBoxColumns : 32; }

}  // namespace

std::string further_arguments(const GemmProgram& product) {
  if (product.windows) return fmt::format(", {}, {}", product.parts, product.windows->in.size());
  return product.parts == 1 ? "" : fmt::format(", {}", product.parts);
}

namespace {

std::string refuse_windows(const GemmProgram& product) {
  const ConvWindows& windows = *product.windows;
  if (!product.batch.empty()) return "the copy engine would read channels of other groups";
  if (!ir::is_multiple_of(windows.channels, kTmaStep))
    return "the copy engine reads 64 channels of a pixel at once";
  if (!ir::is_multiple_of(windows.pitch, 8)) return "pixels do not begin at multiples of 16 bytes";
  const std::size_t dims = windows.in.size(), rank = dims + 2;
  if (dims < 1 || dims > 3) return "the copy engine knows windows of one to three dimensions";
  const std::int64_t most = plan::window_bound(rank);
  for (std::size_t d = 0; d < dims; ++d) {
    const WindowBounds bounds = window_bounds(windows, d);
    if (!bounds.upper) return "where the last window begins depends on sizes that are not known";
    if (bounds.lower < -most || bounds.lower >= most || *bounds.upper < -most ||
        *bounds.upper >= most || windows.strides[d] > plan::kMostWindowStep ||
        (windows.kernel[d] - 1) * windows.dilations[d] >= 2 * most)
      return "windows are larger than the copy engine knows";
  }
  return "";
}

}  // namespace

int tma_stages(const GemmSchedule& s, const DeviceModel& device, int blocks, int reserved,
               std::optional<std::int64_t> depth) {
  const int room = device.block_shared_bytes / blocks - reserved - kTmaAlignment -
                   kMostStages * kTmaStageBarriers;
  int stages = std::min(room / tma_stage_bytes(s), kMostStages);
  if (depth) stages = std::min(stages, ceil_div(ceil_div(*depth, kTmaStep), s.split_k));
  return std::max(stages, 2);
}

bool fits_tma(const GemmProblem& problem, const GemmSchedule& s, int warpgroups,
              int most_accumulators) {
  constexpr int kMostSize = 256;  // a box's rows
  return is_for_tma(problem.product) && refuse_tma(problem).empty() && s.vector_a == 8 &&
         s.vector_b == 8 && warpgroups >= 1 && warpgroups <= kMostWarpgroups &&
         s.m % (64 * warpgroups) == 0 && s.m <= kMostSize &&
         s.n % (column_unit(problem.product) * problem.product.parts) == 0 && s.n <= kMostSize &&
         (s.n % 64 == 0 || s.n <= 96) && s.k == kTmaStep && s.stages >= 2 &&
         tma_accumulators(s, warpgroups) <= most_accumulators && s.cluster_n == 1;
}

bool is_for_tma(const GemmProgram& product) { return product.by_warpgroups && !product.weights; }

std::string refuse_tma(const GemmProblem& problem) {
  const GemmProgram& product = problem.product;
  if (product.rows) return "warpgroups do not make rows";
  if (problem.reductions > 0) return "rows are reduced by warps, whose tiles have fewer rows";
  if (product.windows)
    if (std::string reason = refuse_windows(product); !reason.empty()) return reason;
  if (product.batch.size() > kMostMappedBatch) return "the batch has too many dimensions";
  if (problem.most_m && *problem.most_m < kLeastRows) return "too few rows for warpgroups";
  return "";
}

namespace {

/// Warpgroups share the rows of the tile.
struct Tma final : GemmTile {
  int warpgroups;

  explicit Tma(int count) : warpgroups(count) {}

  int epilogue_threads() const override { return 128 * warpgroups; }
  int threads() const override { return epilogue_threads() + 32; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override {
    constexpr int kMostAccumulators = 128;
    return fits_tma(problem, s, warpgroups, kMostAccumulators);
  }

  int shared_bytes(const GemmProblem&, const GemmSchedule& s) const override {
    return kTmaAlignment + std::max(s.stages * tma_stage_bytes(s), s.m * (s.n + 8) * 4) +
           s.stages * kTmaStageBarriers;
  }

  int blocks_at_once(const GemmProblem& problem, const GemmSchedule& s) const override {
    const int together = blocks_that_fit(problem, s);
    return together > 1 ? together : 0;
  }

  // Fitted to 360 times of 19 products (64 to 4,096 rows, k of 384 to 3,072; a bias, gelu, a
  // residual) in graphs on an H200: those chosen take 3 % longer than the best of a product in the
  // mean.
  double estimate(const GemmProblem& problem, const GemmSchedule& s,
                  std::int64_t m) const override {
    const RelativeRates rates = problem.rates();
    const double latency = 1420 / rates.clock, wave = 430 / rates.clock;  // nanoseconds
    const double step = 27 / rates.clock;
    const double barrier = 430 / rates.clock, block = 440 / rates.clock;
    // Each nanosecond.
    const double flops_rate = 4310 * rates.tensor, bytes_rate = 88 * rates.clock;
    const double all_bytes_rate = 7300 * rates.clock;
    // Of an element, in thousandths of a nanosecond: storing its sum, which every block of a
    // cluster does, and the rest, which they share.
    constexpr double kStored = 55, kElement = 29.5, kInstruction = 5.1, kRowByte = 22.6;
    const EpilogueCost& epilogue = problem.epilogue;
    const double processors = filled_multiprocessors(problem.device, s.cluster());
    const double tiles =
        problem.matrices * static_cast<double>(ceil_div(m, s.m) * ceil_div(problem.n, s.n));
    const double blocks = tiles * static_cast<double>(s.split_k);
    const double depth =
        static_cast<double>(ceil_div(ceil_div(problem.k, kTmaStep), s.split_k) * kTmaStep);
    const double resident = std::clamp(std::ceil(blocks / processors), 1.0,
                                       static_cast<double>(blocks_that_fit(problem, s)));
    const double waves = std::max(1.0, std::ceil(blocks / (processors * resident)));
    const double bytes = (s.m + s.n) * depth * 2, flops = 2.0 * s.m * s.n * depth;
    const double work = std::max({flops / flops_rate * resident, bytes / bytes_rate * resident,
                                  bytes * std::min(blocks, processors * resident) / all_bytes_rate,
                                  depth / kTmaStep * step});
    const double element = kStored + (kElement + kInstruction * epilogue.instructions +
                                      kRowByte * epilogue.row_bytes) /
                                         s.split_k / problem.product.parts;
    const double sums = s.m * s.n / 1000.0 * element / warpgroups * resident / rates.clock;
    double time = latency + waves * (work + sums + wave);
    if (s.cluster() > 1) time += barrier + block * s.cluster();
    return time;
  }

  std::string to_string(const GemmSchedule& s) const override {
    return fmt::format("tma {}x{}x{} warpgroups={} stages={}", s.m, s.n, s.k, warpgroups, s.stages);
  }

  std::string header(const GemmProgram&) const override { return "tma.cuh"; }

  std::string type(const GemmText& text) const override {
    const GemmSchedule& s = text.schedule();
    const GemmProgram& product = text.product();
    return fmt::format("WithAccumulators<TmaTile<{}, {}, {}, {}, {}, {}, {}, {}{}>>",
                       storage_name(product.type), s.m, s.n, warpgroups, s.stages, s.split_k,
                       product.rows_are_k, product.batch.size() + 2, further_arguments(product));
  }

  void write_operands(GemmText& text) const override {
    for (std::string& line : text.mapped_operands()) text.line(std::move(line));
  }

 private:
  /// Blocks of a multiprocessor that its shared memory and registers are enough for.
  int blocks_that_fit(const GemmProblem& problem, const GemmSchedule& s) const {
    constexpr int kOtherRegisters = 40, kAllocated = 8;
    const int registers =
        (tma_accumulators(s, warpgroups) + kOtherRegisters + kAllocated - 1) / kAllocated;
    const int by_memory =
        problem.device.block_shared_bytes / (shared_bytes(problem, s) + kReservedShared);
    const int by_registers =
        static_cast<int>(problem.device.registers) / (threads() * registers * kAllocated);
    return std::max(1, std::min(by_memory, by_registers));
  }
};

std::vector<GemmSchedule> schedules(const GemmProblem& problem) {
  std::vector<GemmSchedule> all;
  for (const Tile& tile : kTiles)
    for (const int split_k : kSplitK) {
      if (split_k > 1 && problem.most_k && ceil_div(*problem.most_k, kTmaStep) < split_k) continue;
      GemmSchedule s;
      s.m = tile.m, s.n = tile.n, s.k = kTmaStep;
      s.split_k = split_k;
      s.stages = tma_stages(s, problem.device, tile.blocks, kReservedShared, problem.most_k);
      s.tile = std::make_shared<Tma>(tile.warpgroups);
      const auto same = [&](const GemmSchedule& other) {
        return other.m == s.m && other.n == s.n && other.stages == s.stages &&
               other.split_k == s.split_k;
      };
      if (s.tile->fits(problem, s) && std::ranges::none_of(all, same)) all.push_back(s);
    }
  return all;
}

std::optional<GemmSchedule> parse(const std::string& text) {
  GemmSchedule s;
  int warpgroups = 0;
  if (!read_sizes(text, "tma %dx%dx%d warpgroups=%d stages=%d split_k=%d cluster_n=%d", &s.m, &s.n,
                  &s.k, &warpgroups, &s.stages, &s.split_k, &s.cluster_n))
    return std::nullopt;
  s.tile = std::make_shared<Tma>(warpgroups);
  return s;
}

}  // namespace

constinit const GemmKernel kTmaKernel = {"tma", is_for_tma, refuse_tma, schedules, parse};

}  // namespace sinter::codegen
