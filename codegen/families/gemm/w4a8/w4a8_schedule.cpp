// Products of packed weights of 4 bits and 8-bit floats by warpgroups (sm_90 alone): weights become
// floats of 8 bits on their way to the tensor cores. See W4A8Tile in
// codegen/families/gemm/w4a8/w4a8.cuh.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {
namespace {

constexpr int kStep = 256;  // of k, of which each block takes whole ones
constexpr int kPart = 128, kColumns = 64, kProduct = 32;
constexpr int kMostAccumulators = 128, kMostAhead = 6, kMostWarpgroups = 2;
constexpr int kReservedShared = 1024, kAlignment = 1024, kStageBarriers = 2 * 16;

struct Tile {
  int m, n, warpgroups, stages;
};
constexpr Tile kTiles[] = {{64, 64, 1, 4},   {64, 128, 2, 4},  {128, 64, 1, 3},
                           {128, 128, 2, 5}, {128, 256, 2, 5}, {256, 128, 2, 4}};
constexpr int kSplitK[] = {1, 2, 4, 8};

/// k whose sums are promoted at once.
int fold_of(const GemmProgram& product) {
  const std::int64_t group = loop_group(product);
  return static_cast<int>(group == 0 ? kPart : std::gcd(group, std::int64_t{kPart}));
}

bool is_for(const GemmProgram& product) {
  return product.by_warpgroups && product.weights && product.is_eight_bit();
}

std::string refuse(const GemmProblem& problem) {
  const GemmProgram& product = problem.product;
  if (std::string reason = refuse_packing(product); !reason.empty()) return reason;
  if (product.rows) return "warpgroups do not make rows";
  if (problem.reductions > 0) return "rows are reduced by warps, whose tiles have fewer rows";
  if (product.windows || !product.batch.empty())
    return "the copy engine is told of a matrix of rows";
  if (fold_of(product) % kProduct != 0)
    return fmt::format("groups of {} are no multiple of {}", product.weights->group, kProduct);
  if (product.weights->zeros && !product.weights->zeros_of_four_bits)
    return "zero points that are no integers of -8 to 7";
  if (problem.most_m && *problem.most_m < kLeastMixedInputRows)
    return "too few rows for warpgroups";
  return "";
}

/// Warpgroups share the columns of the tile.
struct W4A8 final : GemmTile {
  int warpgroups;

  explicit W4A8(int count) : warpgroups(count) {}

  int epilogue_threads() const override { return 128 * warpgroups; }
  int threads() const override { return epilogue_threads() + 128; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override {
    const GemmProgram& product = problem.product;
    const bool rows = s.m == 64 || s.m == 96 || s.m == 128 || s.m == 192 || s.m == 256;
    return is_for(product) && refuse(problem).empty() && s.vector_a == 16 && rows &&
           warpgroups >= 1 && warpgroups <= kMostWarpgroups && s.n % (kColumns * warpgroups) == 0 &&
           s.n % (16 * product.parts) == 0 && s.n <= 256 && s.k == kStep && s.stages >= 2 &&
           s.cluster_n == 1 && s.cluster() <= kPortableCluster &&
           accumulators(s) <= kMostAccumulators && parts_ahead(problem, s) >= 2;
  }

  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override {
    const int filled = s.stages * s.m * kPart +
                       4 * warpgroups * parts_ahead(problem, s) * slot_bytes(problem.product, s);
    const int body = (std::max(filled, s.m * (s.n + 4) * 4) + 15) / 16 * 16;
    return kAlignment + body + s.stages * kStageBarriers;
  }

  int blocks_at_once(const GemmProblem&, const GemmSchedule& s) const override {
    const int together = blocks_together(s);
    return together > 1 ? together : 0;
  }

  // The form of mixed-input's, whose constants were fitted; these follow from what a multiprocessor
  // does each clock and are not measured.
  double estimate(const GemmProblem& problem, const GemmSchedule& s,
                  std::int64_t m) const override {
    constexpr double kFewWaves = 3, kLastWave = 0.64, kUneven = 1.45;
    const RelativeRates rates = problem.rates();
    const double latency = 1200 / rates.clock, wave = 470 / rates.clock;  // nanoseconds
    const double split = 1500 / rates.clock;
    // Each nanosecond, of a multiprocessor: multiplied, made floats, copied, summed up.
    const double flops = 9500 * rates.tensor, made = 50 * rates.clock;
    const double bytes_rate = 50 * rates.clock, sums_rate = 76 * rates.clock;
    const double promoted = 180 * rates.clock;
    const double all_bytes_rate = 3990 * rates.memory;  // of all
    // Nanoseconds of a warpgroup for 128 of k and 64 columns, and for 64 rows more.
    const double part = 220 / rates.clock, row_time = 60 / rates.clock;
    const std::int64_t n = problem.n, k = problem.k;
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
    const double bytes = s.m * depth + s.n * depth / 2;
    const double elements = static_cast<double>(s.m) * s.n;
    const double together =
        std::max({2 * elements * depth / flops, bytes / bytes_rate, s.n * depth / made,
                  elements * depth / fold_of(problem.product) / promoted}) *
        resident;
    const double alone =
        depth / kPart * (part * std::sqrt(tiles) + row_time * s.m * tiles / kColumns);
    const double sums = elements * 8 / sums_rate * resident;
    const double weights = static_cast<double>(n) * static_cast<double>(k) / 2;
    return std::max(latency + waves * (std::max(together, alone) + sums + wave),
                    latency + weights / all_bytes_rate) +
           (s.split_k > 1 ? waves * split * (1 + 0.2 * s.split_k) : 0);
  }

  std::string to_string(const GemmSchedule& s) const override {
    return fmt::format("w4a8 {}x{}x{} warpgroups={} stages={}", s.m, s.n, s.k, warpgroups,
                       s.stages);
  }

  std::string header(const GemmProgram&) const override { return "w4a8.cuh"; }

  std::string type(const GemmText& text) const override {
    const GemmSchedule& s = text.schedule();
    const GemmWeights& weights = *text.product().weights;
    return fmt::format(
        "WithAccumulators<W4A8Tile<Scales<{}, {}{}>, {}, {}, {}, {}, {}, {}, {}, {}>>",
        storage_name(weights.scales), loop_group(text.product()), weights.zeros ? ", true" : "",
        s.m, s.n, warpgroups, s.stages, parts_ahead(text.problem(), s), s.split_k,
        blocks_together(s), text.product().parts);
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
    constexpr int kMost = 64;
    return warpgroups == 1 && accumulators(s) <= kMost ? 2 : 1;
  }

  /// Bytes of a warp's weights of one part of k, with scales and zero points.
  int slot_bytes(const GemmProgram& product, const GemmSchedule& s) const {
    const GemmWeights& weights = *product.weights;
    int bytes = kPart * 16 / 2;
    if (loop_group(product) != 0)
      bytes += kPart / fold_of(product) * 16 *
               (static_cast<int>(size_of(weights.scales)) + (weights.zeros ? 2 : 0));
    return bytes * (s.n / (kColumns * warpgroups));
  }

  /// Parts of weights that are under way: as many as there is room for beside x.
  int parts_ahead(const GemmProblem& problem, const GemmSchedule& s) const {
    const int room = problem.device.block_shared_bytes / blocks_together(s) - kReservedShared -
                     kAlignment - s.stages * (s.m * kPart + kStageBarriers);
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
      s.vector_a = 16;
      s.tile = std::make_shared<W4A8>(tile.warpgroups);
      if (s.tile->fits(problem, s)) all.push_back(std::move(s));
    }
  return all;
}

std::optional<GemmSchedule> parse(const std::string& text) {
  GemmSchedule s;
  int warpgroups = 0;
  if (!read_sizes(text, "w4a8 %dx%dx%d warpgroups=%d stages=%d split_k=%d cluster_n=%d", &s.m, &s.n,
                  &s.k, &warpgroups, &s.stages, &s.split_k, &s.cluster_n))
    return std::nullopt;
  s.tile = std::make_shared<W4A8>(warpgroups);
  return s;
}

}  // namespace

constinit const GemmKernel kW4A8Kernel = {"w4a8", is_for, refuse, schedules, parse};

}  // namespace sinter::codegen
