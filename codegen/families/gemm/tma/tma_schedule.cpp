// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/tma/tma_schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/tensor_maps.h"
#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"
#include "runtime/plan/tensor_map_limits.h"

namespace sinter::codegen {
namespace {

constexpr int kMostStages = 12, kMostWarpgroups = 4;
constexpr int kReservedShared = 1024;    // per block, for the system
constexpr std::int64_t kLeastRows = 33;  // a tile has 64 rows

struct Tile {
  int m, n, warpgroups, blocks;  // blocks: that fit a multiprocessor
};
constexpr Tile kTiles[] = {{64, 32, 1, 1},   {64, 64, 1, 1},   {64, 64, 1, 2},  {64, 96, 1, 1},
                           {64, 96, 1, 2},   {64, 128, 1, 1},  {64, 128, 1, 2}, {64, 192, 1, 1},
                           {128, 64, 2, 1},  {128, 64, 2, 2},  {128, 96, 2, 1}, {128, 128, 2, 1},
                           {128, 128, 2, 2}, {128, 192, 2, 1}, {128, 256, 2, 1}};
constexpr int kSplitK[] = {1, 2, 3, 4, 6, 8};

/// Column granularity: boxes of b[k][n] are 64 columns wide; b[n][k] allows any width that wgmma
/// does, and the epilogue needs 16.
int column_unit(const GemmProgram& product) { return product.rows_are_k ? kBoxColumns : 16; }

}  // namespace

int tma_product_columns(const GemmProgram& product, int columns) {
  if (columns == 192 || (columns == 160 && !product.rows_are_k)) return columns;
  for (const int one : {128, 112, 96, 64})
    if (columns % one == 0 && (one % kBoxColumns == 0 || !product.rows_are_k)) return one;
  return 32;
}

std::string further_arguments(const GemmProgram& product, const GemmSchedule& s, int promoted,
                              int split_k) {
  const std::size_t windows = product.windows ? product.windows->in.size() : 0;
  if (split_k > 1)
    return fmt::format(", {}, {}, {}, {}, {}, {}", product.parts_of_b(), windows,
                       promoted / kPromotionStep, s.multicast, product.blocks.has_value(), split_k);
  if (s.multicast > 1 || product.blocks)
    return fmt::format(", {}, {}, {}, {}{}", product.parts_of_b(), windows,
                       promoted / kPromotionStep, s.multicast, product.blocks ? ", true" : "");
  if (promoted > 0)
    return fmt::format(", {}, {}, {}", product.parts_of_b(), windows, promoted / kPromotionStep);
  if (product.windows) return fmt::format(", {}, {}", product.parts_of_b(), windows);
  return product.parts_of_b() == 1 ? "" : fmt::format(", {}", product.parts);
}

int needed_promotion(const GemmProblem& problem) {
  // Each 32 products are added with an error of up to 2^-13 of the sum: 0.1 % over 1,024, while
  // rounding both operands to four bits costs 3 %. For deeper sums, half of that.
  constexpr std::int64_t kMostUnpromoted = 1024;
  constexpr int kPromoted = 512;
  if (problem.product.blocks) return static_cast<int>(problem.product.blocks->depth);
  if (problem.product.fast_accumulation) return 0;
  const bool is_deep = !(problem.most_k && *problem.most_k <= kMostUnpromoted);
  return problem.product.is_float8() && is_deep ? kPromoted : 0;
}

std::string options_text(const GemmSchedule& s, int promoted) {
  return (promoted > 0 ? fmt::format(" promote={}", promoted) : "") +
         (s.multicast > 1 ? fmt::format(" multicast={}", s.multicast) : "");
}

namespace {

/// Removes " name=7" from a schedule's text, if present, and returns the number.
std::optional<int> take_number(std::string& schedule, std::string_view name) {
  const std::size_t at = schedule.find(name);
  if (at == schedule.npos) return std::nullopt;
  const std::size_t end = std::min(schedule.find(' ', at + 1), schedule.size());
  const int number = std::atoi(schedule.substr(at + name.size(), end).c_str());
  schedule.erase(at, end - at);
  return number;
}

}  // namespace

int take_promotion(std::string& schedule) {
  const std::string asked = schedule;
  const std::optional<int> promoted = take_number(schedule, " promote=");
  if (!promoted) return 0;
  if (*promoted < kPromotionStep || *promoted % kPromotionStep != 0 || *promoted > 4096)
    throw Error(
        ErrorCode::kUsage,
        fmt::format("sums are promoted every {} of k, or some times that, or not at all, in "
                    "the schedule '{}'",
                    kPromotionStep, asked));
  return *promoted;
}

int take_multicast(std::string& schedule) {
  const std::string asked = schedule;
  const int blocks = take_number(schedule, " multicast=").value_or(1);
  require_sizes({blocks}, asked);
  return blocks;
}

namespace {

std::string refuse_windows(const GemmProgram& product) {
  const ConvWindows& windows = *product.windows;
  if (!product.batch.empty()) return "the copy engine would read channels of other groups";
  const int step = tma_step(product);
  // Channels of a pixel are padded with zeros, by at most half.
  if (!ir::is_multiple_of(windows.channels, step) &&
      !(windows.channels.is_constant() &&
        ceil_div(windows.channels.value(), step) * step * 2 <= windows.channels.value() * 3))
    return fmt::format("the copy engine reads {} channels of a pixel at once", step);
  if (!ir::is_multiple_of(windows.pitch, tma_unit(product)))
    return "pixels do not begin at multiples of 16 bytes";
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

Dim padded_channels(const ConvWindows& windows, int step, const ir::Ranges& ranges) {
  return ir::ceil_div(windows.channels, step, ranges) * Dim(step);
}

Dim tma_depth(const GemmProblem& problem, const GemmSchedule& s) {
  const GemmProgram& product = problem.product;
  if (!product.windows || ir::is_multiple_of(product.windows->channels, s.k)) return product.k;
  const ConvWindows& windows = *product.windows;
  Dim depth = padded_channels(windows, s.k, {});
  for (const std::int64_t taps : windows.kernel) depth *= Dim(taps);
  return depth;
}

std::int64_t tma_steps(const GemmProblem& problem, const GemmSchedule& s) {
  const Dim depth = tma_depth(problem, s);
  return ceil_div(depth.is_constant() ? depth.value() : problem.k, s.k);
}

int tma_stages(const GemmSchedule& s, const DeviceModel& device, int blocks, int reserved,
               std::optional<std::int64_t> depth) {
  const int room = device.block_shared_bytes / blocks - reserved - kTmaAlignment -
                   kMostStages * kTmaStageBarriers;
  int stages = std::min(room / tma_stage_bytes(s), kMostStages);
  if (depth) stages = std::min(stages, ceil_div(ceil_div(*depth, s.k), s.split_k));
  return std::max(stages, 2);
}

int tma_held(const GemmProgram& product, const GemmSchedule& s, int warpgroups, bool promotes) {
  return tma_accumulators(s, warpgroups) + (promotes ? tma_product_columns(product, s.n) / 2 : 0);
}

bool has_one_product(const GemmProgram& product, const GemmSchedule& s, int warpgroups) {
  return s.m == 64 * warpgroups && s.n == tma_product_columns(product, s.n);
}

int possible_promotion(const GemmProgram& product, const GemmSchedule& s, int warpgroups,
                       int needed) {
  return has_one_product(product, s, warpgroups) ? needed
                                                 : std::min(needed, s.stages / 2 * kPromotionStep);
}

namespace {

/// Whether one promotion covers exactly one scale, if there are block scales.
bool scales_blocks(const GemmProgram& product, const GemmSchedule& s, int promoted) {
  return !product.blocks || (promoted == product.blocks->depth &&
                             product.blocks->rows % tma_product_columns(product, s.n) == 0);
}

}  // namespace

bool fits_tma(const GemmProblem& problem, const GemmSchedule& s, int warpgroups, int most_held,
              int promoted) {
  constexpr int kMostSize = 256;  // of a box's rows
  const int copied = tma_unit(problem.product);
  return is_for_tma(problem.product) && refuse_tma(problem).empty() && s.vector_a == copied &&
         s.vector_b == copied && warpgroups >= 1 && warpgroups <= kMostWarpgroups &&
         s.m % (64 * warpgroups) == 0 && s.m <= kMostSize &&
         s.n % (column_unit(problem.product) * problem.product.parts_of_b()) == 0 &&
         s.n <= kMostSize && (s.n <= 96 || tma_product_columns(problem.product, s.n) >= 64) &&
         s.k == tma_step(problem.product) && s.stages >= 2 &&
         tma_held(problem.product, s, warpgroups, promoted > 0) <= most_held &&
         (promoted == 0 || problem.product.is_float8()) &&
         possible_promotion(problem.product, s, warpgroups, promoted) == promoted &&
         scales_blocks(problem.product, s, promoted) && s.cluster_n == 1;
}

bool is_for_tma(const GemmProgram& product) {
  return product.by_warpgroups && !product.weights && !product.is_exact_float();
}

std::string refuse_tma(const GemmProblem& problem) {
  const GemmProgram& product = problem.product;
  if (product.prologue) return "warpgroups do not make rows";
  if (product.blocks && (product.blocks->depth != kPromotionStep || product.parts > 1))
    return fmt::format("scales of blocks are those of {} of k and of one part", kPromotionStep);
  if (product.element_bytes() != 2 && product.rows_are_k)
    return fmt::format("k is not contiguous in the right operand, as warpgroups read {} bits",
                       8 * product.element_bytes());
  if (problem.reductions > 0) return "rows are reduced by warps, whose tiles have fewer rows";
  if (product.windows)
    if (std::string reason = refuse_windows(product); !reason.empty()) return reason;
  if (product.batch.size() > kMostMappedBatch) return "the batch has too many dimensions";
  // There is no small-M kernel for 8-bit operands; TMA does not load rows past the end.
  if (problem.most_m && *problem.most_m < kLeastRows && !product.is_eight_bit())
    return "too few rows for warpgroups";
  return "";
}

namespace {

/// Warpgroups divide the rows of the tile.
struct Tma final : GemmTile {
  int warpgroups;
  int promoted;  // k's between promotions; 0: none

  Tma(int count, int promoted_depth) : warpgroups(count), promoted(promoted_depth) {}

  int epilogue_threads() const override { return 128 * warpgroups; }
  int threads() const override { return epilogue_threads() + 32; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override {
    constexpr int kMostAccumulators = 128, kMostPromoted = 192;
    return s.multicast == 1 && s.n % (32 * problem.product.parts) == 0 &&
           fits_tma(problem, s, warpgroups, promoted > 0 ? kMostPromoted : kMostAccumulators,
                    promoted);
  }

  int shared_bytes(const GemmProblem&, const GemmSchedule& s) const override {
    return kTmaAlignment + std::max(s.stages * tma_stage_bytes(s), s.m * (s.n + 8) * 4) +
           s.stages * kTmaStageBarriers;
  }

  int blocks_at_once(const GemmProblem& problem, const GemmSchedule& s) const override {
    const int together = blocks_that_fit(problem, s);
    return together > 1 ? together : 0;
  }

  double estimate(const GemmProblem& problem, const GemmSchedule& s,
                  std::int64_t m) const override {
    const TmaCosts& costs = problem.device.fitted->tma;
    const double flops_rate = costs.flops * problem.tensor_speed();
    const EpilogueCost& epilogue = problem.epilogue;
    const double processors = filled_multiprocessors(problem.device, s.cluster());
    const double tiles =
        problem.matrices * static_cast<double>(ceil_div(m, s.m) * ceil_div(problem.n, s.n));
    const double blocks = tiles * static_cast<double>(s.split_k);
    const double depth = static_cast<double>(ceil_div(tma_steps(problem, s), s.split_k) * s.k);
    const double resident = std::clamp(std::ceil(blocks / processors), 1.0,
                                       static_cast<double>(blocks_that_fit(problem, s)));
    const double waves = std::max(1.0, std::ceil(blocks / (processors * resident)));
    const double bytes = (s.m + s.n) * depth * problem.product.element_bytes(),
                 flops = 2.0 * s.m * s.n * depth;
    const double work = std::max({flops / flops_rate * resident, bytes / costs.bytes * resident,
                                  bytes * std::min(blocks, processors * resident) / costs.all_bytes,
                                  depth / s.k * costs.step});
    const double element =
        costs.stored + (costs.element + costs.instruction * epilogue.instructions +
                        costs.row_byte * epilogue.row_bytes) /
                           s.split_k / problem.product.parts;
    const double epilogue_time = s.m * s.n / 1000.0 * element / warpgroups * resident;
    double time = costs.latency + waves * (work + epilogue_time + costs.wave);
    if (s.cluster() > 1) time += costs.barrier + costs.block * s.cluster();
    return time;
  }

  std::string to_string(const GemmSchedule& s) const override {
    return fmt::format("tma {}x{}x{} warpgroups={} stages={}{}", s.m, s.n, s.k, warpgroups,
                       s.stages, options_text(s, promoted));
  }

  std::string header(const GemmProgram&) const override { return "tma.cuh"; }

  std::string type(const GemmText& text) const override {
    const GemmSchedule& s = text.schedule();
    const GemmProgram& product = text.product();
    return fmt::format("WithAccumulators<TmaTile<{}, {}, {}, {}, {}, {}, {}, {}, {}{}>>",
                       storage_name(product.type), storage_name(product.b_type), s.m, s.n,
                       warpgroups, s.stages, s.split_k, product.rows_are_k,
                       product.mapped_batch().size() + 2, further_arguments(product, s, promoted));
  }

  Dim depth(const GemmProblem& problem, const GemmSchedule& s) const override {
    return tma_depth(problem, s);
  }

  void write_operands(GemmText& text) const override {
    for (std::string& line : text.mapped_operands()) text.line(std::move(line));
  }

 private:
  /// Blocks that fit a multiprocessor, by shared memory and registers.
  int blocks_that_fit(const GemmProblem& problem, const GemmSchedule& s) const {
    constexpr int kOtherRegisters = 40, kAllocated = 8;
    const int registers = (tma_held(problem.product, s, warpgroups, promoted > 0) +
                           kOtherRegisters + kAllocated - 1) /
                          kAllocated;
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
      GemmSchedule s;
      s.m = tile.m, s.n = tile.n, s.k = tma_step(problem.product);
      s.vector_a = s.vector_b = tma_unit(problem.product);
      if (split_k > 1 && problem.most_k && ceil_div(*problem.most_k, s.k) < split_k) continue;
      s.split_k = split_k;
      s.stages = tma_stages(s, problem.device, tile.blocks, kReservedShared, problem.most_k);
      s.tile = std::make_shared<Tma>(
          tile.warpgroups,
          possible_promotion(problem.product, s, tile.warpgroups, needed_promotion(problem)));
      const auto same = [&](const GemmSchedule& other) {
        return other.m == s.m && other.n == s.n && other.stages == s.stages &&
               other.split_k == s.split_k;
      };
      if (s.tile->fits(problem, s) && std::ranges::none_of(all, same)) all.push_back(s);
    }
  return all;
}

std::optional<GemmSchedule> parse(const std::string& asked) {
  GemmSchedule s;
  int warpgroups = 0;
  std::string text = asked;
  if (!text.starts_with("tma ")) return std::nullopt;
  const int promoted = take_promotion(text);
  if (!read_sizes(text, "tma %dx%dx%d warpgroups=%d stages=%d split_k=%d cluster_n=%d", &s.m, &s.n,
                  &s.k, &warpgroups, &s.stages, &s.split_k, &s.cluster_n))
    return std::nullopt;
  s.tile = std::make_shared<Tma>(warpgroups, promoted);
  return s;
}

}  // namespace

constinit const GemmKernel kTmaKernel = {"tma", is_for_tma, refuse_tma, schedules, parse, true};

}  // namespace sinter::codegen
