// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/small_m/small_m_schedule.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {
namespace {

constexpr int kFragment = 16, kMostThreads = 512, kMostUnits = 8;

int unit_depth(const GemmProgram& product) {
  return product.weights ? 256 / product.weights->bits() : kFragment;
}

bool is_quantized(const GemmProgram& product) {
  return product.weights && product.weights->is_quantized();
}

bool is_power_of_two(int x) { return (x & (x - 1)) == 0; }

bool is_for(const GemmProgram& product) {
  return !product.by_warpgroups && (product.element_bytes() == 2 || product.weights);
}

}  // namespace

bool leaves_to_small_m(const GemmProblem& problem) {
  const GemmProgram& product = problem.product;
  if (product.weights) return true;
  if (product.element_bytes() != 2) return false;
  if (product.parts > 1 || product.prologue) return true;
  return !product.windows && !product.rows_are_k && problem.reductions == 0 && problem.most_m &&
         *problem.most_m <= kFewRows;
}

bool has_one_order(const GemmProgram& product, const Ranges& ranges) {
  if (product.element_bytes() != 2 && !product.weights) return false;
  if (!product.b_is_weight || !product.batch.empty() || product.groups > 0 || product.windows)
    return false;
  const auto most = ir::upper_bound(product.m, ranges);
  return !product.m.is_constant() && most && *most <= kFewRows;
}

std::string refuse_small_m(const GemmProblem& problem) {
  if (problem.product.is_eight_bit() && problem.product.prologue)
    return "rows of 8 bits are not made in front of a product";
  return refuse_packing(problem.product);
}

bool SmallM::fits(const GemmProblem& problem, const GemmSchedule& s) const {
  const GemmProgram& product = problem.product;
  if (!refuse_small_m(problem).empty() || problem.reductions > 0 || s.cluster_n != 1 ||
      s.stages < 2 || threads() > kMostThreads)
    return false;
  if (product.combined && (s.m != 1 || s.split_k != *product.combined)) return false;
  const bool rows = s.m <= 8 ? (s.m & (s.m - 1)) == 0 : s.m % 16 == 0;
  if (!rows || s.n % warps_n != 0 || s.k % warps_k != 0) return false;
  const int columns = s.n / warps_n, depth = s.k / warps_k;
  if (s.n % (kFragment * product.parts_of_b()) != 0 || s.n % (2 * product.parts) != 0) return false;
  if (columns % kFragment != 0 || columns / kFragment > kMostUnits || depth % 32 != 0 ||
      depth % unit_depth(product) != 0)
    return false;
  if (product.weights && kPackedDepth % depth != 0) return false;
  if (product.prologue &&
      (s.m > kGemmPrologueRows || product.prologue->most > s.m || kRowDepth % s.k != 0))
    return false;
  const std::int64_t group = loop_group(product);
  return group == 0 || std::gcd(group, std::int64_t{depth}) % kFragment == 0;
}

int SmallM::stage_bytes(const GemmProgram& product, const GemmSchedule& s,
                        bool with_prologue) const {
  const int columns = s.n / warps_n, depth = s.k / warps_k, units = columns / kFragment;
  int weights = 0;
  if (product.weights)
    weights = units * (depth / unit_depth(product)) * 512;
  else
    weights = product.rows_are_k ? depth * odd_units(columns) * 2 : columns * odd_units(depth) * 2;
  if (const std::int64_t group = loop_group(product); group != 0) {
    const int folds = depth / static_cast<int>(std::gcd(group, std::int64_t{depth}));
    const auto scale = static_cast<int>(size_of(product.weights->scales()));
    weights += units * folds * kFragment * (scale + (product.weights->has_zeros() ? 2 : 0));
  }
  const int bytes = product.element_bytes();
  const int x = with_prologue ? s.m * odd_units(depth, bytes) * bytes : 0;
  return warps_k * (warps_n * weights + x);
}

int SmallM::ring_bytes(const GemmProgram& product, const GemmSchedule& s, int stage) const {
  const bool has_factors = product.weights && product.weights->has_factors();
  const bool by_column = is_quantized(product) && (loop_group(product) == 0 || has_factors);
  const DType of_column = has_factors || !by_column ? DType::kFloat32 : product.weights->scales();
  return std::max(s.stages * stage, warps_k * s.m * (s.n + 4) * 4) +
         (by_column ? s.n * static_cast<int>(size_of(of_column)) : 0) +
         (product.prologue ? static_cast<int>(product.prologue->most * product.prologue->stride) * 2
                           : 0);
}

int SmallM::shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const {
  const GemmProgram& product = problem.product;
  return ring_bytes(product, s, stage_bytes(product, s, !product.prologue));
}

/// A block has 32 to 96 KB of weights in flight besides those that it multiplies, in copies of 2 to
/// 4 KB for each warp.
std::vector<FewRowsTile> few_rows_tiles(const GemmProgram& product) {
  struct Shape {
    int columns, warps_n, warps_k;
    bool is_for_one = false;   // measured only for one row with 4-bit weights
    bool is_unpacked = false;  // for unpacked weights with k contiguous
  };
  constexpr int kRows[] = {1, 4, 8, static_cast<int>(kFewRows)}, kMostDepth = 256, kLineDepth = 64;
  constexpr Shape kShapes[] = {{16, 1, 8},
                               {16, 1, 16},
                               {32, 1, 8},
                               {32, 1, 16, true},
                               {32, 1, 4, false, true},
                               {32, 2, 4},
                               {48, 1, 8, true, true},
                               {64, 1, 8},
                               {96, 1, 8, true},
                               {128, 1, 8, true}};
  const int bits = product.weights ? product.weights->bits() : 16;
  std::vector<FewRowsTile> tiles;
  for (const int m : kRows) {
    const bool is_one = m == 1 && bits == 4;
    for (const Shape& shape : kShapes)
      for (const int step : {2048, 3072, 4096, 6144})
        for (const int kilobytes : {96, 64, 48, 32}) {
          const bool is_usual = kilobytes == 64 || kilobytes == 32;
          if (!is_usual && !is_one && is_quantized(product)) continue;
          const bool is_for_all = !shape.is_for_one && !shape.is_unpacked;
          if (!is_for_all && !(shape.is_for_one && is_one) &&
              !(shape.is_unpacked && !product.weights))
            continue;
          if (step > 4096 && product.weights) continue;
          // Warps that share a row synchronize: 2 to 10 % slower than eight that split k.
          const int most = is_quantized(product) ? 1 : product.prologue ? 4 : 8;
          if (m <= most && shape.warps_n > 1) continue;
          // One row is 1 to 5 % faster with tiles of four, alone and in a chain.
          if (product.combined ? m != 1 : m == 1 && !is_quantized(product) && !product.prologue)
            continue;
          const int depth = step * 8 / bits / shape.columns;
          // Copies whole 128-byte lines, with one address for each lane.
          if (!product.weights && (depth < kLineDepth || !is_power_of_two(depth))) continue;
          if (depth > kMostDepth || depth * shape.columns * bits != step * 8) continue;
          int stages = 1 + kilobytes * 1024 / (step * shape.warps_n * shape.warps_k);
          const bool is_whole = product.k.is_constant() &&
                                product.k.value() <= std::int64_t{stages} * depth * shape.warps_k;
          if (is_whole) stages = 1 + ceil_div(product.k.value(), depth * shape.warps_k);
          // Not in the estimate: for int8 slices, 48 KB were faster than 64 and 32.
          const bool is_for_int8 = is_one && (is_whole || kilobytes == 48 || kilobytes == 96);
          if (is_whole || stages > 2)
            tiles.push_back(
                {m, shape.columns, depth, shape.warps_n, shape.warps_k, stages, is_for_int8});
        }
  }
  return tiles;
}

void add_splits(const GemmProblem& problem, GemmSchedule s, std::vector<GemmSchedule>& all) {
  const auto& rows = problem.product.combined;
  if (rows) s.split_k = static_cast<int>(*rows);
  if (!s.tile->fits(problem, s)) return;
  if (rows) return all.push_back(std::move(s));
  for (const int split : {1, 2, 3, 4, 6, 8}) {
    s.split_k = split;
    all.push_back(s);
  }
}

std::string SmallM::tile_text(const char* kernel, const GemmSchedule& s) const {
  return fmt::format("{} {}x{}x{} warps=1x{}x{} stages={}", kernel, s.m, s.n, s.k, warps_n, warps_k,
                     s.stages);
}

std::string SmallM::to_string(const GemmSchedule& s) const { return tile_text("small_m", s); }

std::string SmallM::sum_order(const GemmProblem& problem, const GemmSchedule& s) const {
  // Groups of up to eight rows are summed in two chains.
  const bool is_chained = loop_group(problem.product) != 0 && s.m <= 8;
  return fmt::format("small_m {} of {} warps in {} parts{}", s.k / warps_k, warps_k, s.split_k,
                     is_chained ? ", chained" : "");
}

std::string SmallM::header(const GemmProgram&) const { return "small_m.cuh"; }

std::string SmallM::type(const GemmText& text) const {
  const GemmSchedule& s = text.schedule();
  const GemmProgram& product = text.product();
  const std::string weights = product.weights
                                  ? packed_weights_type(*product.weights, loop_group(product))
                              : product.rows_are_k ? "RowsAreK, NoScales"
                                                   : "RowsAreColumns, NoScales";
  return fmt::format(
      "WithAccumulators<SmallMTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}>>",
      storage_name(multiplied_type(product.type)), weights, s.m, s.n / warps_n, s.k / warps_k,
      warps_n, warps_k, s.stages, s.split_k, s.vector_a, s.vector_b, product.parts_of_b(),
      product.prologue ? fmt::format(", {}, {}", product.prologue->most, product.prologue->stride)
      : product.is_eight_bit() || product.gathered || product.combined
          ? fmt::format(", 0, 0, {}{}", storage_name(product.type),
                        product.gathered   ? ", true"
                        : product.combined ? ", false, true"
                                           : "")
          : "");
}

void SmallM::write_operands(GemmText& text) const {
  const GemmProgram& product = text.product();
  if (!product.prologue) text.write_strided_a();
  if (product.weights)
    text.write_packed_b();
  else
    text.write_strided_b();
  text.write_rows();
  text.write_columns();
}

namespace {

std::vector<GemmSchedule> schedules(const GemmProblem& problem) {
  // The fastest for some size on an H200.
  constexpr FewRowsTile kQuantized[] = {{32, 32, 64, 2, 4, 4},
                                        {32, 32, 64, 4, 2, 4},
                                        {64, 32, 64, 4, 2, 3},
                                        {64, 64, 64, 2, 2, 3},
                                        {128, 32, 64, 4, 1, 3}};
  constexpr FewRowsTile kRowsAreK[] = {
      {8, 64, 32, 1, 4, 6}, {8, 64, 32, 1, 8, 3}, {16, 64, 32, 1, 4, 4}};
  const GemmProgram& product = problem.product;
  std::vector<GemmSchedule> all;
  const auto add = [&](const FewRowsTile& tile) {
    GemmSchedule s;
    s.m = tile.m, s.n = tile.n(), s.k = tile.k();
    s.stages = tile.stages;
    s.tile = std::make_shared<SmallM>(tile.warps_n, tile.warps_k);
    add_splits(problem, std::move(s), all);
  };
  if (product.weights || !product.rows_are_k)
    for (const FewRowsTile& tile : few_rows_tiles(product)) add(tile);
  if (is_quantized(product))
    for (const FewRowsTile& tile : kQuantized) add(tile);
  else if (!product.weights && product.rows_are_k && (product.parts > 1 || product.prologue))
    // Otherwise warp tiles are faster. Measured on an H200 for one row of float16 alone: 2048 x
    // 2048 takes 7.9 us instead of 10.5, 2048 x 8192 takes 13.5 instead of 17.
    for (const FewRowsTile& tile : kRowsAreK) add(tile);
  return all;
}

std::optional<GemmSchedule> parse(const std::string& text) {
  GemmSchedule s;
  int warps_n = 0, warps_k = 0;
  if (!read_sizes(text, "small_m %dx%dx%d warps=1x%dx%d stages=%d split_k=%d cluster_n=%d", &s.m,
                  &s.n, &s.k, &warps_n, &warps_k, &s.stages, &s.split_k, &s.cluster_n))
    return std::nullopt;
  s.tile = std::make_shared<SmallM>(warps_n, warps_k);
  return s;
}

}  // namespace

constinit const GemmKernel kSmallMKernel = {"small_m", is_for, refuse_small_m, schedules, parse};

}  // namespace sinter::codegen
