// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/gemm_kernel.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {
namespace {

constexpr std::int64_t kTypical = 512;  // assumed for unknown sizes

std::int64_t typical(const ProgramAnalysis& analysis, const Dim& dim) {
  if (dim.is_constant()) return dim.value();
  return std::min(upper(analysis, dim).value_or(kTypical), kTypical);
}

int largest_power(int value) {
  int power = 1;
  while (power * 2 <= value) power *= 2;
  return power;
}

EpilogueCost epilogue_cost(const ProgramAnalysis& analysis, const GemmProgram& product) {
  EpilogueCost cost;
  cost.instructions = count_operations(analysis);
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    if (instr.kind != InstrKind::Load || !analysis.value(i).live) continue;
    const std::uint32_t buffer = analysis.access(instr.access).buffer;
    if (buffer == product.product) continue;
    if (is_shared_by_rows(analysis, i))
      cost.instructions += 1;
    else
      cost.row_bytes += static_cast<double>(size_of(analysis.buffer_type(buffer)));
  }
  return cost;
}

}  // namespace

GemmProblem gemm_problem(const ProgramAnalysis& analysis, const GemmProgram& product) {
  const bool has_it = analysis.device().has_wgmma || !product.by_warpgroups;
  GemmProblem problem{product, has_it ? analysis.device() : reference_device()};
  problem.n = typical(analysis, product.n);
  problem.k = typical(analysis, product.k);
  for (const Dim& batch : product.batch)
    problem.matrices *= static_cast<double>(typical(analysis, batch));
  problem.least_m = ir::lower_bound(product.m, analysis.exprs().ranges());
  problem.most_m = upper(analysis, product.m);
  problem.most_n = upper(analysis, product.n);
  problem.most_k = upper(analysis, product.k);
  if (product.combined) {  // one sum along the rows of a token
    problem.k *= *product.combined;
    if (problem.most_k) *problem.most_k *= *product.combined;
  }
  problem.reductions = analysis.stages();
  problem.epilogue = epilogue_cost(analysis, product);
  return problem;
}

double GemmProblem::tensor_speed() const {
  if (product.type == DType::kFloat32) return 0.5;  // as TF32
  if (!product.is_eight_bit()) return 1;
  const double rate = product.is_float8() ? device.float8_flops : device.int8_ops;
  return rate / device.tensor_flops;
}

int GemmSchedule::threads() const { return tile->threads(); }
int GemmSchedule::epilogue_threads() const { return tile->epilogue_threads(); }
int GemmSchedule::shared_bytes(const GemmProblem& problem) const {
  return tile->shared_bytes(problem, *this);
}

std::string GemmSchedule::to_string() const {
  return fmt::format("{} split_k={} cluster_n={} copies={},{} vector={} lanes={} unroll={}{}",
                     tile->to_string(*this), split_k, cluster_n, vector_a, vector_b,
                     epilogue.vector, lanes(), epilogue.unroll,
                     programmatic_launch ? " programmatic" : "");
}

int GemmTile::most_shared_bytes(const DeviceModel& device) const {
  constexpr int kLeftForReductions = 3 * 1024;
  return device.block_shared_bytes - kLeftForReductions;
}

namespace {

/// Which operands stay in the L2 while the other one streams through it.
struct Held {
  bool a, b;
  explicit Held(const GemmProblem& problem) {
    const std::int64_t half = problem.device.l2_bytes / 2;
    const std::int64_t row = problem.k * static_cast<std::int64_t>(size_of(problem.product.type));
    a = problem.most_m.value_or(kTypical) * row <= half * 3 / 4;
    b = problem.n * row <= half;
  }
};

}  // namespace

bool GemmTile::rasters_along_m(const GemmProblem& problem) const {
  if (problem.product.groups > 0) return false;
  const Held held(problem);
  return held.a && !held.b;
}

int GemmTile::raster_group(const GemmProblem& problem, const GemmSchedule& s) const {
  // A wave of blocks covers about as many rows as columns.
  const double rows = s.m * s.multicast, at_once = problem.device.multiprocessors / s.multicast;
  const auto group = static_cast<int>(std::lround(std::sqrt(at_once * s.n / rows)));
  const Held held(problem);
  const bool is_one = problem.product.batch.empty() && problem.product.groups == 0;
  return !held.a && !held.b && is_one ? std::max(group, 1) : 1;
}

bool GemmTile::map_epilogue(const ProgramAnalysis& analysis, int columns, GemmSchedule& s) const {
  constexpr int kMostElements = 64;  // per thread, in registers
  const bool reduces = analysis.stages() > 0;
  const int threads = epilogue_threads() * s.split_k;
  const int vectors = columns / s.epilogue.vector;
  int lanes = std::min(vectors, epilogue_threads());
  if (reduces) {
    // Each row once: a reduction's scratch is written once.
    lanes = std::min({32, largest_power(threads / s.m), 2 * largest_power(vectors)});
    if (lanes < 1 || threads < s.m) return false;
  } else {
    if (epilogue_threads() % lanes != 0) lanes = largest_power(lanes);
    // A thread gets several short vectors, whose loads are then in flight together.
    constexpr int kWarp = 32, kShort = 2, kTogether = 8;
    while (s.epilogue.vector <= kShort && lanes > kWarp &&
           vectors / lanes * s.epilogue.vector < kTogether)
      lanes /= 2;
  }
  s.epilogue.threads_x = lanes;
  s.epilogue.unroll = ceil_div(vectors, lanes);
  return s.epilogue.unroll * s.epilogue.vector <= kMostElements && (!reduces || s.passes() == 1);
}

void require_sizes(std::initializer_list<int> values, const std::string& schedule) {
  for (const int value : values)
    if (value < 1 || value > 4096)
      throw Error(ErrorCode::kUsage, fmt::format("{} in the schedule '{}'", value, schedule));
}

int staged_elements(const GemmProgram& product, const GemmSchedule& s) {
  const int bytes = product.element_bytes();
  const int pitch_a = odd_units(s.k, bytes);
  if (product.rows_are_k && !product.is_eight_bit())
    return s.m * pitch_a + s.k * odd_units(s.n);  // eight elements also if they have four bytes
  return s.m * pitch_a + s.n * odd_units(s.k, bytes);
}

double filled_multiprocessors(const DeviceModel& device, int cluster) {
  return cluster <= 2 ? device.multiprocessors : device.clustered_multiprocessors;
}

}  // namespace sinter::codegen
