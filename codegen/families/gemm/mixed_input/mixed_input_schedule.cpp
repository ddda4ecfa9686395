// SPDX-License-Identifier: Apache-2.0
// TMA warp-specialized mixed-input GEMMs (sm_90 only): packed weights are widened to x's width in
// registers, as wgmma operands. See MixedInputTile in
// codegen/families/gemm/mixed_input/mixed_input.cuh.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {
namespace {

constexpr int kColumns = 64, kRowBytes = 128;  // row bytes of a stage of x
constexpr int kMostAccumulators = 128, kMostWarpgroups = 2;
constexpr int kReservedShared = 1024, kAlignment = 1024, kStageBarriers = 2 * 16;

struct Tile {
  int m, n, warpgroups, stages;
};
constexpr int kSplitK[] = {1, 2, 4, 8};

/// The float type, of x's width, to which weights are widened.
struct Widening {
  const char *name, *type, *header;   // of its schedules; in device code
  int element_bytes;                  // bytes of an element of x
  bool copies_two;                    // copies two parts of k at a time for up to 64 rows
  int most_ahead;                     // parts of weights in flight
  int most_for_two[kMostWarpgroups];  // accumulators of a thread that let two blocks fit
  std::span<const Tile> tiles;

  int part() const { return kRowBytes / element_bytes; }  // k's of the weights in registers
  int step() const { return 2 * part(); }                 // k's of a block are multiples of it
  int product() const { return 32 / element_bytes; }      // k's of one wgmma
  int vector() const { return 16 / element_bytes; }
};

// The fastest for some size on an H200; larger tiles need fewer splits.
constexpr Tile kHalfTiles[] = {{64, 64, 1, 3},   {64, 128, 2, 3},  {64, 256, 2, 4}, {128, 64, 1, 4},
                               {128, 128, 2, 8}, {128, 256, 2, 5}, {256, 128, 2, 4}};
constexpr Widening kToHalves = {.name = "mixed_input",
                                .type = "WidenToHalves",
                                .header = "widen_to_halves.cuh",
                                .element_bytes = 2,
                                .copies_two = true,
                                .most_ahead = 10,
                                .most_for_two = {64, 32},
                                .tiles = kHalfTiles};

constexpr Tile kFloat8Tiles[] = {{64, 64, 1, 4},   {64, 128, 2, 4},  {128, 64, 1, 3},
                                 {128, 128, 2, 5}, {128, 256, 2, 5}, {256, 128, 2, 4}};
constexpr Widening kToFloat8 = {.name = "w4a8",
                                .type = "WidenToFloat8",
                                .header = "widen_to_float8.cuh",
                                .element_bytes = 1,
                                .copies_two = false,
                                .most_ahead = 6,
                                .most_for_two = {64, 0},
                                .tiles = kFloat8Tiles};

const Widening& widening_of(const GemmProgram& product) {
  return product.is_eight_bit() ? kToFloat8 : kToHalves;
}

/// Consecutive k's of a part that share a scale.
int fold_of(const GemmProgram& product) {
  const std::int64_t group = loop_group(product), part = widening_of(product).part();
  return static_cast<int>(group == 0 ? part : std::gcd(group, part));
}

bool is_for(const GemmProgram& product) { return product.by_warpgroups && product.weights; }

/// Why scales and zero points of groups are refused; those of whole columns never are, as their
/// scales apply to the accumulators.
std::string refuse_scales(const GemmProgram& product) {
  const GemmWeights& weights = *product.weights;
  const Widening& widening = widening_of(product);
  const std::int64_t group = loop_group(product);
  const int fold = fold_of(product);
  if (product.is_eight_bit()) {
    if (fold % widening.product() != 0)
      return fmt::format("groups of {} are no multiple of {}", weights.group(), widening.product());
    if (weights.has_zeros() && !weights.zeros_of_four_bits)
      return "zero points that are no integers of -8 to 7";
  } else if (group != 0 &&
             ((weights.scales() != product.type && !is_float8(weights.scales())) ||
              fold % widening.product() != 0 || (fold != group && fold != widening.part()))) {
    return "warpgroups take groups of 16, 32 and multiples of 64, with scales of x's type or e4m3";
  }
  return "";
}

/// Why the GEMM is refused for all row counts.
std::string refuse_product(const GemmProblem& problem) {
  const GemmProgram& product = problem.product;
  if (std::string reason = refuse_packing(product); !reason.empty()) return reason;
  if (product.prologue) return "warpgroups do not make rows";
  if (problem.reductions > 0) return "rows are reduced by warps, whose tiles have fewer rows";
  if (product.windows || !product.batch.empty())
    return "the copy engine is told of a matrix of rows";
  return refuse_scales(product);
}

std::string refuse(const GemmProblem& problem) {
  if (std::string reason = refuse_product(problem); !reason.empty()) return reason;
  if (problem.most_m && *problem.most_m < kLeastMixedInputRows)
    return "too few rows for warpgroups";
  if (!problem.product.is_eight_bit() && problem.least_m && *problem.least_m > kMostMixedInputRows)
    return "with this many rows, converting the weights to floats once is faster";
  return "";
}

/// Warpgroups divide the columns of the tile.
struct MixedInput final : GemmTile {
  const Widening& widening;
  int warpgroups;

  MixedInput(const Widening& to, int count) : widening(to), warpgroups(count) {}

  int epilogue_threads() const override { return 128 * warpgroups; }
  int threads() const override { return epilogue_threads() + 128; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override {
    const GemmProgram& product = problem.product;
    const bool rows = s.m == 64 || s.m == 96 || s.m == 128 || s.m == 192 || s.m == 256;
    return is_for(product) && &widening == &widening_of(product) &&
           refuse_product(problem).empty() && s.vector_a == widening.vector() && rows &&
           warpgroups >= 1 && warpgroups <= kMostWarpgroups && s.n % (kColumns * warpgroups) == 0 &&
           s.n % (16 * product.parts) == 0 && s.n <= 256 && s.k == widening.step() &&
           s.stages >= 2 && s.cluster_n == 1 && s.cluster() <= kPortableCluster &&
           accumulators(s) <= kMostAccumulators && parts_ahead(problem, s) >= 2;
  }

  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override {
    const int filled = s.stages * stage_bytes(s) +
                       4 * warpgroups * parts_ahead(problem, s) * slot_bytes(problem.product, s);
    const int body = (std::max(filled, s.m * (s.n + 4) * 4) + 15) / 16 * 16;
    return kAlignment + body + s.stages * kStageBarriers;
  }

  int blocks_at_once(const GemmProblem&, const GemmSchedule& s) const override {
    const int together = blocks_together(s);
    return together > 1 ? together : 0;
  }

  double estimate(const GemmProblem& problem, const GemmSchedule& s,
                  std::int64_t m) const override {
    const MixedInputCosts& common = problem.device.fitted->mixed_input;
    const auto& fitted = problem.device.fitted->widening;
    const double bits = problem.product.weights->bits();
    const WideningCosts& costs = &widening == &kToFloat8 ? fitted.w4a8
                                 : bits == 8             ? fitted.bits_8
                                                         : fitted.bits_4;
    const std::int64_t n = problem.n, k = problem.k;
    const double blocks =
        static_cast<double>(ceil_div(m, s.m) * ceil_div(n, s.n)) * static_cast<double>(s.split_k);
    const int step = widening.step();
    const double depth = static_cast<double>(ceil_div(ceil_div(k, step), s.split_k) * step);
    const double processors = filled_multiprocessors(problem.device, s.cluster());
    const double at_once = blocks_together(s);
    double resident = std::clamp(std::ceil(blocks / processors), 1.0, at_once);
    const double filled = blocks / (processors * resident);
    if (resident > 1 && blocks <= static_cast<double>(problem.device.multiprocessors))
      resident = common.uneven;
    const double waves = filled < common.few_waves ? std::max(1.0, std::ceil(filled - 0.001))
                                                   : filled + common.last_wave;
    const double tiles = static_cast<double>(s.n) / (kColumns * warpgroups);
    const double bytes = s.m * depth * widening.element_bytes + s.n * depth * bits / 8;
    const double elements = static_cast<double>(s.m) * s.n;
    const double together =
        std::max({2 * elements * depth / costs.flops, bytes / costs.bytes,
                  s.n * depth / costs.widened,
                  elements * depth / fold_of(problem.product) / costs.promoted}) *
        resident;
    const double alone =
        depth / widening.part() * (costs.part * std::sqrt(tiles) + costs.row * s.m * tiles / 64);
    const double accumulator_time = elements * 8 / common.accumulator_rate * resident;
    const double weights = static_cast<double>(n) * static_cast<double>(k) * bits / 8;
    return std::max(common.latency +
                        waves * (std::max(together, alone) + accumulator_time + common.wave),
                    common.latency + weights / common.all_bytes) +
           (s.split_k > 1 ? waves * common.split * (1 + common.split_more * s.split_k) : 0);
  }

  std::string to_string(const GemmSchedule& s) const override {
    return fmt::format("{} {}x{}x{} warpgroups={} stages={}", widening.name, s.m, s.n, s.k,
                       warpgroups, s.stages);
  }

  std::string header(const GemmProgram&) const override { return widening.header; }

  std::string type(const GemmText& text) const override {
    const GemmSchedule& s = text.schedule();
    const GemmProgram& product = text.product();
    return fmt::format(
        "WithAccumulators<MixedInputTile<{}<{}, {}>, {}, {}, {}, {}, {}, {}, {}, {}, {}>>",
        widening.type, storage_name(product.type),
        packed_weights_type(*product.weights, loop_group(product)), s.m, s.n,
        parts_of_stage(s) * widening.part(), warpgroups, s.stages, parts_ahead(text.problem(), s),
        s.split_k, blocks_together(s), product.parts_of_b());
  }

  bool rasters_along_m(const GemmProblem&) const override { return true; }
  void write_operands(GemmText& text) const override {
    text.write_mapped_a();
    text.write_packed_b();
    text.write_columns();
  }

 private:
  int accumulators(const GemmSchedule& s) const { return s.m * s.n / (128 * warpgroups); }
  /// Intended blocks on a multiprocessor.
  int blocks_together(const GemmSchedule& s) const {
    return accumulators(s) <= widening.most_for_two[warpgroups - 1] ? 2 : 1;
  }

  /// Parts of k in a stage of x.
  int parts_of_stage(const GemmSchedule& s) const {
    return widening.copies_two && s.m <= 64 ? 2 : 1;
  }
  int stage_bytes(const GemmSchedule& s) const { return s.m * parts_of_stage(s) * kRowBytes; }

  /// Bytes of a warp's weights in one part of k, with scales and zero points.
  int slot_bytes(const GemmProgram& product, const GemmSchedule& s) const {
    const GemmWeights& weights = *product.weights;
    int bytes = widening.part() * 16 * weights.bits() / 8;
    if (loop_group(product) != 0)
      bytes += widening.part() / fold_of(product) * 16 *
               (static_cast<int>(size_of(weights.scales())) + (weights.has_zeros() ? 2 : 0));
    return bytes * (s.n / (kColumns * warpgroups));
  }

  /// Parts of weights in flight: as many as fit beside x.
  int parts_ahead(const GemmProblem& problem, const GemmSchedule& s) const {
    const int room = problem.device.block_shared_bytes / blocks_together(s) - kReservedShared -
                     kAlignment - s.stages * (stage_bytes(s) + kStageBarriers);
    return std::min(widening.most_ahead, room / (4 * warpgroups * slot_bytes(problem.product, s)));
  }
};

std::vector<GemmSchedule> schedules(const GemmProblem& problem) {
  const Widening& widening = widening_of(problem.product);
  std::vector<GemmSchedule> all;
  for (const Tile& tile : widening.tiles)
    for (const int split_k : kSplitK) {
      GemmSchedule s;
      s.m = tile.m, s.n = tile.n, s.k = widening.step();
      s.stages = tile.stages;
      s.split_k = split_k;
      s.vector_a = widening.vector();
      s.tile = std::make_shared<MixedInput>(widening, tile.warpgroups);
      if (s.tile->fits(problem, s)) all.push_back(std::move(s));
    }
  return all;
}

std::optional<GemmSchedule> parse(const std::string& text) {
  for (const Widening* widening : {&kToHalves, &kToFloat8}) {
    const std::string form =
        fmt::format("{} %dx%dx%d warpgroups=%d stages=%d split_k=%d cluster_n=%d", widening->name);
    GemmSchedule s;
    int warpgroups = 0;
    if (!read_sizes(text, form.c_str(), &s.m, &s.n, &s.k, &warpgroups, &s.stages, &s.split_k,
                    &s.cluster_n))
      continue;
    s.vector_a = widening->vector();
    s.tile = std::make_shared<MixedInput>(*widening, warpgroups);
    return s;
  }
  return std::nullopt;
}

}  // namespace

constinit const GemmKernel kMixedInputKernel = {"mixed_input", is_for, refuse,
                                                schedules,     parse,  true};

}  // namespace sinter::codegen
