// SPDX-License-Identifier: Apache-2.0
// Time estimates of small-M GEMMs.
#include <algorithm>
#include <cmath>

#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/loops/schedule_parts.h"

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

// Fitted to 460 schedules of a layer's four GEMMs (2,048 to 16,384 columns; one and eight rows;
// weights of 16, 8 and 4 bits), each in a CUDA graph of sixteen layers on an H200. The chosen
// schedules make a layer of 30 to 40 us 0.3 us longer than the best.
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
// The same for packed 16-bit weights: 310 schedules of such layers, of layers twice as wide, and of
// 128,256 columns alone. The chosen ones take 0.2 us longer than the best on average. The costs set
// below were fitted to 118 schedules of nine single GEMMs of up to 16 rows, and to the best of the
// layers.
constexpr FewRowsCosts of_elements() {
  FewRowsCosts costs = {4397, 292, 1085, 2.46, 22, 62, 0, 0.0128, 0, 0, 2.4, 19.4};
  costs.traffic = 5050, costs.tile_traffic = 50;
  costs.last_wave = 500, costs.lone_wave = 120;
  costs.own_meeting = 20, costs.own_step = 1.5;
  return costs;
}
// For unpacked weights with k contiguous; derived, not fitted, except for memory and waves. A
// warp needs ten to twelve instructions to copy and multiply 512 bytes, more than for packed
// ones. A single resident block leaves its multiprocessor idle until the next one's first weights
// arrive.
constexpr FewRowsCosts of_rows_of_k() {
  FewRowsCosts costs = of_elements();
  costs.unit = 3.9, costs.unit_alone = 50, costs.step = 60, costs.both = 0.05;
  costs.lone_wave = 1500;
  return costs;
}
// Fitted for one row with 4-bit weights: 170 schedules of 1B and 8B layers.
constexpr FewRowsCosts kHalfBytesOfOneRow = {4110, 4800,   1070,   1e9,    82.2, 0,
                                             54.2, 0.0858, 0.0547, 0.0927, 7.21, 157};

FewRowsCosts costs_of(const GemmProgram& product, std::int64_t m) {
  if (product.weights && !product.weights->is_quantized()) return of_elements();
  if (!product.weights && !product.rows_are_k) return of_rows_of_k();
  const int bits = product.weights ? product.weights->bits() : 16;
  return m == 1 && bits == 4 ? kHalfBytesOfOneRow : of_bits(bits);
}

FewRowsCosts scaled(FewRowsCosts costs, const RelativeRates& rates) {
  costs.bytes *= rates.memory;
  for (double* rate : {&costs.traffic, &costs.tile_traffic}) *rate *= rates.clock;
  for (double* time :
       {&costs.latency, &costs.wave, &costs.step, &costs.meeting, &costs.warp_step,
        &costs.row_bytes, &costs.accumulator, &costs.unit, &costs.unit_alone, &costs.last_wave,
        &costs.own_meeting, &costs.own_step, &costs.lone_wave, &costs.split})
    *time /= rates.clock;
  return costs;
}

}  // namespace

double estimate_few_rows(const GemmProblem& problem, const GemmSchedule& s, const SmallM& tile,
                         std::int64_t m, FewRowsCosts costs) {
  constexpr double kUnitBytes = 512;
  const GemmProgram& product = problem.product;
  const std::int64_t n = problem.n, k = problem.k;
  const int bits = product.weights ? product.weights->bits() : 16;
  costs = scaled(costs, problem.rates());
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
  if (m <= kFewRows) return estimate_few_rows(problem, s, *this, m, costs_of(product, m));
  // Fitted to timings of 40 schedules of int8 GEMMs (2,048 to 128,256 columns, 1 to 256 rows) on an
  // H200. The chosen ones take 3 % longer than the best on average.
  const RelativeRates rates = problem.rates();
  const double wave = 1250 / rates.clock, meeting = 205 / rates.clock, split = 970 / rates.clock;
  const double usual_step = 640 / rates.clock, step_of_few = 700 / rates.clock;
  const double bytes_rate = 38 * rates.clock, flops_rate = 2800 * rates.tensor;  // per nanosecond
  const double accumulator_rate = 11000 * rates.clock, all_bytes_rate = 4100 * rates.memory;
  constexpr double kRowBytes = 0.23;  // cost of a byte of x relative to one of weights
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
  const double work = std::max((weights + kRowBytes * rows) / bytes_rate, flops / flops_rate);
  const double step = s.m < 8 && warps_k * s.n < 500 ? step_of_few : usual_step;
  const double steps = depth / s.k * (step + (warps_n > 1 ? meeting : 0));
  const double block =
      wave + std::max(work * resident, steps) + 4.0 * warps_k * s.m * s.n / accumulator_rate;
  const double time = (waves < 3 ? std::ceil(waves * 0.999) : waves + 0.5) * block +
                      (s.split_k > 1 ? split * (1 + 0.2 * s.split_k) : 0);
  return std::max(time, wave + blocks * weights / all_bytes_rate) + 0.03 * time;
}

}  // namespace sinter::codegen
