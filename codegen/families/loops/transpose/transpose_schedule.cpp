// Tiles through shared memory: which loads need them, and how large they are.
#include "codegen/families/loops/transpose/transpose_schedule.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/loops/pointwise/pointwise_schedule.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/families/loops/schedule_text.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr int kThreads = 256;
constexpr int kSharedBytes = 40 * 1024;  // static, of all tiles of a block
// Below so many elements, a warp's loads share cache lines anyway: of a dimension, and of a tile.
constexpr std::int64_t kLeastExtent = 8, kLeastTile = 1024;
// Of a large tile: elements along the stores, and bytes of a run of loads.
constexpr int kSide = 64, kRunBytes = 256;
constexpr std::int64_t kLarge = 1 << 20;  // where no bound is known

std::int64_t extent_of(const ProgramAnalysis& analysis, int dim) {
  return upper(analysis, analysis.extent(static_cast<std::size_t>(dim))).value_or(kLarge);
}

bool has_stride(const ProgramAnalysis& analysis, std::uint32_t access, int dim,
                const ir::Dim& stride) {
  return analysis.exprs().dim(analysis.access(access).strides[static_cast<std::size_t>(dim)]) ==
         stride;
}

/// Whether the place of a load or store along `from` and `to` follows from its strides alone.
bool can_turn(const ProgramAnalysis& analysis, std::uint32_t a, int from, int to) {
  const DimSet tile =
      dim_bit(static_cast<std::size_t>(from)) | dim_bit(static_cast<std::size_t>(to));
  if ((analysis.access_dims(a) & tile) != tile || !has_stride(analysis, a, from, 1) ||
      has_stride(analysis, a, to, 1) || has_stride(analysis, a, to, 0))
    return false;
  const auto& access = analysis.access(a);
  return std::all_of(access.gathers.begin(), access.gathers.end(),
                     [&](const auto& gather) {
                       return (analysis.value(gather.value()).dims & tile) == 0;
                     }) &&
         std::all_of(access.nonaffine.begin(), access.nonaffine.end(),
                     [&](std::uint32_t node) { return (analysis.node_dims(node) & tile) == 0; });
}

/// The turn that most accesses need, without sizes.
std::optional<Turn> find_turn(const ProgramAnalysis& analysis) {
  if (!takes_pointwise(analysis) || analysis.scatters()) return std::nullopt;
  Turn best;
  best.to = analysis.last_dim(analysis.outer_dims());
  if (best.to < 0 || extent_of(analysis, best.to) < kLeastExtent) return std::nullopt;
  std::ptrdiff_t most = 0;
  for (int from = 0; from < static_cast<int>(analysis.rank()); ++from) {
    const std::int64_t across = extent_of(analysis, from);
    if (from == best.to || across < kLeastExtent ||
        across * extent_of(analysis, best.to) < kLeastTile)
      continue;
    std::vector<bool> values(analysis.instr_count(), false);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = plan::is_memory(analysis.instr(i).kind) && analysis.value(i).live &&
                  can_turn(analysis, analysis.instr(i).access, from, best.to);
    const std::ptrdiff_t count = std::count(values.begin(), values.end(), true);
    if (count <= most) continue;
    most = count;
    best.from = from;
    best.values = std::move(values);
  }
  return most > 0 ? std::optional(best) : std::nullopt;
}

std::vector<bool> other_values(const std::vector<bool>& values) {
  std::vector<bool> others = values;
  others.flip();
  return others;
}

/// Vectors along `turn.from` that all its accesses move whole.
VectorPlan plan_turned(const ProgramAnalysis& analysis, const Turn& turn, int most) {
  for (; most > 1; most /= 2) {
    VectorPlan plan = plan_vectors(analysis, turn.from, most, false, &turn.values);
    bool whole = plan.vector > 1;
    for (std::size_t i = 0; whole && i < turn.values.size(); ++i)
      whole = !turn.values[i] || plan.vector_access[analysis.instr(i).access];
    if (whole) return plan;
  }
  return no_vectors(analysis);
}

std::vector<int> turned_sizes(const ProgramAnalysis& analysis, const Turn& turn) {
  std::vector<int> sizes;
  for (std::size_t i = 0; i < turn.values.size(); ++i)
    if (turn.values[i])
      sizes.push_back(static_cast<int>(
          size_of(analysis.buffer_type(analysis.access(analysis.instr(i).access).buffer))));
  return sizes;
}

int widest_turned(const ProgramAnalysis& analysis, const Turn& turn) {
  const std::vector<int> sizes = turned_sizes(analysis, turn);
  return *std::max_element(sizes.begin(), sizes.end());
}

/// Bytes that an element of each tile takes, all tiles of a block together.
int bytes_of_tiles(const ProgramAnalysis& analysis, const Turn& turn) {
  const std::vector<int> sizes = turned_sizes(analysis, turn);
  return std::accumulate(sizes.begin(), sizes.end(), 0);
}

/// As far as sizes are unknown they count as large. Tiles are longer where their other side is
/// short, smaller while they would leave multiprocessors idle.
void choose_tile(const ProgramAnalysis& analysis, Schedule& schedule) {
  Turn& turn = schedule.turn;
  const std::int64_t along = extent_of(analysis, turn.to), across = extent_of(analysis, turn.from);
  const auto fit = [](std::int64_t extent, int most) {
    return extent >= most ? most : power_of_two_up(extent);
  };
  const int area =
      kSide * std::clamp(kRunBytes / widest_turned(analysis, turn), kSide / 2, 2 * kSide);
  turn.width = std::max(fit(along, kSide), schedule.vector);
  turn.height = std::max(fit(across, std::min(area / turn.width, 4 * kSide)), turn.vector);
  turn.width = std::max(fit(along, std::min(area / turn.height, 4 * kSide)), schedule.vector);
  const std::int64_t elements =
      upper(analysis, analysis.size_of_dims(analysis.outer_dims())).value_or(INT64_MAX);
  const auto too_large = [&] {
    const int size = turn.width * turn.height;
    return size * bytes_of_tiles(analysis, turn) > kSharedBytes ||
           (size > 1024 && elements / size < 2 * analysis.device().multiprocessors) ||
           size / std::min(schedule.vector, turn.vector) > kThreads * 8;
  };
  while (turn.width * turn.height > 256 && too_large())
    (turn.width >= turn.height ? turn.width : turn.height) /= 2;
  turn.width = std::max(turn.width, schedule.vector);
  turn.height = std::max(turn.height, turn.vector);
}

void choose_threads(Schedule& schedule, int most) {
  const Turn& turn = schedule.turn;
  schedule.threads_x =
      std::min(most, turn.width * turn.height / std::max(schedule.vector, turn.vector));
  schedule.unroll = turn.width * turn.height / schedule.vector / schedule.threads_x;
}

Schedule with_turn(const ProgramAnalysis& analysis, const Turn& turn, const VectorPlan& along,
                   const VectorPlan& across) {
  Schedule schedule = with_vectors(along, Family::kTranspose);
  schedule.turn = turn;
  schedule.turn.vector = across.vector;
  for (const auto& condition : across.conditions)
    if (std::none_of(along.conditions.begin(), along.conditions.end(), [&](const auto& other) {
          return other.expression() == condition.expression() &&
                 other.divisor() >= condition.divisor();
        }))
      schedule.conditions.push_back(condition);
  for (std::size_t i = 0; i < turn.values.size(); ++i)
    if (turn.values[i]) schedule.vector_access[analysis.instr(i).access] = false;
  return schedule;
}

}  // namespace

bool takes_transpose(const ProgramAnalysis& analysis) { return find_turn(analysis).has_value(); }

std::vector<Schedule> choose_transpose(const ProgramAnalysis& analysis) {
  const Turn turn = find_turn(analysis).value();
  const std::vector<bool> others = other_values(turn.values);
  const VectorPlan none = no_vectors(analysis);
  std::vector<Schedule> schedules = {with_turn(analysis, turn,
                                               plan_vectors(analysis, turn.to, 8, false, &others),
                                               plan_turned(analysis, turn, 8))};
  if (!schedules[0].conditions.empty()) schedules.push_back(with_turn(analysis, turn, none, none));
  for (Schedule& schedule : schedules) {
    choose_tile(analysis, schedule);
    choose_threads(schedule, kThreads);
  }
  return schedules;
}

Schedule transpose_schedule(const ProgramAnalysis& analysis, const Schedule& requested) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage, fmt::format("schedule 'transpose' for kernel '{}': {}",
                                               analysis.request().name, why));
  };
  const std::optional<Turn> turn = find_turn(analysis);
  if (!turn) refuse("nothing that it loads lies across what it stores");
  const std::vector<bool> others = other_values(turn->values);
  Schedule schedule =
      with_turn(analysis, *turn, plan_vectors(analysis, turn->to, requested.vector, false, &others),
                plan_turned(analysis, *turn, requested.turn.vector));
  if (schedule.vector != requested.vector || schedule.turn.vector != requested.turn.vector ||
      !schedule.conditions.empty())
    refuse(fmt::format("its vectors are {}x{} long", schedule.vector, schedule.turn.vector));
  const auto is_power = [](int value) { return power_of_two_up(value) == value; };
  const Turn& tile = requested.turn;
  if (!is_power(tile.width) || !is_power(tile.height) || !is_power(requested.threads()) ||
      tile.width < requested.vector || tile.height < tile.vector || requested.threads() > 1024 ||
      tile.width * tile.height > (1 << 16) ||
      tile.width * tile.height * bytes_of_tiles(analysis, *turn) > kSharedBytes)
    refuse(fmt::format("tile={}x{} does not fit", tile.width, tile.height));
  schedule.turn.width = tile.width;
  schedule.turn.height = tile.height;
  choose_threads(schedule, requested.threads());
  return schedule;
}

namespace {

constexpr int kMostVectors = 16;  // of a tile, for each thread

}  // namespace

void search_transpose(CandidateSearch& search) {
  const bool same = search.rule.family == Family::kTranspose;
  const Schedule usual = same ? search.rule : choose_transpose(search.analysis)[0];
  const auto near = [](int value) { return std::vector<int>{value, value / 2, value * 2}; };
  Schedule requested = usual;
  requested.threads_y = 1;
  for (requested.vector = usual.vector;
       2 * requested.vector >= usual.vector && requested.vector >= 1; requested.vector /= 2)
    for (const int turned : {usual.turn.vector, usual.turn.vector / 2})
      for (const int width : near(usual.turn.width))
        for (const int height : near(usual.turn.height))
          for (const int threads : {128, 256, 512}) try {
              const int shortest = std::min(requested.vector, turned);
              if (shortest < 1 || width * height > kMostVectors * threads * shortest) continue;
              requested.turn.vector = turned;
              requested.turn.width = width;
              requested.turn.height = height;
              requested.threads_x = threads;
              Schedule s = transpose_schedule(search.analysis, requested);
              const double distance = steps_between(s.vector, usual.vector) +
                                      steps_between(turned, usual.turn.vector) +
                                      steps_between(width, usual.turn.width) +
                                      steps_between(height, usual.turn.height) +
                                      steps_between(threads, usual.threads());
              search.found.add(std::move(s), distance + (same ? 0 : 1));
            } catch (const Error& error) {
              if (error.code() != ErrorCode::kUsage) throw;  // it takes no such tiles
            }
  if (!same) return;
  const Schedule plain = choose_pointwise(search.analysis).back();
  if (plain.conditions.empty()) search.found.add(plain, 2);
}

namespace {

std::string write_transpose(const Schedule& schedule) {
  return fmt::format(" tile={}x{}", schedule.turn.width, schedule.turn.height);
}

bool read_transpose(Schedule& requested, std::string_view key, int first, int second) {
  if (key == "vector")
    requested.vector = first, requested.turn.vector = second;
  else if (key == "tile")
    requested.turn.width = first, requested.turn.height = second;
  else
    return false;
  return true;
}

Schedule complete_transpose(const ProgramAnalysis& analysis, const Schedule& requested,
                            const std::string&) {
  return transpose_schedule(analysis, requested);
}

}  // namespace

const LoopSchedule kTransposeSchedule = {
    Family::kTranspose, "transpose",   false,           takes_transpose, choose_transpose,
    search_transpose,   map_transpose, write_transpose, read_transpose,  complete_transpose};

}  // namespace sinter::codegen
