#include "codegen/families/gemm/small_m/small_m_schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

namespace {

constexpr int kFragment = 16, kMostThreads = 512, kMostUnits = 8;
constexpr int kDigits = 3;  // two are less exact than float16 where x has outliers
/// Groups of all of k where zero points make them groups: above any k.
constexpr std::int64_t kWholeGroup = std::int64_t{1} << 30;

int unit_depth(const ProductProgram& product) {
  return product.weights ? 256 / product.weights->bits : kFragment;
}

int odd_units(int elements) { return (elements / 8 | 1) * 8; }

/// Steps of a block.
int count_steps(const ProductProgram& product, const ProductSchedule& s) {
  return ceil_div(ceil_div(product.k.value(), s.k), s.splits);
}

/// What DigitTile asks for besides.
bool takes_digits(const ProductProgram& product, const ProductSchedule& s) {
  constexpr std::int64_t kMostRows = 4, kMostDepth = 8 * 32 * 16;  // of a warp: what lanes hold
  const int depth = s.k / s.warps_k;
  const std::int64_t group = loop_group(product);
  return product.weights && product.weights->is_quantised() && s.warps_n == 1 &&
         (s.digits == 2 || s.digits == 3) && s.m <= kMostRows && depth % 64 == 0 &&
         (group == 0 || std::gcd(group, std::int64_t{depth}) % 32 == 0) &&
         (product.rows || s.vector_a == 8) &&
         std::int64_t{count_steps(product, s)} * depth <= kMostDepth;
}

/// Of a DigitTile, behind its SkinnyTile.
int digit_bytes(const ProductProgram& product, const ProductSchedule& s) {
  const int columns = s.m * s.digits;
  return count_steps(product, s) * (s.k / 64) * (columns * 4 + 1) * 16;
}

}  // namespace

std::int64_t loop_group(const ProductProgram& product) {
  if (!product.weights) return 0;
  if (product.weights->group != 0) return product.weights->group;
  return product.weights->zeros ? kWholeGroup : 0;
}

std::string packed_weights_type(const ProductWeights& weights, std::int64_t group) {
  if (!weights.is_quantised()) return "PackedElements, NoScales";
  return fmt::format("{}, Scales<{}, {}{}>", weights.bits == 8 ? "PackedBytes" : "PackedNibbles",
                     storage_name(weights.scales), group, weights.zeros ? ", true" : "");
}

bool can_be_skinny(const ProductProgram& product, std::string& reason) {
  if (product.windows) {
    reason = "its rows are windows";
    return false;
  }
  if (product.parts > 1) {
    const auto columns = ir::divide_exactly(product.n, ir::Dim(product.parts));
    if (product.weights && columns->value() % kPackedColumns != 0) {
      reason = fmt::format("its parts are no multiples of {} columns", kPackedColumns);
      return false;
    }
  }
  if (!product.weights) return true;
  reason = refuse_groups(product.weights->group, product.k.value());
  return reason.empty();
}

bool is_skinny_tile(const ProductProgram& product, const ProductSchedule& s) {
  std::string ignored;
  if (!can_be_skinny(product, ignored) || s.warps_m != 1 || s.across != 1 || s.stages < 2 ||
      s.threads() > kMostThreads)
    return false;
  const bool rows = s.m <= 8 ? (s.m & (s.m - 1)) == 0 : s.m % 16 == 0;
  if (!rows || s.n % s.warps_n != 0 || s.k % s.warps_k != 0) return false;
  const int columns = s.n / s.warps_n, depth = s.k / s.warps_k;
  if (s.n % (kFragment * product.parts) != 0) return false;
  if (columns % kFragment != 0 || columns / kFragment > kMostUnits || depth % 32 != 0 ||
      depth % unit_depth(product) != 0)
    return false;
  if (product.weights && kPackedDepth % depth != 0) return false;
  if (product.rows && (s.m > 8 || product.rows->most > s.m || kRowDepth % s.k != 0)) return false;
  if (s.digits > 0 && !takes_digits(product, s)) return false;
  const std::int64_t group = loop_group(product);
  return group == 0 || std::gcd(group, std::int64_t{depth}) % kFragment == 0;
}

int skinny_shared_bytes(const ProductProgram& product, const ProductSchedule& s) {
  const int columns = s.n / s.warps_n, depth = s.k / s.warps_k, units = columns / kFragment;
  int weights = 0;
  if (product.weights)
    weights = units * (depth / unit_depth(product)) * 512;
  else
    weights = product.rows_are_k ? depth * odd_units(columns) * 2 : columns * odd_units(depth) * 2;
  if (const std::int64_t group = loop_group(product); group != 0) {
    const int folds = depth / static_cast<int>(std::gcd(group, std::int64_t{depth}));
    const auto scale = static_cast<int>(size_of(product.weights->scales));
    weights += units * folds * kFragment * (scale + (product.weights->zeros ? 2 : 0));
  }
  const int x = product.rows || s.digits > 0 ? 0 : s.m * odd_units(depth) * 2;
  const int stage = s.warps_k * (s.warps_n * weights + x);
  const bool by_column =
      product.weights && product.weights->is_quantised() && loop_group(product) == 0;
  const bool are_digits_in_ring =
      s.digits > 0 && s.stages > count_steps(product, s) && digit_bytes(product, s) <= stage;
  return std::max(s.stages * stage, s.warps_k * s.m * (s.n + 4) * 4) +
         (by_column ? s.n * static_cast<int>(size_of(product.weights->scales)) : 0) +
         (product.rows ? static_cast<int>(product.rows->most * product.rows->stride) * 2 : 0) +
         (s.digits > 0 && !are_digits_in_ring ? digit_bytes(product, s) : 0);
}

std::string skinny_type(const ProductProgram& product, const ProductSchedule& s) {
  const std::string weights = product.weights
                                  ? packed_weights_type(*product.weights, loop_group(product))
                              : product.rows_are_k ? "RowsAreK, NoScales"
                                                   : "RowsAreColumns, NoScales";
  if (s.digits > 0)
    return fmt::format("DigitTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>",
                       storage_name(product.type), weights, s.m, s.n, s.k / s.warps_k, s.warps_k,
                       s.stages, s.splits, product.parts, product.rows ? product.rows->most : 0,
                       product.rows ? product.rows->stride : 0, s.digits, count_steps(product, s));
  return fmt::format(
      "SkinnyTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}>", storage_name(product.type),
      weights, s.m, s.n / s.warps_n, s.k / s.warps_k, s.warps_n, s.warps_k, s.stages, s.splits,
      s.vector_a, s.vector_b, product.parts,
      product.rows ? fmt::format(", {}, {}", product.rows->most, product.rows->stride) : "");
}

namespace {

struct Tile {
  int m, columns, depth, warps_n, warps_k, stages;
  bool is_for_digits = false;  // as well
};

bool has_packed_elements(const ProductProgram& product) {
  return product.weights && !product.weights->is_quantised();
}

bool is_quantised(const ProductProgram& product) {
  return product.weights && product.weights->is_quantised();
}

/// Tiles for up to kFewRows rows, whose time is that of their weights: of a block's weights 32 to
/// 96 KB are under way beside those that it multiplies, 2 to 4 KB for each warp at a time.
std::vector<Tile> tiles_of_few_rows(const ProductProgram& product) {
  struct Shape {
    int columns, warps_n, warps_k;
    bool is_for_one = false;  // measured for one row of half bytes alone
  };
  constexpr int kRows[] = {1, 4, 8, static_cast<int>(kFewRows)}, kMostDepth = 256;
  constexpr Shape kShapes[] = {{16, 1, 8}, {16, 1, 16},      {32, 1, 8}, {32, 1, 16, true},
                               {32, 2, 4}, {48, 1, 8, true}, {64, 1, 8}, {128, 1, 8, true}};
  const int bits = product.weights ? product.weights->bits : 16;
  std::vector<Tile> tiles;
  for (const int m : kRows) {
    const bool is_one = m == 1 && bits == 4;
    for (const Shape& shape : kShapes)
      for (const int step : {2048, 3072, 4096})
        for (const int kilobytes : {96, 64, 48, 32}) {
          const bool is_usual = kilobytes == 64 || kilobytes == 32;
          if (!is_usual && !is_one && !has_packed_elements(product)) continue;
          if (shape.is_for_one && !is_one) continue;
          // Warps that share a row wait for each other: 2 to 10 % longer than eight that share k.
          const int most = is_quantised(product) ? 1 : product.rows ? 4 : 8;
          if (product.weights && m <= most && shape.warps_n > 1) continue;
          // One row is 1 to 5 % faster by tiles of four, alone and in a chain.
          if (m == 1 && has_packed_elements(product) && !product.rows) continue;
          const int depth = step * 8 / bits / shape.columns;
          if (depth > kMostDepth || depth * shape.columns * bits != step * 8) continue;
          int stages = 1 + kilobytes * 1024 / (step * shape.warps_n * shape.warps_k);
          const bool is_whole = product.k.is_constant() &&
                                product.k.value() <= std::int64_t{stages} * depth * shape.warps_k;
          if (is_whole)
            stages = static_cast<int>(1 + ceil_div(product.k.value(), depth * shape.warps_k));
          // What the estimate does not know: with digits 48 KB were faster than 64 and 32.
          const bool is_for_digits = is_one && (is_whole || kilobytes == 48 || kilobytes == 96);
          if (is_whole || stages > 2)
            tiles.push_back(
                {m, shape.columns, depth, shape.warps_n, shape.warps_k, stages, is_for_digits});
        }
  }
  return tiles;
}

}  // namespace

std::vector<ProductSchedule> skinny_tiles(const ProductProgram& product) {
  // What was best for some size on an H200.
  constexpr Tile kQuantised[] = {{32, 32, 64, 2, 4, 4},
                                 {32, 32, 64, 4, 2, 4},
                                 {64, 32, 64, 4, 2, 3},
                                 {64, 64, 64, 2, 2, 3},
                                 {128, 32, 64, 4, 1, 3}};
  constexpr Tile kRowsAreK[] = {{8, 64, 32, 1, 4, 6}, {8, 64, 32, 1, 8, 3}, {16, 64, 32, 1, 4, 4}};
  std::vector<ProductSchedule> all;
  std::string ignored;
  if (!can_be_skinny(product, ignored)) return all;
  const auto add = [&](const Tile& tile) {
    ProductSchedule s;
    s.skinny = true;
    s.m = tile.m;
    s.n = tile.columns * tile.warps_n;
    s.k = tile.depth * tile.warps_k;
    s.warps_m = 1, s.warps_n = tile.warps_n, s.warps_k = tile.warps_k;
    s.stages = tile.stages;
    for (const int digits : {0, kDigits}) {
      s.digits = digits;
      if (digits == 0 || tile.is_for_digits)
        if (is_skinny_tile(product, s)) all.push_back(s);
    }
  };
  if (product.weights || !product.rows_are_k)
    for (const Tile& tile : tiles_of_few_rows(product)) add(tile);
  if (is_quantised(product))
    for (const Tile& tile : kQuantised) add(tile);
  else if (!product.weights && product.rows_are_k && (product.parts > 1 || product.rows))
    // Else tiles of product.cuh are faster, as an H200 measured one row of float16 alone:
    // 2048 x 2048 in 7.9 us instead of 10.5, 2048 x 8192 in 13.5 instead of 17.
    for (const Tile& tile : kRowsAreK) add(tile);
  return all;
}

namespace {

/// Blocks that a multiprocessor has room for.
double blocks_that_fit(const ProductProgram& product, const ProductSchedule& s, double registers) {
  constexpr double kShared = 227.0 * 1024, kOwn = 1024, kThreads = 2048;
  return std::max(
      1.0, std::floor(std::min({kShared / (skinny_shared_bytes(product, s) + kOwn),
                                kThreads / s.threads(), kRegisters / (s.threads() * registers)})));
}

/// In nanoseconds, where nothing else is said.
struct FewRowsCosts {
  double bytes, latency;    // of memory: each nanosecond; until what is asked for arrives
  double wave, most_waves;  // of blocks; beyond so many, blocks hide each other's beginnings
  double step, meeting;     // of a block; more if its warps wait for each other
  double warp_step;         // of a multiprocessor, for each warp
  double row_bytes, sums;   // for a byte of x, a sum
  double both;              // part of instructions and chains that hides behind nothing
  double unit, unit_alone;  // of 512 bytes: a multiprocessor's, with others at work; a warp's
  // Weights and x out of the L2: each nanosecond to all multiprocessors, for one tile.
  double traffic = 1e9, tile_traffic = 1e9;
  double last_wave = 0;    // a stage's, of the blocks that are left when the first ones end
  double own_meeting = 0;  // of a step whose warps wait for each other, behind everything else
  // Of several waves, behind everything else: of a multiprocessor, for each warp's step; of a wave
  // of blocks that have it to themselves.
  double own_step = 0, lone_wave = 0;
};
// Fitted to 460 schedules of a layer's four products (2,048 to 16,384 columns; one row and eight;
// weights of 16, 8 and 4 bits), each in a graph of sixteen layers on an H200: those chosen make a
// layer of 30 to 40 us 0.3 us longer than the best.
constexpr FewRowsCosts of_bits(int bits) {
  return {4100,
          1870,
          1120,
          1e9,
          170,
          0,
          11,
          0.024,
          0.06,
          0.15,
          bits == 16  ? 11.0
          : bits == 8 ? 7.0
                      : 17.0,
          bits == 16  ? 44.0
          : bits == 8 ? 42.0
                      : 154.0};
}
// The same for packed elements: 310 schedules of such layers and of layers twice as wide, of
// 128,256 columns alone. Those chosen take 0.2 us longer than the best in the mean. What is
// set behind them to 118 schedules of nine products alone, of up to 16 rows, with what layers are
// best by.
constexpr FewRowsCosts of_elements() {
  FewRowsCosts costs = {4397, 292, 1085, 2.46, 22, 62, 0, 0.0128, 0, 0, 2.4, 19.4};
  costs.traffic = 5050, costs.tile_traffic = 50;
  costs.last_wave = 500, costs.lone_wave = 120;
  costs.own_meeting = 20, costs.own_step = 1.5;
  return costs;
}

// The same for one row of half bytes by floats and by digits: 170 schedules of layers of 1B and 8B.
// Those chosen by digits take 0.15 us longer than the best in the mean.
constexpr FewRowsCosts kHalfBytesOfOneRow = {4110, 4800,   1070,   1e9,    82.2, 0,
                                             54.2, 0.0858, 0.0547, 0.0927, 7.21, 157};
constexpr FewRowsCosts kDigitsOfOneRow = {4130, 2580,   1200,  1e9,   42.6,  0,
                                          34.8, 0.0617, 0.422, 0.006, 0.501, 52};

FewRowsCosts costs_of(const ProductProgram& product, const ProductSchedule& s, std::int64_t m) {
  if (has_packed_elements(product)) return of_elements();
  const int bits = product.weights ? product.weights->bits : 16;
  if (s.digits > 0) return kDigitsOfOneRow;
  return m == 1 && bits == 4 ? kHalfBytesOfOneRow : of_bits(bits);
}

/// Whether digits are not measured for the product: they are left to who asks for them.
bool is_unknown_to_digits(const ProductProgram& product, std::int64_t m) {
  const std::int64_t group = loop_group(product);
  return m > 1 || product.weights->zeros || (group != 0 && group < 64);
}

/// The same for up to kFewRows rows: what is not under way when the step in front ends takes as
/// long as memory needs for it, with what is under way at once; or as the instructions of a
/// multiprocessor or the steps of a warp take.
double estimate_few(const ProductProgram& product, const ProductSchedule& s, std::int64_t m,
                    std::int64_t n, std::int64_t k) {
  constexpr double kUnitBytes = 512, kSplit = 725;
  const int bits = product.weights ? product.weights->bits : 16;
  const FewRowsCosts costs = costs_of(product, s, m);
  const auto processors = static_cast<double>(kProcessors);
  const double tiles = static_cast<double>(ceil_div(m, s.m) * ceil_div(n, s.n));
  const double blocks = tiles * s.splits;
  const auto steps = static_cast<double>(ceil_div(ceil_div(k, s.k), s.splits));
  const double sums = s.n / s.warps_n / kFragment * std::max(1.0, s.m / 8.0) * 4;
  const double fit = blocks_that_fit(product, s, 48 + 1.3 * sums);
  const double waves = std::max(1.0, blocks / (processors * fit));
  const double each = std::ceil(blocks / processors);  // blocks of a multiprocessor
  const double step_bytes = static_cast<double>(s.n) * s.k * bits / 8;
  const double total = tiles * s.n * static_cast<double>(k) * bits / 8;
  const double under_way = std::min(
      total, std::min(blocks, processors * fit) * std::min(s.stages - 1.0, steps) * step_bytes);
  const double memory = (total - under_way) / std::min(costs.bytes, under_way / costs.latency);
  const double rows = static_cast<double>(k) * 2 * s.m / s.splits;
  const double instructions = total / kUnitBytes / processors * costs.unit +
                              blocks / processors * rows * costs.row_bytes +
                              each * steps * s.warps_n * s.warps_k * costs.warp_step;
  const double units = step_bytes / kUnitBytes / (s.warps_n * s.warps_k);  // a warp's, of a step
  const double chain =
      waves * steps * (costs.step + units * costs.unit_alone + (s.warps_n > 1 ? costs.meeting : 0));
  const double rows_there =
      product.rows ? 0.0 : static_cast<double>(k * std::min<std::int64_t>(s.m, m)) * 2;
  const double traffic =
      (total + tiles * rows_there) / std::min(costs.traffic, costs.tile_traffic * tiles);
  // Blocks of one wave end together: the fewer are left, the longer most multiprocessors wait.
  const double left = waves > 1 ? std::max(0.25, 2 - waves) : 0;
  const double time = costs.wave * std::min(std::ceil(waves), costs.most_waves) +
                      std::max({memory, instructions, chain, traffic}) +
                      costs.both * (instructions + chain) +
                      costs.last_wave * left * steps / std::min(s.stages - 1.0, steps) +
                      (s.warps_n > 1 ? costs.own_meeting * waves * steps : 0) +
                      (waves > 1 ? costs.own_step * each * steps * s.warps_n * s.warps_k : 0) +
                      (waves > 1 && fit == 1 ? costs.lone_wave * waves : 0) +
                      costs.sums * s.warps_k * s.m * s.n * std::max(1.0, blocks / processors / 2) +
                      (s.splits > 1 ? kSplit * s.splits : 0);
  return s.digits > 0 && is_unknown_to_digits(product, m) ? 2 * time : time;
}

}  // namespace

double estimate_skinny(const ProductProgram& product, const ProductSchedule& s, std::int64_t m,
                       std::int64_t n, std::int64_t k) {
  if (m <= kFewRows) return estimate_few(product, s, m, n, k);
  // Fitted to the times of 40 schedules of int8 products (2,048 to 128,256 columns, 1 to 256 rows)
  // on an H200: those chosen take 3 % longer than the best in the mean.
  constexpr double kWave = 1250, kStep = 640, kStepOfFew = 700, kMeeting = 205, kSplit = 970;
  constexpr double kBytes = 38, kRowBytes = 0.23, kFlops = 2800, kSums = 11000;  // each nanosecond
  constexpr double kAllBytes = 4100;
  const double bits = product.weights ? product.weights->bits : 16;
  const double blocks =
      static_cast<double>(ceil_div(m, s.m)) * static_cast<double>(ceil_div(n, s.n)) * s.splits;
  const double sums = s.n / s.warps_n / kFragment * std::max(1.0, s.m / 8.0) * 4;
  const double processors = static_cast<double>(kProcessors);
  const double fit = blocks_that_fit(product, s, 60 + 1.2 * sums);
  const double resident = std::max(1.0, std::min(fit, blocks / processors));
  const double waves = std::max(1.0, blocks / (processors * resident));
  const double depth = static_cast<double>(ceil_div(ceil_div(k, s.k), s.splits)) * s.k;
  const double deep = std::min(depth, static_cast<double>(k));
  const double weights = s.n * deep * bits / 8;
  const double rows = static_cast<double>(std::min<std::int64_t>(s.m, m)) * deep * 2;
  const double flops = 2.0 * std::max(s.m, 8) * s.n * depth;
  const double work = std::max((weights + kRowBytes * rows) / kBytes, flops / kFlops);
  const double step = s.m < 8 && s.warps_k * s.n < 500 ? kStepOfFew : kStep;
  const double steps = depth / s.k * (step + (s.warps_n > 1 ? kMeeting : 0));
  const double block =
      kWave + std::max(work * resident, steps) + 4.0 * s.warps_k * s.m * s.n / kSums;
  const double time = (waves < 3 ? std::ceil(waves * 0.999) : waves + 0.5) * block +
                      (s.splits > 1 ? kSplit * (1 + 0.2 * s.splits) : 0);
  return std::max(time, kWave + blocks * weights / kAllBytes) + 0.03 * time;
}

}  // namespace sinter::codegen
