// SPDX-License-Identifier: Apache-2.0
// Transposes through shared memory: the loads that need them, and the tile's size.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "codegen/families/loops/loop_schedule.h"
#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

namespace {

constexpr int kThreads = 256;
constexpr int kSharedBytes = 40 * 1024;  // static; for all tiles of a block
// Below these counts of elements (of a dimension, of a tile) a warp's loads share cache lines
// anyway.
constexpr std::int64_t kLeastExtent = 8, kLeastTile = 1024;
// Of a large tile: elements along the stores, and bytes of a contiguous load.
constexpr int kSide = 64, kRunBytes = 256;
constexpr std::int64_t kLarge = 1 << 20;  // assumed if no bound is known
// Rows of fewer elements than kLeastExtent, such as an image's colours, are stored from a tile
// where there are that many elements: loads are then whole vectors.
constexpr std::int64_t kLeastRow = 3, kManyElements = 1 << 20;

std::int64_t extent_of(const ProgramAnalysis& analysis, int dim) {
  return upper(analysis, analysis.extent(dim)).value_or(kLarge);
}

/// Whether strides alone determine the address of an access along both dimensions.
bool can_transpose(const ProgramAnalysis& analysis, std::uint32_t a, int load_dim, int store_dim) {
  const DimSet tile = dim_bit(load_dim) | dim_bit(store_dim);
  const ir::Dim across = analysis.stride(a, store_dim);
  if ((analysis.access_dims(a) & tile) != tile || analysis.stride(a, load_dim) != ir::Dim(1) ||
      across == ir::Dim(1) || across == ir::Dim(0))
    return false;
  const auto& access = analysis.access(a);
  return std::all_of(access.gathers.begin(), access.gathers.end(),
                     [&](const auto& gather) {
                       return (analysis.value(gather.value()).dims & tile) == 0;
                     }) &&
         std::all_of(access.nonaffine.begin(), access.nonaffine.end(),
                     [&](std::uint32_t node) { return (analysis.node_dims(node) & tile) == 0; });
}

/// The dimensions that suit most accesses, without tile sizes.
std::optional<TileTranspose> find_transpose(const ProgramAnalysis& analysis) {
  if (!kPointwiseSchedule.takes(analysis) || analysis.scatters()) return std::nullopt;
  TileTranspose best;
  best.store_dim = analysis.last_dim(analysis.outer_dims());
  if (best.store_dim < 0) return std::nullopt;
  const std::int64_t along = extent_of(analysis, best.store_dim);
  const ir::Dim elements = analysis.row_count();
  const bool is_short = along < kLeastExtent;
  if (is_short &&
      (along < kLeastRow || !elements.is_constant() || elements.value() < kManyElements))
    return std::nullopt;
  std::ptrdiff_t most = 0;
  for (int load_dim = 0; load_dim < static_cast<int>(analysis.rank()); ++load_dim) {
    const std::int64_t across = extent_of(analysis, load_dim);
    if (load_dim == best.store_dim || across < kLeastExtent || across * along < kLeastTile)
      continue;
    std::vector<bool> values(analysis.instr_count(), false);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = plan::is_memory(analysis.instr(i).kind) && analysis.value(i).live &&
                  can_transpose(analysis, analysis.instr(i).access, load_dim, best.store_dim);
    const std::ptrdiff_t count = std::count(values.begin(), values.end(), true);
    if (count <= most) continue;
    most = count;
    best.load_dim = load_dim;
    best.values = std::move(values);
  }
  return most > 0 ? std::optional(best) : std::nullopt;
}

/// Vectors of all other accesses, along `tiles.store_dim`.
VectorPlan plan_stores(const ProgramAnalysis& analysis, const TileTranspose& tiles, int most) {
  std::vector<bool> others = tiles.values;
  others.flip();
  return plan_vectors(analysis, tiles.store_dim, most, false, &others);
}

/// Vectors along `tiles.load_dim`, whole for all of its accesses.
VectorPlan plan_loads(const ProgramAnalysis& analysis, const TileTranspose& tiles, int most) {
  for (; most > 1; most /= 2) {
    VectorPlan plan = plan_vectors(analysis, tiles.load_dim, most, false, &tiles.values);
    bool whole = plan.vector > 1;
    for (std::size_t i = 0; whole && i < tiles.values.size(); ++i)
      whole = !tiles.values[i] || plan.vector_access[analysis.instr(i).access];
    if (whole) return plan;
  }
  return no_vectors(analysis);
}

/// Bytes of an element, for each tile.
std::vector<int> bytes_in_tiles(const ProgramAnalysis& analysis, const TileTranspose& tiles) {
  std::vector<int> sizes;
  for (std::size_t i = 0; i < tiles.values.size(); ++i)
    if (tiles.values[i]) sizes.push_back(static_cast<int>(analysis.memory_bytes(i)));
  return sizes;
}

/// Bytes of all tiles of a block.
int bytes_of_tiles(const ProgramAnalysis& analysis, const TileTranspose& tiles) {
  const std::vector<int> sizes = bytes_in_tiles(analysis, tiles);
  return tiles.width * tiles.height * std::accumulate(sizes.begin(), sizes.end(), 0);
}

/// Chooses the tile; unknown sizes count as large. Tiles are longer if their other side is short,
/// and smaller if multiprocessors would idle.
void choose_tile(const ProgramAnalysis& analysis, Schedule& schedule) {
  auto& tiles = schedule.as<TileTranspose>();
  int &width = tiles.width, &height = tiles.height;
  const int vector = schedule.vector, load_vector = tiles.load_vector;
  const std::int64_t along = extent_of(analysis, tiles.store_dim);
  const std::int64_t across = extent_of(analysis, tiles.load_dim);
  const auto fit = [](std::int64_t extent, int most) {
    return extent >= most ? most : power_of_two_up(extent);
  };
  const int widest = std::ranges::max(bytes_in_tiles(analysis, tiles));
  const int area = kSide * std::clamp(kRunBytes / widest, kSide / 2, 2 * kSide);
  width = std::max(fit(along, kSide), vector);
  height = std::max(fit(across, std::min(area / width, 4 * kSide)), load_vector);
  width = std::max(fit(along, std::min(area / height, 4 * kSide)), vector);
  const std::int64_t elements = upper(analysis, analysis.row_count()).value_or(INT64_MAX);
  const auto too_large = [&] {
    const int size = width * height;
    return bytes_of_tiles(analysis, tiles) > kSharedBytes ||
           (size > 1024 && elements / size < 2 * analysis.device().multiprocessors) ||
           size / std::min(vector, load_vector) > kThreads * 8;
  };
  while (width * height > 256 && too_large()) (width >= height ? width : height) /= 2;
  width = std::max(width, vector);
  height = std::max(height, load_vector);
}

void choose_threads(Schedule& schedule, int most) {
  const auto& tiles = schedule.as<TileTranspose>();
  const int size = tiles.width * tiles.height;
  schedule.threads_x = std::min(most, size / std::max(schedule.vector, tiles.load_vector));
  schedule.unroll = size / schedule.vector / schedule.threads_x;
}

Schedule with_tiles(const ProgramAnalysis& analysis, TileTranspose tiles, const VectorPlan& along,
                    const VectorPlan& across) {
  tiles.load_vector = across.vector;
  Schedule schedule = with_vectors(along, tiles);
  for (const auto& condition : across.conditions)
    if (std::none_of(along.conditions.begin(), along.conditions.end(), [&](const auto& other) {
          return other.expression() == condition.expression() &&
                 other.divisor() >= condition.divisor();
        }))
      schedule.conditions.push_back(condition);
  for (std::size_t i = 0; i < tiles.values.size(); ++i)
    if (tiles.values[i]) schedule.vector_access[analysis.instr(i).access] = false;
  return schedule;
}

bool takes_transpose(const ProgramAnalysis& analysis) {
  return find_transpose(analysis).has_value();
}

std::vector<Schedule> choose_transpose(const ProgramAnalysis& analysis) {
  const TileTranspose tiles = find_transpose(analysis).value();
  const VectorPlan none = no_vectors(analysis);
  std::vector<Schedule> schedules = {
      with_tiles(analysis, tiles, plan_stores(analysis, tiles, 8), plan_loads(analysis, tiles, 8))};
  if (!schedules[0].conditions.empty())
    schedules.push_back(with_tiles(analysis, tiles, none, none));
  for (Schedule& schedule : schedules) {
    choose_tile(analysis, schedule);
    choose_threads(schedule, kThreads);
  }
  return schedules;
}

/// Applies vectors, tile and threads of `requested`.
Schedule complete_transpose(const ProgramAnalysis& analysis, const Schedule& requested,
                            const std::string&) {
  const auto refuse = [&](const std::string& why) { refuse_schedule(analysis, "transpose", why); };
  const std::optional<TileTranspose> found = find_transpose(analysis);
  if (!found) refuse("nothing that it loads lies across what it stores");
  const auto& asked = requested.as<TileTranspose>();
  Schedule schedule = with_tiles(analysis, *found, plan_stores(analysis, *found, requested.vector),
                                 plan_loads(analysis, *found, asked.load_vector));
  auto& tiles = schedule.as<TileTranspose>();
  if (schedule.vector != requested.vector || tiles.load_vector != asked.load_vector ||
      !schedule.conditions.empty())
    refuse(fmt::format("its vectors are {}x{} long", schedule.vector, tiles.load_vector));
  tiles.width = asked.width;
  tiles.height = asked.height;
  const auto is_power = [](int value) { return power_of_two_up(value) == value; };
  if (!is_power(tiles.width) || !is_power(tiles.height) || !is_power(requested.threads()) ||
      tiles.width < schedule.vector || tiles.height < tiles.load_vector ||
      requested.threads() > 1024 || tiles.width * tiles.height > (1 << 16) ||
      bytes_of_tiles(analysis, tiles) > kSharedBytes)
    refuse(fmt::format("tile={}x{} does not fit", tiles.width, tiles.height));
  choose_threads(schedule, requested.threads());
  return schedule;
}

void search_transpose(CandidateSearch& search) {
  constexpr int kMostVectors = 16;  // of a tile, per thread
  const bool same = search.rule.is<TileTranspose>();
  const Schedule usual = same ? search.rule : choose_transpose(search.analysis)[0];
  const auto& rule = usual.as<TileTranspose>();
  const auto near = [](int value) { return std::vector<int>{value, value / 2, value * 2}; };
  Schedule requested = usual;
  auto& tiles = requested.as<TileTranspose>();
  requested.threads_y = 1;
  for (requested.vector = usual.vector;
       2 * requested.vector >= usual.vector && requested.vector >= 1; requested.vector /= 2)
    for (const int load_vector : {rule.load_vector, rule.load_vector / 2})
      for (const int width : near(rule.width))
        for (const int height : near(rule.height))
          for (const int threads : {128, 256, 512}) {
            const int shortest = std::min(requested.vector, load_vector);
            if (shortest < 1 || width * height > kMostVectors * threads * shortest) continue;
            tiles.load_vector = load_vector;
            tiles.width = width;
            tiles.height = height;
            requested.threads_x = threads;
            search.add_completed(complete_transpose, requested,
                                 steps_between(requested.vector, usual.vector) +
                                     steps_between(load_vector, rule.load_vector) +
                                     steps_between(width, rule.width) +
                                     steps_between(height, rule.height) +
                                     steps_between(threads, usual.threads()) + (same ? 0 : 1));
          }
  if (!same) return;
  const Schedule plain = kPointwiseSchedule.choose(search.analysis).back();
  if (plain.conditions.empty()) search.found.add(plain, 2);
}

}  // namespace

const LoopSchedule kTransposeSchedule = {
    false, takes_transpose, choose_transpose, search_transpose, map_transpose, complete_transpose};

}  // namespace sinter::codegen
