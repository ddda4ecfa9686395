// SPDX-License-Identifier: Apache-2.0
// Time estimates of small-M GEMMs.
#include <algorithm>
#include <cmath>

#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {
namespace {

constexpr int kFragment = 16;

/// Blocks that fit a multiprocessor.
double blocks_that_fit(const GemmProblem& problem, const GemmSchedule& s, double registers) {
  constexpr double kOwn = 1024;
  const DeviceModel& device = problem.device;
  const double shared = device.block_shared_bytes, threads = device.threads;
  return std::max(
      1.0,
      std::floor(std::min({shared / (s.shared_bytes(problem) + kOwn), threads / s.threads(),
                           static_cast<double>(device.registers) / (s.threads() * registers)})));
}

const FewRowsCosts& costs_of(const GemmProblem& problem, std::int64_t m) {
  const GemmProgram& product = problem.product;
  const auto& fitted = problem.device.fitted->few_rows;
  if (!product.weights) return product.rows_are_k ? fitted.rows_of_n : fitted.rows_of_k;
  if (!product.weights->is_quantized()) return fitted.packed_16;
  const int bits = product.weights->bits();
  return bits == 8 ? fitted.bits_8 : m == 1 && bits == 4 ? fitted.bits_4_one_row : fitted.bits_4;
}

}  // namespace

double estimate_few_rows(const GemmProblem& problem, const GemmSchedule& s, const SmallM& tile,
                         std::int64_t m, const FewRowsCosts& costs) {
  constexpr double kUnitBytes = 512;
  const GemmProgram& product = problem.product;
  const std::int64_t n = problem.n, k = problem.k;
  const int bits = product.weights ? product.weights->bits() : 16;
  const auto processors = static_cast<double>(problem.device.multiprocessors);
  const double tiles = static_cast<double>(ceil_div(m, s.m) * ceil_div(n, s.n));
  const double blocks = tiles * s.split_k;
  const auto steps = static_cast<double>(ceil_div(ceil_div(k, s.k), s.split_k));
  const double accumulators = s.n / tile.warps_n / kFragment * std::max(1.0, s.m / 8.0) * 4;
  const double fit = blocks_that_fit(problem, s, 48 + 1.3 * accumulators);
  const double waves = std::max(1.0, blocks / (processors * fit));
  const double each = std::ceil(blocks / processors);  // blocks on a multiprocessor
  const double step_bytes = static_cast<double>(s.n) * s.k * bits / 8;
  const double total = tiles * s.n * static_cast<double>(k) * bits / 8;
  const double under_way = std::min(
      total, std::min(blocks, processors * fit) * std::min(s.stages - 1.0, steps) * step_bytes);
  const double memory = (total - under_way) / std::min(costs.bytes, under_way / costs.latency);
  const double rows = static_cast<double>(k) * 2 * s.m / s.split_k;
  const double instructions = total / kUnitBytes / processors * costs.unit +
                              blocks / processors * rows * costs.row_bytes +
                              each * steps * tile.warps_n * tile.warps_k * costs.warp_step;
  const double units =
      step_bytes / kUnitBytes / (tile.warps_n * tile.warps_k);  // of a warp, per step
  const double chain =
      waves * steps *
      (costs.step + units * costs.unit_alone + (tile.warps_n > 1 ? costs.meeting : 0));
  const double rows_there =
      product.prologue ? 0.0 : static_cast<double>(k * std::min<std::int64_t>(s.m, m)) * 2;
  const double traffic =
      (total + tiles * rows_there) / std::min(costs.traffic, costs.tile_traffic * tiles);
  // Blocks of a wave end together: the fewer remain, the longer most multiprocessors idle.
  const double left = waves > 1 ? std::max(0.25, 2 - waves) : 0;
  return costs.wave * std::min(std::ceil(waves), costs.most_waves) +
         std::max({memory, instructions, chain, traffic}) + costs.both * (instructions + chain) +
         costs.last_wave * left * steps / std::min(s.stages - 1.0, steps) +
         (tile.warps_n > 1 ? costs.own_meeting * waves * steps : 0) +
         (waves > 1 ? costs.own_step * each * steps * tile.warps_n * tile.warps_k : 0) +
         (waves > 1 && fit == 1 ? costs.lone_wave * waves : 0) +
         costs.accumulator * tile.warps_k * s.m * s.n * std::max(1.0, blocks / processors / 2) +
         (s.split_k > 1 ? costs.split * s.split_k : 0);
}

double SmallM::estimate(const GemmProblem& problem, const GemmSchedule& s, std::int64_t m) const {
  const GemmProgram& product = problem.product;
  if (m <= kFewRows) return estimate_few_rows(problem, s, *this, m, costs_of(problem, m));
  const SmallMCosts& costs = problem.device.fitted->small_m;
  const std::int64_t n = problem.n, k = problem.k;
  const double bits = product.weights ? product.weights->bits() : 16;
  const double blocks =
      static_cast<double>(ceil_div(m, s.m)) * static_cast<double>(ceil_div(n, s.n)) * s.split_k;
  const double accumulators = s.n / warps_n / kFragment * std::max(1.0, s.m / 8.0) * 4;
  const double processors = problem.device.multiprocessors;
  const double fit = blocks_that_fit(problem, s, 60 + 1.2 * accumulators);
  const double resident = std::max(1.0, std::min(fit, blocks / processors));
  const double waves = std::max(1.0, blocks / (processors * resident));
  const double depth = static_cast<double>(ceil_div(ceil_div(k, s.k), s.split_k)) * s.k;
  const double deep = std::min(depth, static_cast<double>(k));
  const double weights = s.n * deep * bits / 8;
  const double rows = static_cast<double>(std::min<std::int64_t>(s.m, m)) * deep * 2;
  const double flops = 2.0 * std::max(s.m, 8) * s.n * depth;
  const double work =
      std::max((weights + costs.row_bytes * rows) / costs.bytes, flops / costs.flops);
  const double step = s.m < 8 && warps_k * s.n < 500 ? costs.step_of_few : costs.step;
  const double steps = depth / s.k * (step + (warps_n > 1 ? costs.meeting : 0));
  const double block = costs.wave + std::max(work * resident, steps) +
                       4.0 * warps_k * s.m * s.n / costs.accumulator_rate;
  const double time = (waves < 3 ? std::ceil(waves * 0.999) : waves + 0.5) * block +
                      (s.split_k > 1 ? costs.split * (1 + costs.split_more * s.split_k) : 0);
  return std::max(time, costs.wave + blocks * weights / costs.all_bytes) + costs.overhead * time;
}

}  // namespace sinter::codegen
