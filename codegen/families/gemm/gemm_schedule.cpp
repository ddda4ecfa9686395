// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/gemm_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/schedule_neighbours.h"
#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

namespace sinter::codegen {
namespace {

// Row counts that get a schedule each; the last one's takes all larger counts and runs on every
// GPU. Norms of many rows are faster as a separate kernel.
constexpr std::int64_t kRows[] = {64, 512, 4096}, kMostNormRows = 512;
// Warpgroup tiles have up to 256 rows: the share of idle multiprocessors varies strongly with m.
constexpr std::int64_t kWarpgroupRows[] = {64, 128, 256, 512, 4096};

// All rows of a grouped matmul.
constexpr std::int64_t kGroupedRows[] = {8, 32, 128, 512, 2048, 8192, 32768};

// Tokens whose rows are added up: schedules are for one. Of more, experts that several choose would
// be read several times.
constexpr std::int64_t kCombinedRows[] = {1}, kMostCombined = 4;

/// Expected tiles of a group with `mean` rows, more or fewer by chance: the sum of the chances
/// that there is a row behind 0, 1, .. tiles, by the normal distribution.
double tiles_of_group(double mean, int rows) {
  const double deviation = std::sqrt(2 * mean);
  double tiles = 0;
  for (double behind = 0;; behind += rows) {
    const double chance = 0.5 * std::erfc((behind + 0.5 - mean) / deviation);
    tiles += chance;
    if (behind > mean && chance < 1e-3) return tiles;
  }
}

/// The estimated time for `m` rows. Rows of a grouped matmul are expected to choose groups by
/// chance: the matrices of those that have rows are then side by side. Persistent blocks take the
/// tiles of all groups one after the other.
double estimate(const GemmProblem& problem, const GemmSchedule& s, std::int64_t m) {
  const auto groups = static_cast<double>(problem.product.groups);
  if (groups == 0 || problem.product.combined) return s.tile->estimate(problem, s, m);
  if (problem.product.by_warpgroups) {
    const double tiles = groups * tiles_of_group(static_cast<double>(m) / groups, s.m);
    GemmProblem each = problem;
    each.n = static_cast<std::int64_t>(static_cast<double>(problem.n) * std::max(tiles, 1.0));
    return s.tile->estimate(each, s, s.m);
  }
  const double used = groups * (1 - std::pow(1 - 1 / groups, static_cast<double>(m)));
  GemmProblem each = problem;
  each.n = static_cast<std::int64_t>(static_cast<double>(problem.n) * std::max(used, 1.0));
  const auto rows = static_cast<std::int64_t>(std::ceil(static_cast<double>(m) / used));
  return s.tile->estimate(each, s, std::max<std::int64_t>(rows, 1));
}

/// Rows of a group up to which its time is that of reading its weights.
constexpr std::int64_t kFewRowsOfGroup = 8;

constexpr int kLeastCopiedBytes = 4;  // smaller elements are not copied one by one

/// The longest vector for copies along an operand's rows, and the conditions that it needs.
int copy_vector(const ProgramAnalysis& analysis, const GemmOperand& operand, const Dim& length,
                int element_bytes, std::vector<Condition>& conditions) {
  std::vector<Dim> sizes = {operand.offset, operand.stride, length};
  sizes.insert(sizes.end(), operand.batch_strides.begin(), operand.batch_strides.end());
  int vector = 16 / element_bytes;
  for (const Dim& size : sizes)
    while (vector > 1 && size.is_constant() && size.value() % vector != 0) vector /= 2;
  if (vector * element_bytes < kLeastCopiedBytes) vector = 1;
  for (const Dim& size : sizes)
    if (!ir::is_multiple_of(size, vector))
      conditions.emplace_back(analysis.exprs().intern(size), static_cast<std::uint64_t>(vector),
                              INT64_MAX);
  return vector;
}

/// Drops conditions implied by others: seq * 12 % 8 == 0 by seq % 8 == 0.
void drop_implied(const ExprTable& exprs, std::vector<Condition>& conditions) {
  std::vector<Condition> kept;
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    const auto follows_from = [&](std::size_t j) {
      const auto &c = conditions[i], &other = conditions[j];
      if (i == j || c.divisor() != other.divisor() || c.max() != INT64_MAX) return false;
      if (c.expression() == other.expression()) return j < i;
      return ir::divide_exactly(exprs.dim(c.expression()), exprs.dim(other.expression()))
          .has_value();
    };
    bool implied = false;
    for (std::size_t j = 0; j < conditions.size(); ++j) implied = implied || follows_from(j);
    if (!implied) kept.push_back(conditions[i]);
  }
  conditions = std::move(kept);
}

/// 8-bit GEMMs have float32 scales and results of any width: a thread's eight columns decide, not
/// the stored type. Warpgroups always have eight columns of a thread.
VectorPlan epilogue_vectors(const ProgramAnalysis& analysis, int dim, int most) {
  const GemmProgram& product = *analysis.request().product;
  const bool is_rounded = product.by_warpgroups && product.type == DType::kFloat32;
  if (!product.is_eight_bit() && !is_rounded && !product.interleaved)
    return plan_vectors(analysis, dim, most);
  std::vector<bool> in_memory(analysis.instr_count());
  for (const std::size_t i : analysis.live_accesses())
    in_memory[i] = analysis.access(analysis.instr(i).access).buffer != product.product;
  return plan_vectors_of(analysis, dim, most, in_memory);
}

/// Chooses the epilogue's thread mapping for a tile of `columns` columns; false if none fits.
bool plan_epilogue(const ProgramAnalysis& analysis, int columns, GemmSchedule& s) {
  // All threads work, on several elements each.
  const int share = std::max(s.m * columns / (s.epilogue_threads() * s.split_k), 2);
  int most = 8;
  while (most > share || columns % most != 0) most /= 2;
  const int dim = analysis.last_dim(analysis.inner_dims());
  const VectorPlan vectors = epilogue_vectors(analysis, dim, most);
  s.epilogue = {};
  s.epilogue.vector = vectors.vector;
  s.epilogue.vector_dim = vectors.vector > 1 ? vectors.dim : -1;
  s.epilogue.vector_access = vectors.vector_access;
  s.conditions.insert(s.conditions.end(), vectors.conditions.begin(), vectors.conditions.end());
  return s.tile->map_epilogue(analysis, columns, s);
}

/// Completes a schedule; false if the program or the device does not fit it.
bool complete(const ProgramAnalysis& analysis, const GemmProblem& problem, GemmSchedule& s) {
  const GemmProgram& product = problem.product;
  s.conditions.clear();
  s.vector_a =
      copy_vector(analysis, product.a, product.windows ? product.windows->channels : product.k,
                  product.element_bytes(), s.conditions);
  // A row of k has the columns of all parts, one part after the other.
  const Dim columns = *ir::divide_exactly(product.n, Dim(product.parts_of_b()));
  s.vector_b = product.weights
                   ? 8
                   : copy_vector(analysis, product.b, product.rows_are_k ? columns : product.k,
                                 product.element_bytes(), s.conditions);
  // GroupTiles, besides the tile.
  const int counted = product.groups > 0 ? static_cast<int>(product.groups + 4) * 8 : 0;
  if (const auto& task = analysis.request().task;
      task && (s.cluster() > 1 || s.threads() != task->threads ||
               s.shared_bytes(problem) > task->most_shared_bytes))
    return false;
  if (!s.tile->fits(problem, s) || s.cluster() > problem.device.cluster_blocks ||
      s.shared_bytes(problem) + counted > s.tile->most_shared_bytes(problem.device))
    return false;
  if (problem.reductions > 0) {
    if (!problem.most_n || *problem.most_n > s.n * s.cluster_n) return false;
  } else if (s.cluster_n != 1) {
    return false;
  }
  if (!plan_epilogue(analysis, s.n / product.parts, s)) return false;
  drop_implied(analysis.exprs(), s.conditions);
  return true;
}

std::vector<GemmSchedule> candidates(const ProgramAnalysis& analysis, const GemmProblem& problem) {
  std::vector<GemmSchedule> all;
  for (const GemmKernel* kernel : gemm_kernels()) {
    if (!kernel->is_for(problem.product)) continue;
    if (problem.product.combined && kernel != &kSmallMKernel) continue;
    // Slower than small-M.
    if (kernel == &kWarpTileKernel && leaves_to_small_m(problem) && !all.empty()) continue;
    for (GemmSchedule& s : kernel->schedules(problem)) {
      if (s.split_k > 1 && !problem.product.combined && problem.most_k &&
          ceil_div(*problem.most_k, s.k) < s.split_k)
        continue;
      if (complete(analysis, problem, s)) all.push_back(std::move(s));
    }
  }
  return all;
}

/// Among schedules without clusters: the sum_order() whose best schedules take the least time in
/// total over all `steps`.
std::vector<GemmSchedule> of_one_order(const GemmProblem& problem,
                                       std::span<const std::int64_t> steps,
                                       std::vector<GemmSchedule> all) {
  std::map<std::string, std::vector<GemmSchedule>> by_order;
  for (GemmSchedule& s : all)
    if (s.cluster() == 1) by_order[s.tile->sum_order(problem, s)].push_back(s);
  if (by_order.empty()) return all;
  const auto time = [&](const std::vector<GemmSchedule>& schedules) {
    double sum = 0;
    for (const std::int64_t rows : steps) {
      double least = std::numeric_limits<double>::infinity();
      for (const GemmSchedule& s : schedules)
        least = std::min(least, estimate(problem, s, std::min(rows, *problem.most_m)));
      sum += least;
      if (rows >= *problem.most_m) break;
    }
    return sum;
  };
  return std::move(std::ranges::min_element(by_order, {}, [&](const auto& order) {
                     return time(order.second);
                   })->second);
}

/// The schedule requested by `text`.
GemmSchedule forced_schedule(const ProgramAnalysis& analysis, const GemmProblem& problem,
                             const std::string& text) {
  auto [kernel, schedule] = parse_gemm_schedule(text);
  if (!kernel->is_for(problem.product) || !complete(analysis, problem, schedule))
    throw Error(ErrorCode::kUnsupported, fmt::format("the schedule '{}' does not take kernel '{}'",
                                                     text, analysis.request().name));
  return std::move(schedule);
}

/// Row counts that get a schedule each.
std::span<const std::int64_t> row_steps(const GemmProblem& problem) {
  if (problem.product.combined) return kCombinedRows;
  if (problem.product.groups > 0) return kGroupedRows;
  if (kMixedInputKernel.is_for(problem.product)) {
    if (problem.product.is_eight_bit()) return kW4A8Rows;
    return kMixedInputRows;
  }
  if (problem.product.by_warpgroups) return kWarpgroupRows;
  if (leaves_to_small_m(problem)) return kSmallMRows;
  return kRows;
}

}  // namespace

std::pair<const GemmKernel*, GemmSchedule> parse_gemm_schedule(const std::string& text) {
  for (const GemmKernel* kernel : gemm_kernels())
    if (std::optional<GemmSchedule> schedule = kernel->parse(text))
      return {kernel, *std::move(schedule)};
  throw Error(ErrorCode::kUsage,
              fmt::format("'{}' is no schedule of a product: it has the form 'warp_tile 64x32x64 "
                          "warps=2x2x1 stages=4 split_k=1 cluster_n=1'",
                          text));
}

std::vector<Condition> few_of_groups(const GemmProgram& product, ExprTable& exprs) {
  const std::int64_t few = kFewRowsOfGroup * product.groups;
  const auto most = ir::upper_bound(product.m, exprs.ranges());
  if (most && *most <= few) return {};
  return {Condition(exprs.intern(product.m), 1, few)};
}

std::vector<Condition> few_tokens(const GemmProgram& product, ExprTable& exprs) {
  const auto most = ir::upper_bound(product.m, exprs.ranges());
  if (most && *most <= kMostCombined) return {};
  return {Condition(exprs.intern(product.m), 1, kMostCombined)};
}

std::vector<Condition> gemm_limits(const GemmProgram& product, ExprTable& exprs) {
  if (kMixedInputKernel.is_for(product)) {
    std::vector<Condition> conditions;
    const auto least = ir::lower_bound(product.m, exprs.ranges());
    const auto most = ir::upper_bound(product.m, exprs.ranges());
    if (!least || *least < kLeastMixedInputRows)
      conditions.emplace_back(exprs.intern(Dim(kLeastMixedInputRows) - product.m), 1, 0);
    if (!product.is_eight_bit() && (!most || *most > kMostMixedInputRows))
      conditions.emplace_back(exprs.intern(product.m), 1, kMostMixedInputRows);
    return conditions;
  }
  if (product.weights || product.groups > 0) return {};  // the library has no such GEMM
  if (product.by_warpgroups || product.is_exact_float()) return {};
  const Dim flops = Dim(2) * product.m * product.n * product.k * ir::element_count(product.batch);
  const auto limit = static_cast<std::int64_t>(reference_device().fitted->fusion.kernel_flops);
  if (flops.is_constant() && flops.value() <= limit) return {};
  return {Condition(exprs.intern(flops), 1, limit)};
}

bool can_schedule_gemm(const ProgramAnalysis& analysis, const GemmProgram& product,
                       std::string& reason) {
  const GemmProblem problem = gemm_problem(analysis, product);
  if (problem.reductions > 0 && problem.least_m && *problem.least_m > kMostNormRows) {
    reason = fmt::format("more than {} rows", kMostNormRows);
    return false;
  }
  std::string refusal;
  bool is_taken = false;
  for (const GemmKernel* kernel : gemm_kernels()) {
    if (!kernel->is_for(product)) continue;
    const std::string why = kernel->refuse(problem);
    is_taken = is_taken || why.empty();
    if (refusal.empty()) refusal = why;
  }
  if (!is_taken) {
    reason = refusal;
    return false;
  }
  if (!candidates(analysis, problem).empty()) return true;
  reason = problem.reductions > 0 && !product.weights
               ? fmt::format("rows of {} elements do not fit a cluster", product.n.to_string())
               : std::string("no tile takes the product");
  return false;
}

std::vector<GemmSchedule> choose_gemm_schedules(const ProgramAnalysis& analysis,
                                                const GemmProgram& product,
                                                const std::string& forced) {
  const GemmProblem problem = gemm_problem(analysis, product);
  if (!forced.empty()) return {forced_schedule(analysis, problem, forced)};
  std::vector<GemmSchedule> all = candidates(analysis, problem);
  if (has_one_order(product, analysis.exprs().ranges()))
    all = of_one_order(problem, row_steps(problem), std::move(all));
  if (all.empty())
    throw Error(ErrorCode::kUnsupported, fmt::format("no schedule takes the product of kernel '{}'",
                                                     analysis.request().name));
  const std::optional<std::int64_t> most = problem.most_m;
  const auto best_for = [&](std::int64_t m, bool any_gpu) {
    const GemmSchedule* best = nullptr;
    double least = 0;
    for (const GemmSchedule& s : all) {
      if (any_gpu && s.cluster() > 1) continue;
      const double time = estimate(problem, s, m);
      if (best && time >= least) continue;
      best = &s;
      least = time;
    }
    return best;
  };
  std::vector<GemmSchedule> chosen;
  const auto add = [&](const GemmSchedule& schedule, std::optional<std::int64_t> rows) {
    if (!chosen.empty() && chosen.back().to_string() == schedule.to_string()) chosen.pop_back();
    chosen.push_back(schedule);
    if (rows) chosen.back().conditions.emplace_back(analysis.exprs().intern(product.m), 1, *rows);
  };
  const bool norm = problem.reductions > 0;
  const std::span<const std::int64_t> steps = row_steps(problem);
  for (const std::int64_t rows : steps) {
    const bool last = rows == steps.back() || (most && *most <= rows);
    if (norm && rows > kMostNormRows) break;
    if (!last && problem.least_m && *problem.least_m > rows) continue;
    // An image alone has many rows: use the actual number if known.
    const std::int64_t count = product.windows && product.m.is_constant() ? product.m.value()
                               : most                                     ? std::min(*most, rows)
                                                                          : rows;
    const GemmSchedule* best = best_for(count, false);
    if (!last || norm || best->cluster() == 1 || product.by_warpgroups || product.combined) {
      add(*best, last && !norm ? std::nullopt : std::optional(rows));
      if (last) break;
      continue;
    }
    // Few rows keep their clusters; GPUs without clusters get another kernel.
    if (rows < steps.back() || product.windows) add(*best, std::max(count, rows));
    if (const GemmSchedule* plain = best_for(product.windows ? count : rows, true))
      add(*plain, std::nullopt);
    break;
  }
  return chosen;
}

std::vector<GemmSchedule> all_gemm_schedules(const ProgramAnalysis& analysis,
                                             const GemmProgram& product) {
  constexpr std::int64_t kTypicalRows = 512;
  const GemmProblem problem = gemm_problem(analysis, product);
  std::vector<GemmSchedule> all = candidates(analysis, problem);
  const std::int64_t rows = product.m.is_constant()
                                ? product.m.value()
                                : std::min(problem.most_m.value_or(kTypicalRows), kTypicalRows);
  const auto time = [&](const GemmSchedule& s) { return estimate(problem, s, rows); };
  std::ranges::stable_sort(all, [&](const auto& a, const auto& b) { return time(a) < time(b); });
  return all;
}

double estimated_time(const ProgramAnalysis& analysis, const GemmProgram& product,
                      const GemmSchedule& schedule, std::int64_t rows) {
  return estimate(gemm_problem(analysis, product), schedule, rows);
}

std::vector<GemmSchedule> gemm_candidates(const ProgramAnalysis& analysis,
                                          const GemmProgram& product, const GemmSchedule& rule,
                                          bool clusters) {
  Neighbours<GemmSchedule> found(rule);
  const GemmProblem problem = gemm_problem(analysis, product);
  const bool one_order = has_one_order(product, analysis.exprs().ranges());
  const auto order = [&](const GemmSchedule& s) { return s.tile->sum_order(problem, s); };
  double number = 0;
  for (GemmSchedule& schedule : all_gemm_schedules(analysis, product)) {
    if (schedule.cluster() > 1 && !clusters) continue;
    if (one_order && order(schedule) != order(rule)) continue;
    if (!implies_all(rule.conditions, schedule.conditions)) continue;
    schedule.programmatic_launch = rule.programmatic_launch;
    found.add(std::move(schedule), ++number);
  }
  return found.take();
}

}  // namespace sinter::codegen
