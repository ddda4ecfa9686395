#include "codegen/families/gemm/mixed_input/mixed_input_schedule.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {
namespace {

constexpr int kStep = 128;  // of k, of which each block takes whole ones
constexpr int kPart = 64, kColumns = 64;
constexpr int kMostSums = 128, kMostAhead = 10, kMostGroups = 2, kMostCluster = 8;
constexpr int kSharedOfProcessor = 227 * 1024, kReservedShared = 1024;

struct Tile {
  int m, n, groups, stages;
};
// What was best for some size on an H200; larger tiles need fewer splits.
constexpr Tile kTiles[] = {{64, 64, 1, 3},   {64, 128, 2, 3},  {64, 256, 2, 4}, {128, 64, 1, 4},
                           {128, 128, 2, 8}, {128, 256, 2, 5}, {256, 128, 2, 4}};
constexpr int kSplits[] = {1, 2, 4, 8};

/// k of a stage of x: that of few rows is copied twice as much at once.
int stage_depth(const ProductSchedule& s) { return s.m <= 64 ? 2 * kPart : kPart; }

int sums_of_thread(const ProductSchedule& s) { return s.m * s.n / (128 * s.groups); }

/// Bytes of a warp's weights of a part, with scales and zero points.
int slot_bytes(const ProductProgram& product, const ProductSchedule& s) {
  const ProductWeights& weights = *product.weights;
  int bytes = kPart * 16 * weights.bits / 8;
  if (const std::int64_t group = loop_group(product); group != 0)
    bytes += static_cast<int>(kPart / std::min<std::int64_t>(group, kPart)) * 32 *
             (weights.zeros ? 2 : 1);
  return bytes * (s.n / (kColumns * s.groups));
}

/// Whether scales and zero points can be applied to the weights: those of whole columns, which need
/// not, can always be.
bool takes_groups(const ProductProgram& product) {
  const std::int64_t group = loop_group(product);
  return group == 0 || (product.weights->scales == product.type && group % 16 == 0 &&
                        (group % kPart == 0 || kPart % group == 0));
}

/// Parts of weights that are under way: as many as there is room for beside x.
int parts_ahead(const ProductProgram& product, const ProductSchedule& s) {
  const int room = kSharedOfProcessor / packed_group_blocks_at_once(s) - kReservedShared - 1024 -
                   s.stages * (s.m * stage_depth(s) * 2 + 32);
  return std::min(kMostAhead, room / (4 * s.groups * slot_bytes(product, s)));
}

}  // namespace

bool can_use_packed_groups(const ProgramAnalysis& analysis, const ProductProgram& product,
                           std::string& reason) {
  const auto fail = [&](const char* why) {
    reason = why;
    return false;
  };
  if (analysis.stages() > 0) return fail("rows are reduced by warps, whose tiles have fewer rows");
  if (product.windows || product.rows || !product.batch.empty())
    return fail("the copy engine is told of a matrix of rows");
  if (!takes_groups(product))
    return fail("warpgroups take groups of 16, 32 and multiples of 64, with scales of x's type");
  const auto most = product.m.is_constant() ? product.m.value()
                                            : ir::upper_bound(product.m, analysis.exprs().ranges());
  if (most && *most < kLeastPackedRows) return fail("too few rows for warpgroups");
  const auto least = ir::lower_bound(product.m, analysis.exprs().ranges());
  if (least && *least > kMostPackedRows)
    return fail("so many rows that weights are better made floats once");
  return true;
}

std::vector<ProductSchedule> packed_group_tiles(const ProductProgram& product) {
  std::vector<ProductSchedule> all;
  for (const Tile& tile : kTiles)
    for (const int splits : kSplits) {
      ProductSchedule s;
      s.skinny = true;
      s.m = tile.m, s.n = tile.n, s.k = kStep;
      s.groups = tile.groups;
      s.stages = tile.stages;
      s.splits = splits;
      if (is_packed_group_tile(product, s)) all.push_back(s);
    }
  return all;
}

bool is_packed_group_tile(const ProductProgram& product, const ProductSchedule& s) {
  const bool rows = s.m == 64 || s.m == 96 || s.m == 128 || s.m == 192 || s.m == 256;
  return product.weights && takes_groups(product) && s.skinny && rows && s.groups >= 1 &&
         s.groups <= kMostGroups && s.n % (kColumns * s.groups) == 0 &&
         s.n % (16 * product.parts) == 0 && s.n <= 256 && s.k == kStep && s.stages >= 2 &&
         s.across == 1 && s.cluster() <= kMostCluster && sums_of_thread(s) <= kMostSums &&
         parts_ahead(product, s) >= 2;
}

int packed_group_shared_bytes(const ProductProgram& product, const ProductSchedule& s) {
  const int filled = s.stages * s.m * stage_depth(s) * 2 +
                     4 * s.groups * parts_ahead(product, s) * slot_bytes(product, s);
  const int body = (std::max(filled, s.m * (s.n + 4) * 4) + 15) / 16 * 16;
  return 1024 + body + 2 * s.stages * 16;
}

int packed_group_blocks_at_once(const ProductSchedule& s) {
  return sums_of_thread(s) <= (s.groups == 1 ? 64 : 32) ? 2 : 1;
}

std::string packed_group_type(const ProductProgram& product, const ProductSchedule& s) {
  return fmt::format("PackedGroupTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>",
                     storage_name(product.type),
                     packed_weights_type(*product.weights, loop_group(product)), s.m, s.n,
                     stage_depth(s), s.groups, s.stages, parts_ahead(product, s), s.splits,
                     packed_group_blocks_at_once(s), product.parts);
}

// Fitted to 430 times of 40 products (2,048 to 28,672 columns and k, 64 to 4,096 rows, weights of 8
// and 4 bits) in graphs on an H200: those chosen take 2 % longer than the best in the mean. What
// clusters of more than two cost, to 84 times of 17 products alone.
double estimate_packed_groups(const ProductProgram& product, const ProductSchedule& s,
                              std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr double kLatency = 1200, kWave = 470, kSplit = 1500;  // nanoseconds
  constexpr double kBytes = 96, kAllBytes = 3990, kSums = 76;    // each of them
  constexpr double kFewWaves = 3, kLastWave = 0.64, kRowTime = 46;
  constexpr double kUneven = 1.45;  // where clusters leave two blocks to a few multiprocessors
  struct Costs {
    double flops, weights;  // each nanosecond on a multiprocessor: multiplied, made floats
    double part;            // nanoseconds of a warpgroup, for 64 of k and 64 columns
  };
  constexpr Costs kEight = {6410, 23.2, 139}, kFour = {5510, 18.4, 186};
  const double bits = product.weights->bits;
  const Costs& costs = product.weights->bits == 8 ? kEight : kFour;
  const double blocks =
      static_cast<double>(ceil_div(m, s.m) * ceil_div(n, s.n)) * static_cast<double>(s.splits);
  const double depth = static_cast<double>(ceil_div(ceil_div(k, kStep), s.splits) * kStep);
  const double processors = processors_filled_by(s.cluster());
  const double at_once = packed_group_blocks_at_once(s);
  double resident = std::clamp(std::ceil(blocks / processors), 1.0, at_once);
  const double filled = blocks / (processors * resident);
  if (resident > 1 && blocks <= static_cast<double>(kProcessors)) resident = kUneven;
  const double waves =
      filled < kFewWaves ? std::max(1.0, std::ceil(filled - 0.001)) : filled + kLastWave;
  const double tiles = static_cast<double>(s.n) / (kColumns * s.groups);
  const double bytes = s.m * depth * 2 + s.n * depth * bits / 8;
  const double together = std::max({2.0 * s.m * s.n * depth / costs.flops, bytes / kBytes,
                                    s.n * depth / costs.weights}) *
                          resident;
  const double alone =
      depth / kPart * (costs.part * std::sqrt(tiles) + kRowTime * s.m * tiles / 64);
  const double sums = s.m * s.n * 8.0 / kSums * resident;
  const double weights = static_cast<double>(n) * static_cast<double>(k) * bits / 8;
  return std::max(kLatency + waves * (std::max(together, alone) + sums + kWave),
                  kLatency + weights / kAllBytes) +
         (s.splits > 1 ? waves * kSplit * (1 + 0.2 * s.splits) : 0);
}

}  // namespace sinter::codegen
