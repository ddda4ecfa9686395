// SPDX-License-Identifier: Apache-2.0
// GEMVs and small-M GEMMs with quantized weights, in integers: activations are decomposed into
// int8 slices, weights stay as they are. See Int8Tile in
// codegen/families/gemm/int8_gemv/int8_gemv.cuh.
#include <numeric>

#include <fmt/format.h>

#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {
namespace {

constexpr int kSlices = 3;  // with outliers in x, two are less accurate than float16

/// Mainloop steps of a block.
int count_steps(const GemmProgram& product, const GemmSchedule& s) {
  return ceil_div(ceil_div(product.k.value(), s.k), s.split_k);
}

/// Bytes of the slices of a block's activations.
int slice_bytes(const GemmProgram& product, const GemmSchedule& s, int digits) {
  const int columns = s.m * digits;
  return count_steps(product, s) * (s.k / 64) * (columns * 4 + 1) * 16;
}

/// Whether the kernel has not been measured for the GEMM; then it is used only on request.
bool is_unknown(const GemmProgram& product, std::int64_t m) {
  const std::int64_t group = loop_group(product);
  return m > 1 || product.weights->has_zeros() || (group != 0 && group < 64);
}

bool is_for(const GemmProgram& product) {
  return !product.by_warpgroups && product.weights && product.weights->is_quantized() &&
         !product.weights->are_floats() && !product.is_eight_bit() && product.groups == 0;
}

/// A SmallM tile whose warps all split k.
struct Int8Gemv final : SmallM {
  int digits;  // slices of an activation: two or three

  Int8Gemv(int along_n, int along_k, int of_activation)
      : SmallM(along_n, along_k), digits(of_activation) {}

  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override {
    constexpr std::int64_t kMostRows = 4, kMostDepth = 8 * 32 * 16;  // per warp: what lanes hold
    const GemmProgram& product = problem.product;
    if (!is_for(product) || !SmallM::fits(problem, s)) return false;
    const int depth = s.k / warps_k;
    const std::int64_t group = loop_group(product);
    return warps_n == 1 && (digits == 2 || digits == 3) && s.m <= kMostRows && depth % 64 == 0 &&
           (group == 0 || std::gcd(group, std::int64_t{depth}) % 32 == 0) &&
           (product.prologue || s.vector_a == 8) &&
           std::int64_t{count_steps(product, s)} * depth <= kMostDepth;
  }

  int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const override {
    const GemmProgram& product = problem.product;
    const int stage = stage_bytes(product, s, false), own = slice_bytes(product, s, digits);
    const bool are_in_ring = s.stages > count_steps(product, s) && own <= stage;
    return ring_bytes(product, s, stage) + (are_in_ring ? 0 : own);
  }

  int blocks_at_once(const GemmProblem&, const GemmSchedule&) const override {
    return 1;  // without a bound ptxas limits itself to 64 registers and spills; this allows all of
               // them
  }

  double estimate(const GemmProblem& problem, const GemmSchedule& s,
                  std::int64_t m) const override {
    const FewRowsCosts& costs = problem.device.fitted->few_rows.int8_slices;
    const double time = m <= kFewRows ? estimate_few_rows(problem, s, *this, m, costs)
                                      : SmallM::estimate(problem, s, m);
    return m <= kFewRows && is_unknown(problem.product, m) ? 2 * time : time;
  }

  std::string to_string(const GemmSchedule& s) const override {
    return fmt::format("{} slices={}", tile_text("int8_gemv", s), digits);
  }

  std::string sum_order(const GemmProblem& problem, const GemmSchedule& s) const override {
    return GemmTile::sum_order(problem, s);
  }

  std::string header(const GemmProgram&) const override { return "int8_gemv.cuh"; }

  std::string type(const GemmText& text) const override {
    const GemmSchedule& s = text.schedule();
    const GemmProgram& product = text.product();
    return fmt::format(
        "WithAccumulators<Int8Tile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>>",
        storage_name(product.type), packed_weights_type(*product.weights, loop_group(product)), s.m,
        s.n, s.k / warps_k, warps_k, s.stages, s.split_k, product.parts_of_b(),
        product.prologue ? product.prologue->most : 0,
        product.prologue ? product.prologue->stride : 0, digits, count_steps(product, s));
  }
};

std::vector<GemmSchedule> schedules(const GemmProblem& problem) {
  std::vector<GemmSchedule> all;
  for (const FewRowsTile& tile : few_rows_tiles(problem.product)) {
    if (!tile.is_for_int8) continue;
    GemmSchedule s;
    s.m = tile.m, s.n = tile.n(), s.k = tile.k();
    s.stages = tile.stages;
    s.tile = std::make_shared<Int8Gemv>(tile.warps_n, tile.warps_k, kSlices);
    add_splits(problem, std::move(s), all);
  }
  return all;
}

std::optional<GemmSchedule> parse(const std::string& text) {
  GemmSchedule s;
  int warps_n = 0, warps_k = 0, digits = 0;
  if (!read_sizes(
          text, "int8_gemv %dx%dx%d warps=1x%dx%d stages=%d slices=%d split_k=%d cluster_n=%d",
          &s.m, &s.n, &s.k, &warps_n, &warps_k, &s.stages, &digits, &s.split_k, &s.cluster_n))
    return std::nullopt;
  s.tile = std::make_shared<Int8Gemv>(warps_n, warps_k, digits);
  return s;
}

}  // namespace

constinit const GemmKernel kInt8GemvKernel = {"int8_gemv", is_for, refuse_small_m, schedules,
                                              parse};

}  // namespace sinter::codegen
