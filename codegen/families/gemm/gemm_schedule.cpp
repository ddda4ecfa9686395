#include "codegen/families/gemm/gemm_schedule.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/emit/schedule_neighbours.h"
#include "codegen/families/gemm/mixed_input/mixed_input_schedule.h"
#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/gemm/tma/tma_schedule.h"

namespace sinter::codegen {

using ir::Dim;

namespace {

constexpr int kMostCluster = 16, kPortableCluster = 8;
constexpr int kMostSharedBytes = 224 * 1024, kAllShared = 227 * 1024;
// Beyond so many operations the library's own pipelines (wgmma) are ahead of mma.sync by more than
// an epilogue can win back.
constexpr double kMostFlops = 8e9;

// Rows up to which a schedule is chosen for; the last is for all that are more, and runs on every
// GPU. Norms of many rows are better computed by a kernel of their own.
constexpr std::int64_t kRows[] = {64, 512, 4096}, kMostNormRows = 512;

struct Tile {
  int m, n, k, warps_m, warps_n, warps_k, stages;
};
// Small tiles spread few rows over all multiprocessors and keep a whole k in flight; large ones
// read operands less often.
constexpr Tile kTiles[] = {
    {16, 16, 128, 1, 1, 4, 4}, {16, 32, 128, 1, 1, 4, 4}, {16, 64, 128, 1, 2, 2, 4},
    {16, 128, 64, 1, 4, 1, 4}, {32, 32, 128, 1, 1, 4, 3}, {32, 32, 64, 2, 2, 1, 4},
    {32, 64, 64, 1, 2, 2, 4},  {32, 128, 64, 1, 4, 1, 4}, {64, 32, 64, 2, 1, 2, 4},
    {64, 64, 64, 2, 2, 1, 4},  {64, 128, 64, 2, 2, 1, 3}, {128, 64, 64, 2, 2, 1, 3},
    {128, 128, 32, 2, 2, 1, 4}};
// Windows take more instructions to copy: eight warps hide them behind each other.
constexpr Tile kWindowTiles[] = {
    {32, 32, 64, 1, 2, 2, 4},  {32, 64, 64, 2, 2, 1, 4},   {64, 64, 64, 2, 4, 1, 4},
    {64, 64, 64, 2, 2, 2, 4},  {64, 128, 64, 2, 4, 1, 3},  {128, 64, 64, 4, 2, 1, 3},
    {128, 64, 64, 4, 2, 1, 4}, {128, 128, 64, 4, 2, 1, 3}, {256, 64, 64, 4, 2, 1, 3}};
constexpr int kSplits[] = {1, 2, 4, 8};
/// Rows of a tile and columns that a block holds of whole rows, where rows are reduced.
constexpr int kNormRows[] = {16, 32};
constexpr int kNormAcross[] = {1, 2, 3, 4, 6, 8, 12, 16};

std::optional<std::int64_t> upper(const ProgramAnalysis& analysis, const Dim& dim) {
  if (dim.is_constant()) return dim.value();
  return ir::upper_bound(dim, analysis.exprs().ranges());
}

std::int64_t typical(const ProgramAnalysis& analysis, const Dim& dim) {
  constexpr std::int64_t kTypical = 512;
  if (dim.is_constant()) return dim.value();
  return std::min(upper(analysis, dim).value_or(kTypical), kTypical);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int largest_power(int value) {
  int power = 1;
  while (power * 2 <= value) power *= 2;
  return power;
}

/// The longest copies along rows of an operand, and what sizes must fulfil for that.
int copy_vector(const ProgramAnalysis& analysis, const ProductOperand& operand, const Dim& length,
                std::vector<plan::fb::Condition>& conditions) {
  std::vector<Dim> sizes = {operand.offset, operand.stride, length};
  sizes.insert(sizes.end(), operand.batch_strides.begin(), operand.batch_strides.end());
  int vector = 8;
  for (const Dim& size : sizes)
    while (vector > 1 && size.is_constant() && size.value() % vector != 0) vector /= 2;
  for (const Dim& size : sizes)
    if (!ir::is_multiple_of(size, vector))
      conditions.emplace_back(analysis.exprs().intern(size), static_cast<std::uint64_t>(vector),
                              INT64_MAX);
  return vector;
}

/// Leaves out what follows from another condition: seq * 12 % 8 == 0 from seq % 8 == 0.
void drop_implied(const ExprTable& exprs, std::vector<plan::fb::Condition>& conditions) {
  std::vector<plan::fb::Condition> kept;
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

/// As TurnPasses has it: four lanes have a row, of eight columns each at a time.
bool plan_passes(int n, Schedule& body) {
  body.threads_x = 4;
  body.unroll = turn_vectors(n);
  return body.vector == 8;
}

/// Vectors and lanes of the epilogue for a tile with `n` columns of its own; false if none do.
bool plan_body(const ProgramAnalysis& analysis, int n, ProductSchedule& schedule) {
  const bool reduces = analysis.stages() > 0;
  const int threads = schedule.workers() * schedule.splits;
  // As many threads as there are, several elements each.
  const int share = std::max(schedule.m * n / threads, 1);
  int most = std::min(8, largest_power(std::max(share, 2)));
  while (n % most != 0) most /= 2;
  const int dim = analysis.last_dim(analysis.inner_dims());
  const VectorPlan vectors = plan_vectors(analysis, dim, most);
  Schedule& body = schedule.body;
  body = {};
  body.vector = vectors.vector;
  body.vector_dim = vectors.vector > 1 ? vectors.dim : -1;
  body.vector_access = vectors.vector_access;
  const int across = n / body.vector;
  int lanes = std::min(across, schedule.workers());
  if (reduces) {
    // Rows once only: a reduction's scratch is written once.
    lanes = std::min({32, largest_power(threads / schedule.m), 2 * largest_power(across)});
    if (lanes < 1 || threads < schedule.m) return false;
  } else if (schedule.workers() % lanes != 0) {
    lanes = largest_power(lanes);
  }
  body.threads_x = lanes;
  body.unroll = static_cast<int>(ceil_div(across, lanes));
  schedule.conditions.insert(schedule.conditions.end(), vectors.conditions.begin(),
                             vectors.conditions.end());
  constexpr int kMostElements = 64;  // of a thread, in registers
  if (schedule.turns > 0)
    return plan_passes(n, body) && (!schedule.spread || can_spread(analysis, body));
  return body.unroll * body.vector <= kMostElements && (!reduces || schedule.passes() == 1);
}

/// Completes a schedule; false if the program does not fit it.
bool complete(const ProgramAnalysis& analysis, const ProductProgram& product,
              ProductSchedule& schedule) {
  schedule.conditions.clear();
  schedule.vector_a =
      copy_vector(analysis, product.a, product.windows ? product.windows->channels : product.k,
                  schedule.conditions);
  schedule.vector_b =
      product.weights ? 8
                      : copy_vector(analysis, product.b, product.rows_are_k ? product.n : product.k,
                                    schedule.conditions);
  // The copy engine moves units of 16 bytes.
  if (schedule.groups > 0 && (schedule.vector_a != 8 || schedule.vector_b != 8)) return false;
  const bool tiles_fit =
      schedule.groups > 0
          ? analysis.stages() == 0 &&
                (schedule.skinny ? is_packed_group_tile(product, schedule)
                                 : !product.weights && is_group_tile(product, schedule))
      : schedule.skinny ? is_skinny_tile(product, schedule) && analysis.stages() == 0
                        : !product.weights && product.parts == 1 && !product.rows &&
                              schedule.m % (16 * schedule.warps_m) == 0 &&
                              schedule.n % (8 * schedule.warps_n) == 0 &&
                              schedule.k % (16 * schedule.warps_k) == 0 && schedule.stages >= 2 &&
                              schedule.threads() <= 1024;
  if (!tiles_fit || schedule.cluster() > kMostCluster ||
      schedule.shared_bytes(product) > (schedule.turns > 0 ? kAllShared : kMostSharedBytes))
    return false;
  if (analysis.stages() > 0) {
    const auto columns = upper(analysis, product.n);
    if (!columns || *columns > schedule.n * schedule.across) return false;
  } else if (schedule.across != 1) {
    return false;
  }
  if (!plan_body(analysis, schedule.n / product.parts, schedule)) return false;
  drop_implied(analysis.exprs(), schedule.conditions);
  return true;
}

/// What an estimate is made of, in nanoseconds.
struct Costs {
  double latency;                // of a wave of blocks
  double bytes, flops;           // each nanosecond on a multiprocessor
  double all_bytes;              // each nanosecond on all together
  double step;                   // of the pipeline
  double barrier, barrier_more;  // of a cluster, and its part for each block
  double sums;                   // how much faster than operands they are added up
  double split;  // for each further block that shares a tile and is resident at once
};
// Fitted to the times of 520 schedules for ten products of BERT-base and ViT-B/16 (128 and 197
// rows), and of MiniLM's, in graphs on an H200: those chosen take 7 % longer than the best in the
// mean.
constexpr Costs kDenseCosts = {3000, 36.5, 733, 2530, 132, 403, 0.57, 0.28, 0};
// Fitted to the times of 28 convolutions (ResNet-50, a text detector, ConvNeXt; batch 1 and 8) on
// an H200, each on 12 to 40 schedules: those chosen take 6 % longer than the best in the mean.
constexpr Costs kWindowCosts = {725, 26.5, 930, 1e9, 48, 380, 0.18, 7.5, 275};

/// Estimated nanoseconds for `m` rows on an H100: what a block waits for, what its multiprocessor
/// loads and multiplies, and what blocks cost each other. Only the order of schedules matters.
double estimate(const ProgramAnalysis& analysis, const ProductProgram& product,
                const ProductSchedule& s, std::int64_t m) {
  constexpr double kProcessors = 132, kSharedOfProcessor = 227.0 * 1024;
  const Costs& costs = product.windows ? kWindowCosts : kDenseCosts;
  const double n = static_cast<double>(typical(analysis, product.n));
  const double k = static_cast<double>(typical(analysis, product.k));
  if (s.groups > 0) {
    double matrices = 1;
    for (const Dim& batch : product.batch)
      matrices *= static_cast<double>(typical(analysis, batch));
    if (s.skinny)
      return estimate_packed_groups(product, s, m, static_cast<std::int64_t>(n),
                                    static_cast<std::int64_t>(k));
    return estimate_groups(s, m, static_cast<std::int64_t>(n), static_cast<std::int64_t>(k),
                           matrices, count_work(analysis, product));
  }
  if (s.skinny)
    return estimate_skinny(product, s, m, static_cast<std::int64_t>(n),
                           static_cast<std::int64_t>(k));
  double tiles = static_cast<double>(ceil_div(m, s.m)) *
                 std::max(1.0, static_cast<double>(ceil_div(static_cast<std::int64_t>(n), s.n)));
  for (const Dim& batch : product.batch) tiles *= static_cast<double>(typical(analysis, batch));
  const double blocks = tiles * s.splits;
  const double resident = std::max(
      1.0, std::min(std::min(kSharedOfProcessor / s.shared_bytes(product), 2048.0 / s.threads()),
                    blocks / kProcessors));
  const double waves = std::max(
      1.0, static_cast<double>(ceil_div(static_cast<std::int64_t>(blocks),
                                        static_cast<std::int64_t>(kProcessors * resident))));
  const double depth =
      static_cast<double>(ceil_div(ceil_div(static_cast<std::int64_t>(k), s.k), s.splits)) * s.k;
  const double bytes = (s.m + s.n) * depth * 2, flops = 2.0 * s.m * s.n * depth;
  const double work = std::max(std::max(bytes / costs.bytes, flops / costs.flops) * resident,
                               bytes * blocks / costs.all_bytes / waves);
  const double sums =
      s.m * s.n * 4.0 * (s.warps_k + s.splits) / s.splits / costs.bytes / costs.sums;
  double time = waves * (costs.latency + work + depth / s.k * costs.step + sums * resident);
  if (s.cluster() > 1) time += costs.barrier * (1 + costs.barrier_more * s.cluster());
  if (s.cluster() > kPortableCluster) time += costs.barrier;
  time += costs.split * (s.splits - 1) * resident * waves;
  time += analysis.stages() * (s.across > 1 ? costs.barrier : 20);
  return time;
}

/// Products that tiles of product.cuh do not take, or slower: with weights by rows of k, of few
/// rows.
bool is_for_skinny(const ProgramAnalysis& analysis, const ProductProgram& product) {
  if (product.weights || product.parts > 1 || product.rows) return true;
  const auto rows = upper(analysis, product.m);
  return !product.windows && !product.rows_are_k && analysis.stages() == 0 && rows &&
         *rows <= kFewRows;
}

std::vector<ProductSchedule> candidates(const ProgramAnalysis& analysis,
                                        const ProductProgram& product) {
  std::vector<ProductSchedule> all;
  const auto add_schedule = [&](ProductSchedule s) {
    const auto depth = upper(analysis, product.k);
    if (s.splits > 1 && depth && ceil_div(*depth, s.k) < s.splits) return;
    if (complete(analysis, product, s)) all.push_back(std::move(s));
  };
  const auto add = [&](const Tile& tile, int splits, int across) {
    ProductSchedule s;
    s.m = tile.m, s.n = tile.n, s.k = tile.k;
    s.warps_m = tile.warps_m, s.warps_n = tile.warps_n, s.warps_k = tile.warps_k;
    s.stages = tile.stages;
    s.splits = splits;
    s.across = across;
    add_schedule(std::move(s));
  };
  if (product.by_groups) {
    for (ProductSchedule& tile : product.weights ? packed_group_tiles(product)
                                                 : group_tiles(product, upper(analysis, product.k),
                                                               count_work(analysis, product)))
      add_schedule(std::move(tile));
    return all;
  }
  for (ProductSchedule tile : skinny_tiles(product))
    for (tile.splits = 1; tile.splits <= std::end(kSplits)[-1]; tile.splits *= 2)
      add_schedule(tile);
  if (is_for_skinny(analysis, product) && !all.empty()) return all;
  if (analysis.stages() == 0) {
    for (const Tile& tile : kTiles)
      for (const int splits : kSplits) add(tile, splits, 1);
    for (const Tile& tile : kWindowTiles)
      for (const int splits : kSplits)
        if (product.windows) add(tile, splits, 1);
    return all;
  }
  const auto columns = upper(analysis, product.n);
  for (const int rows : kNormRows) {
    for (const int across : kNormAcross) {
      if (!columns) break;
      const int n = static_cast<int>(ceil_div(ceil_div(*columns, across), 8) * 8);
      for (const int splits : kSplits) {
        add({rows, n, 128, 1, 1, 4, 3}, splits, across);
        if (n % 16 == 0) add({rows, n, 128, 1, 2, 2, 3}, splits, across);
        if (n % 32 == 0) add({rows, n, 64, 1, 4, 1, 4}, splits, across);
      }
    }
  }
  return all;
}

void require_size(int value, const std::string& schedule) {
  if (value < 1 || value > 4096)
    throw Error(ErrorCode::kUsage, fmt::format("{} in the schedule '{}'", value, schedule));
}

ProductSchedule parse(const std::string& text) {
  ProductSchedule s;
  s.skinny = text.starts_with("skinny ");
  if (std::sscanf(text.c_str(), "%*[a-z] %dx%dx%d groups=%d stages=%d splits=%d across=%d", &s.m,
                  &s.n, &s.k, &s.groups, &s.stages, &s.splits, &s.across) == 7) {
    for (const int value : {s.m, s.n, s.k, s.groups, s.stages, s.splits, s.across})
      require_size(value, text);
    return s;
  }
  char passes[8] = {};
  if (std::sscanf(text.c_str(),
                  "product %dx%dx%d turns=%d groups=%d stages=%d blocks=%d passes=%7[a-z] "
                  "splits=%d across=%d",
                  &s.m, &s.n, &s.k, &s.turns, &s.groups, &s.stages, &s.blocks, passes, &s.splits,
                  &s.across) == 10) {
    s.spread = std::string_view(passes) == "spread";
    if (!s.spread && std::string_view(passes) != "rolled")
      throw Error(
          ErrorCode::kUsage,
          fmt::format("passes are spread or rolled, not '{}', in the schedule '{}'", passes, text));
    for (const int value :
         {s.m, s.n, s.k, s.turns, s.groups, s.stages, s.blocks, s.splits, s.across})
      require_size(value, text);
    return s;
  }
  s.groups = s.turns = 0;
  if (std::sscanf(text.c_str(),
                  "skinny %dx%dx%d warps=%dx%dx%d stages=%d digits=%d splits=%d across=%d", &s.m,
                  &s.n, &s.k, &s.warps_m, &s.warps_n, &s.warps_k, &s.stages, &s.digits, &s.splits,
                  &s.across) == 10) {
    for (const int value :
         {s.m, s.n, s.k, s.warps_m, s.warps_n, s.warps_k, s.stages, s.digits, s.splits, s.across})
      require_size(value, text);
    return s;
  }
  s.digits = 0;
  if (std::sscanf(text.c_str(), "%*[a-z] %dx%dx%d warps=%dx%dx%d stages=%d splits=%d across=%d",
                  &s.m, &s.n, &s.k, &s.warps_m, &s.warps_n, &s.warps_k, &s.stages, &s.splits,
                  &s.across) != 9)
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' is no schedule of a product: it has the form 'product 64x32x64 "
                            "warps=2x2x1 stages=4 splits=1 across=1'",
                            text));
  for (const int value :
       {s.m, s.n, s.k, s.warps_m, s.warps_n, s.warps_k, s.stages, s.splits, s.across})
    require_size(value, text);
  return s;
}

}  // namespace

int ProductSchedule::shared_bytes(const ProductProgram& product) const {
  if (groups > 0)
    return skinny ? packed_group_shared_bytes(product, *this) : group_shared_bytes(*this);
  if (skinny) return skinny_shared_bytes(product, *this);
  const auto odd_units = [](int elements) { return (elements / 8 | 1) * 8; };
  const int rows_b = product.rows_are_k ? k : n, columns_b = product.rows_are_k ? n : k;
  const int stage = m * odd_units(k) + rows_b * odd_units(columns_b);
  return std::max(stages * stage * 2, warps_k * m * (n + 8) * 4);
}

std::string ProductSchedule::to_string() const {
  const std::string tile = groups > 0 ? fmt::format("groups={}", groups)
                                      : fmt::format("warps={}x{}x{}", warps_m, warps_n, warps_k);
  return fmt::format(
      "{} {}x{}x{} {}{} stages={}{} splits={} across={} copies={},{} vector={} lanes={} "
      "unroll={}{}",
      skinny ? "skinny" : "product", m, n, k, turns > 0 ? fmt::format("turns={} ", turns) : "",
      tile, stages,
      turns > 0    ? fmt::format(" blocks={} passes={}", blocks, spread ? "spread" : "rolled")
      : digits > 0 ? fmt::format(" digits={}", digits)
                   : "",
      splits, across, vector_a, vector_b, body.vector, lanes(), body.unroll, early ? " early" : "");
}

int ProductSchedule::blocks_at_once() const {
  // Without a word ptxas takes 64 registers for digits, and spills: it is given all that there are.
  if (digits > 0) return 1;
  const int together = groups == 0 || turns > 0 ? 0
                       : skinny                 ? packed_group_blocks_at_once(*this)
                                                : group_blocks_at_once(*this);
  return together > 1 ? together : 0;
}

std::vector<plan::fb::Condition> product_limits(const ProductProgram& product, ExprTable& exprs) {
  if (product.weights && product.by_groups) {
    std::vector<plan::fb::Condition> conditions;
    const auto least = ir::lower_bound(product.m, exprs.ranges());
    const auto most = ir::upper_bound(product.m, exprs.ranges());
    if (!least || *least < kLeastPackedRows)
      conditions.emplace_back(exprs.intern(Dim(kLeastPackedRows) - product.m), 1, 0);
    if (!most || *most > kMostPackedRows)
      conditions.emplace_back(exprs.intern(product.m), 1, kMostPackedRows);
    return conditions;
  }
  if (product.weights) return {};  // the library has no such product
  if (product.by_groups) return {};
  Dim flops = Dim(2) * product.m * product.n * product.k;
  for (const Dim& batch : product.batch) flops = flops * batch;
  const auto limit = static_cast<std::int64_t>(kMostFlops);
  if (flops.is_constant() && flops.value() <= limit) return {};
  return {plan::fb::Condition(exprs.intern(flops), 1, limit)};
}

bool can_schedule_product(const ProgramAnalysis& analysis, const ProductProgram& product,
                          std::string& reason) {
  const auto least_rows = ir::lower_bound(product.m, analysis.exprs().ranges());
  if (analysis.stages() > 0 && least_rows && *least_rows > kMostNormRows) {
    reason = fmt::format("more than {} rows", kMostNormRows);
    return false;
  }
  if (product.weights && !can_be_skinny(product, reason)) return false;
  if (product.by_groups && (product.rows || (product.parts > 1 && !product.weights))) {
    reason = "warpgroups neither multiply parts nor make rows";
    return false;
  }
  if (product.by_groups && !(product.weights ? can_use_packed_groups(analysis, product, reason)
                                             : can_use_groups(analysis, product, reason)))
    return false;
  if (!candidates(analysis, product).empty()) return true;
  reason = analysis.stages() > 0 && !product.weights
               ? fmt::format("rows of {} elements do not fit a cluster", product.n.to_string())
               : std::string("no tile takes the product");
  return false;
}

std::vector<ProductSchedule> choose_products(const ProgramAnalysis& analysis,
                                             const ProductProgram& product,
                                             const std::string& forced) {
  if (!forced.empty()) {
    ProductSchedule schedule = parse(forced);
    if ((schedule.groups > 0) != product.by_groups || !complete(analysis, product, schedule))
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the schedule '{}' does not take kernel '{}'", forced,
                              analysis.request().name));
    return {std::move(schedule)};
  }
  const std::vector<ProductSchedule> all = candidates(analysis, product);
  if (all.empty())
    throw Error(ErrorCode::kUnsupported, fmt::format("no schedule takes the product of kernel '{}'",
                                                     analysis.request().name));
  const auto most = upper(analysis, product.m);
  const auto least_rows = ir::lower_bound(product.m, analysis.exprs().ranges());
  const auto best_for = [&](std::int64_t m, bool any_gpu) {
    const ProductSchedule* best = nullptr;
    double least = 0;
    for (const ProductSchedule& s : all) {
      if (any_gpu && s.cluster() > 1) continue;
      const double time = estimate(analysis, product, s, m);
      if (best && time >= least) continue;
      best = &s;
      least = time;
    }
    return best;
  };
  std::vector<ProductSchedule> chosen;
  const auto add = [&](const ProductSchedule& schedule, std::optional<std::int64_t> rows) {
    if (!chosen.empty() && chosen.back().to_string() == schedule.to_string()) chosen.pop_back();
    chosen.push_back(schedule);
    if (rows) chosen.back().conditions.emplace_back(analysis.exprs().intern(product.m), 1, *rows);
  };
  const bool norm = analysis.stages() > 0;
  const std::span<const std::int64_t> steps =
      product.weights && product.by_groups ? std::span<const std::int64_t>(kPackedGroupRows)
      : is_for_skinny(analysis, product)   ? std::span<const std::int64_t>(kSkinnyRows)
                                           : kRows;
  for (const std::int64_t rows : steps) {
    const bool last = rows == steps.back() || (most && *most <= rows);
    if (norm && rows > kMostNormRows) break;
    if (!last && least_rows && *least_rows > rows) continue;
    // Windows are many rows, of one image already; their number, where known, is what counts.
    const std::int64_t count = product.windows && product.m.is_constant() ? product.m.value()
                               : most                                     ? std::min(*most, rows)
                                                                          : rows;
    const ProductSchedule* best = best_for(count, false);
    if (!last || norm || best->cluster() == 1 || product.by_groups) {
      add(*best, last && !norm ? std::nullopt : std::optional(rows));
      if (last) break;
      continue;
    }
    // A product of few rows keeps its clusters, and has a kernel for GPUs without.
    if (rows < steps.back() || product.windows) add(*best, std::max(count, rows));
    if (const ProductSchedule* plain = best_for(product.windows ? count : rows, true))
      add(*plain, std::nullopt);
    break;
  }
  return chosen;
}

std::vector<ProductSchedule> all_product_schedules(const ProgramAnalysis& analysis,
                                                   const ProductProgram& product) {
  std::vector<ProductSchedule> all = candidates(analysis, product);
  const std::int64_t rows = typical(analysis, product.m);
  const auto time = [&](const ProductSchedule& s) { return estimate(analysis, product, s, rows); };
  std::stable_sort(all.begin(), all.end(),
                   [&](const auto& a, const auto& b) { return time(a) < time(b); });
  return all;
}

std::string tile_header(const ProductProgram& product, const ProductSchedule& schedule) {
  if (schedule.turns > 0) return "product_turns.cuh";
  if (schedule.groups > 0) return schedule.skinny ? "packed_groups.cuh" : "product_groups.cuh";
  if (schedule.skinny) return schedule.digits > 0 ? "skinny_digits.cuh" : "skinny.cuh";
  return product.windows ? "windows.cuh" : "product.cuh";
}

std::vector<ProductSchedule> product_candidates(const ProgramAnalysis& analysis,
                                                const ProductProgram& product,
                                                const ProductSchedule& rule, bool clusters) {
  Neighbours<ProductSchedule> found(rule);
  double place = 0;
  for (ProductSchedule& schedule : all_product_schedules(analysis, product)) {
    if (schedule.cluster() > 1 && !clusters) continue;
    if (!implies_all(rule.conditions, schedule.conditions)) continue;
    schedule.early = rule.early;
    found.add(std::move(schedule), ++place);
  }
  return found.take();
}

}  // namespace sinter::codegen
