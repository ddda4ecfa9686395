// TMA warp-specialized mixed-input products (sm_90 alone): packed weights become floats on their
// way to the warpgroups' tensor cores. See MixedInputTile in
// codegen/families/gemm/mixed_input/mixed_input.cuh.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {
namespace {

constexpr int kStep = 128;  // of k, of which each block takes whole ones
constexpr int kPart = 64, kColumns = 64;
constexpr int kMostAccumulators = 128, kMostAhead = 10, kMostWarpgroups = 2;
constexpr int kReservedShared = 1024, kAlignment = 1024, kStageBarriers = 2 * 16;

struct Tile {
  int m, n, warpgroups, stages;
};
// What was best for some size on an H200; larger tiles need fewer splits.
constexpr Tile kTiles[] = {{64, 64, 1, 3},   {64, 128, 2, 3},  {64, 256, 2, 4}, {128, 64, 1, 4},
                           {128, 128, 2, 8}, {128, 256, 2, 5}, {256, 128, 2, 4}};
constexpr int kSplitK[] = {1, 2, 4, 8};

/// k of a stage of x: that of few rows is copied twice as much at once.
int stage_depth(const GemmSchedule& s) { return s.m <= 64 ? 2 * kPart : kPart; }

/// Whether scales and zero points can be applied to the weights: those of whole columns, which need
/// not, can always be.
bool takes_groups(const GemmProgram& product) {
  const std::int64_t group = loop_group(product);
  return group == 0 || (product.weights->scales == product.type && group % 16 == 0 &&
                        (group % kPart == 0 || kPart % group == 0));
}

bool is_for(const GemmProgram& product) {
  return product.by_warpgroups && product.weights && !product.is_eight_bit();
}

std::string refuse(const GemmProblem& problem) {
  const GemmProgram& product = problem.product;
  if (std::string reason = refuse_packing(product); !reason.empty()) return reason;
  if (product.rows) return "warpgroups do not make rows";
  if (problem.reductions > 0) return "rows are reduced by warps, whose tiles have fewer rows";
  if (product.windows || !product.batch.empty())
    return "the copy engine is told of a matrix of rows";
  if (!takes_groups(product))
    return "warpgroups take groups of 16, 32 and multiples of 64, with scales of x's type";
  if (problem.most_m && *problem.most_m < kLeastMixedInputRows)
    return "too few rows for warpgroups";
  if (problem.least_m && *problem.least_m > kMostMixedInputRows)
    return "so many rows that weights are better made floats once";
  return "";
}

/// Warpgroups share the columns of the tile.
struct MixedInput final : GemmTile {
  int warpgroups;

  explicit MixedInput(int count) : warpgroups(count) {}

  int epilogue_threads() const override { return 128 * warpgroups; }
  int threads() const override { return epilogue_threads() + 128; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override {
    const GemmProgram& product = problem.product;
    const bool rows = s.m == 64 || s.m == 96 || s.m == 128 || s.m == 192 || s.m == 256;
    return is_for(product) && problem.reductions == 0 && s.vector_a == 8 && takes_groups(product) &&
           rows && warpgroups >= 1 && warpgroups <= kMostWarpgroups &&
           s.n % (kColumns * warpgroups) == 0 && s.n % (16 * product.parts) == 0 && s.n <= 256 &&
           s.k == kStep && s.stages >= 2 && s.cluster_n == 1 && s.cluster() <= kPortableCluster &&
           accumulators(s) <= kMostAccumulators && parts_ahead(problem, s) >= 2;
  }

  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override {
    const int filled = s.stages * s.m * stage_depth(s) * 2 +
                       4 * warpgroups * parts_ahead(problem, s) * slot_bytes(problem.product, s);
    const int body = (std::max(filled, s.m * (s.n + 4) * 4) + 15) / 16 * 16;
    return kAlignment + body + s.stages * kStageBarriers;
  }

  int blocks_at_once(const GemmProblem&, const GemmSchedule& s) const override {
    const int together = blocks_together(s);
    return together > 1 ? together : 0;
  }

  // Fitted to 430 times of 40 products (2,048 to 28,672 columns and k, 64 to 4,096 rows, weights of
  // 8 and 4 bits) in graphs on an H200: those chosen take 2 % longer than the best in the mean.
  // What clusters of more than two cost, to 84 times of 17 products alone.
  double estimate(const GemmProblem& problem, const GemmSchedule& s,
                  std::int64_t m) const override {
    struct Costs {
      double flops, weights;  // each nanosecond on a multiprocessor: multiplied, made floats
      double part;            // nanoseconds of a warpgroup, for 64 of k and 64 columns
    };
    constexpr Costs kEight = {6410, 23.2, 139}, kFour = {5510, 18.4, 186};
    constexpr double kFewWaves = 3, kLastWave = 0.64;
    constexpr double kUneven = 1.45;  // where clusters leave two blocks to a few multiprocessors
    const RelativeRates rates = problem.rates();
    const double latency = 1200 / rates.clock, wave = 470 / rates.clock;  // nanoseconds
    const double split = 1500 / rates.clock, row_time = 46 / rates.clock;
    // Each nanosecond.
    const double bytes_rate = 96 * rates.clock, all_bytes_rate = 3990 * rates.memory;
    const double sums_rate = 76 * rates.clock;
    Costs costs = problem.product.weights->bits == 8 ? kEight : kFour;
    costs.flops *= rates.tensor;
    costs.weights *= rates.clock;
    costs.part /= rates.clock;
    const std::int64_t n = problem.n, k = problem.k;
    const double bits = problem.product.weights->bits;
    const double blocks =
        static_cast<double>(ceil_div(m, s.m) * ceil_div(n, s.n)) * static_cast<double>(s.split_k);
    const double depth = static_cast<double>(ceil_div(ceil_div(k, kStep), s.split_k) * kStep);
    const double processors = filled_multiprocessors(problem.device, s.cluster());
    const double at_once = blocks_together(s);
    double resident = std::clamp(std::ceil(blocks / processors), 1.0, at_once);
    const double filled = blocks / (processors * resident);
    if (resident > 1 && blocks <= static_cast<double>(problem.device.multiprocessors))
      resident = kUneven;
    const double waves =
        filled < kFewWaves ? std::max(1.0, std::ceil(filled - 0.001)) : filled + kLastWave;
    const double tiles = static_cast<double>(s.n) / (kColumns * warpgroups);
    const double bytes = s.m * depth * 2 + s.n * depth * bits / 8;
    const double together = std::max({2.0 * s.m * s.n * depth / costs.flops, bytes / bytes_rate,
                                      s.n * depth / costs.weights}) *
                            resident;
    const double alone =
        depth / kPart * (costs.part * std::sqrt(tiles) + row_time * s.m * tiles / 64);
    const double sums = s.m * s.n * 8.0 / sums_rate * resident;
    const double weights = static_cast<double>(n) * static_cast<double>(k) * bits / 8;
    return std::max(latency + waves * (std::max(together, alone) + sums + wave),
                    latency + weights / all_bytes_rate) +
           (s.split_k > 1 ? waves * split * (1 + 0.2 * s.split_k) : 0);
  }

  std::string to_string(const GemmSchedule& s) const override {
    return fmt::format("mixed_input {}x{}x{} warpgroups={} stages={}", s.m, s.n, s.k, warpgroups,
                       s.stages);
  }

  std::string header(const GemmProgram&) const override { return "mixed_input.cuh"; }

  std::string type(const GemmText& text) const override {
    const GemmSchedule& s = text.schedule();
    const GemmProgram& product = text.product();
    return fmt::format(
        "WithAccumulators<MixedInputTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>>",
        storage_name(product.type), packed_weights_type(*product.weights, loop_group(product)), s.m,
        s.n, stage_depth(s), warpgroups, s.stages, parts_ahead(text.problem(), s), s.split_k,
        blocks_together(s), product.parts);
  }

  bool rasters_along_m(const GemmProblem&) const override { return true; }
  void write_operands(GemmText& text) const override {
    text.write_mapped_a();
    text.write_packed_b();
    text.write_columns();
  }

 private:
  int accumulators(const GemmSchedule& s) const { return s.m * s.n / (128 * warpgroups); }
  /// Blocks that a multiprocessor is to have.
  int blocks_together(const GemmSchedule& s) const {
    return accumulators(s) <= (warpgroups == 1 ? 64 : 32) ? 2 : 1;
  }

  /// Bytes of a warp's weights of one part of k, with scales and zero points.
  int slot_bytes(const GemmProgram& product, const GemmSchedule& s) const {
    const GemmWeights& weights = *product.weights;
    int bytes = kPart * 16 * weights.bits / 8;
    if (const std::int64_t group = loop_group(product); group != 0)
      bytes += static_cast<int>(kPart / std::min<std::int64_t>(group, kPart)) * 32 *
               (weights.zeros ? 2 : 1);
    return bytes * (s.n / (kColumns * warpgroups));
  }

  /// Parts of weights that are under way: as many as there is room for beside x.
  int parts_ahead(const GemmProblem& problem, const GemmSchedule& s) const {
    const int room = problem.device.block_shared_bytes / blocks_together(s) - kReservedShared -
                     kAlignment - s.stages * (s.m * stage_depth(s) * 2 + kStageBarriers);
    return std::min(kMostAhead, room / (4 * warpgroups * slot_bytes(problem.product, s)));
  }
};

std::vector<GemmSchedule> schedules(const GemmProblem& problem) {
  std::vector<GemmSchedule> all;
  for (const Tile& tile : kTiles)
    for (const int split_k : kSplitK) {
      GemmSchedule s;
      s.m = tile.m, s.n = tile.n, s.k = kStep;
      s.stages = tile.stages;
      s.split_k = split_k;
      s.tile = std::make_shared<MixedInput>(tile.warpgroups);
      if (s.tile->fits(problem, s)) all.push_back(std::move(s));
    }
  return all;
}

std::optional<GemmSchedule> parse(const std::string& text) {
  GemmSchedule s;
  int warpgroups = 0;
  if (!read_sizes(text, "mixed_input %dx%dx%d warpgroups=%d stages=%d split_k=%d cluster_n=%d",
                  &s.m, &s.n, &s.k, &warpgroups, &s.stages, &s.split_k, &s.cluster_n))
    return std::nullopt;
  s.tile = std::make_shared<MixedInput>(warpgroups);
  return s;
}

}  // namespace

constinit const GemmKernel kMixedInputKernel = {"mixed_input", is_for, refuse, schedules, parse};

// The text of its kernel.

}  // namespace sinter::codegen
