// SPDX-License-Identifier: Apache-2.0
// Windows with channels last: the rows of a thread, and the values that their windows share.
#include "codegen/families/loops/window/window_schedule.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "codegen/families/loops/schedule_parts.h"
#include "codegen/families/loops/window/overlap.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr int kThreads = 64;  // of a block: small blocks balance evenly
constexpr std::int64_t kLongestRow = 256, kWidestWindow = 16;
constexpr std::int64_t kFewestThreads = 64;  // on a multiprocessor; with fewer, threads should
                                             // share rows
constexpr double kWords = 110;               // registers of a thread
constexpr std::int64_t kUnrolled = 640;      // elements of a thread up to which all loops are
                                             // unrolled

/// The dimensions along which most loads are shared.
Overlap find_overlap(const ProgramAnalysis& analysis) {
  Overlap best;
  best.shared.assign(analysis.instr_count(), false);
  best.window_dim = analysis.last_dim(analysis.inner_dims());
  const int channels = analysis.last_dim(analysis.outer_dims());
  const std::vector<std::size_t> loads = analysis.live(InstrKind::Load);
  std::int64_t most = 0;
  for (int d = static_cast<int>(analysis.outer_rank()); d-- > 0;) {
    if ((analysis.outer_dims() & dim_bit(d)) == 0 || d == channels || !separates_rows(analysis, d))
      continue;
    if (best.tile_dim < 0) best.tile_dim = d;
    for (const std::size_t i : loads) {
      const std::uint32_t access = analysis.instr(i).access;
      for (int e = static_cast<int>(analysis.rank());
           e-- > static_cast<int>(analysis.outer_rank());) {
        const ir::Dim row = analysis.stride(access, d), element = analysis.stride(access, e);
        if ((analysis.inner_dims() & dim_bit(e)) == 0 || !row.is_constant() ||
            !element.is_constant() || row.value() <= 0 || element.value() <= 0)
          continue;
        Overlap overlap;
        overlap.tile_dim = d;
        overlap.window_dim = e;
        if (analysis.extent(e).value() > kWidestWindow) continue;
        const std::int64_t divisor = std::gcd(row.value(), element.value());
        overlap.row_step = row.value() / divisor;
        overlap.element_step = element.value() / divisor;
        if (overlap.row_step != 1 && overlap.element_step != 1) continue;
        overlap.shared = shared_values(analysis, overlap);
        const auto count =
            std::ranges::count_if(loads, [&](std::size_t load) { return overlap.shared[load]; });
        if (count > most) {
          most = count;
          best = overlap;
        }
      }
    }
  }
  return best;
}

struct Estimate {
  double instructions = 0;  // of a thread
  double words = 0;         // registers of a thread
};

/// Instructions of a thread for `tile` rows of vectors: loads with guards and conversions, and
/// operations for each element. A load takes an issue slot that four schedulers share.
Estimate estimate(const ProgramAnalysis& analysis, const Overlap& overlap, int vector, int tile) {
  const auto row = static_cast<double>(analysis.row_length().value());
  const std::int64_t window = analysis.extent(overlap.window_dim).value();
  const auto slots = static_cast<double>(overlap.slots(tile, window));
  Estimate sum;
  for (const std::size_t i : analysis.live()) {
    const ValueInfo& info = analysis.value(i);
    const auto& instr = analysis.instr(i);
    if ((info.stage > 0 && instr.kind != InstrKind::Reduce)) continue;
    const bool reduce = instr.kind == InstrKind::Reduce;
    if (!reduce && !analysis.in_row(i)) continue;
    const bool shared = overlap.shared[i] && tile > 1;
    const double times = shared ? slots * row / static_cast<double>(window)
                         : reduce || (info.dims & dim_bit(overlap.tile_dim)) != 0 ? row * tile
                                                                                  : row;
    if (reduce) sum.words += static_cast<double>(vector) * tile;
    double each = reduce || instr.kind == InstrKind::Op ? vector : 0;
    if (instr.kind == InstrKind::Load) {
      const auto& access = analysis.access(instr.access);
      each = 6 + vector + 2.0 * static_cast<double>(access.guards.size());
      sum.words += (shared ? slots : 1) * vector;
    }
    sum.instructions += each * times;
  }
  return sum;
}

ir::Dim count_threads(const ProgramAnalysis& analysis, const Overlap& overlap, int vector,
                      int tile) {
  ir::Dim threads = 1;
  const int channels = analysis.last_dim(analysis.outer_dims());
  for (std::size_t d = 0; d < analysis.outer_rank(); ++d) {
    const ir::Dim& extent = analysis.extent(d);
    const int each = static_cast<int>(d) == channels           ? vector
                     : static_cast<int>(d) == overlap.tile_dim ? tile
                                                               : 1;
    threads = threads * ir::ceil_div(extent, each, analysis.exprs().ranges());
  }
  return threads;
}

/// The schedule of `vectors` with tiles of `tile` rows.
Schedule tiled(const ProgramAnalysis& analysis, const VectorPlan& vectors, const Overlap& overlap,
               int tile, int threads) {
  const std::int64_t row = analysis.row_length().value();
  WindowParameters own{tile, row * tile * vectors.vector > kUnrolled, overlap};
  if (tile == 1) own.overlap.shared.assign(analysis.instr_count(), false);
  Schedule schedule = with_vectors(vectors, std::move(own), 0, threads);
  if (tile > 1) {
    const ir::Dim& extent = analysis.extent(overlap.tile_dim);
    if (!extent.is_constant())
      schedule.conditions.emplace_back(analysis.exprs().intern(extent),
                                       static_cast<std::uint64_t>(tile), INT64_MAX);
  }
  return schedule;
}

/// The size assumed: the minimum, as small batches lack threads.
std::int64_t least(const ProgramAnalysis& analysis, const ir::Dim& dim) {
  if (dim.is_constant()) return dim.value();
  return std::max<std::int64_t>(
      analysis.exprs().lower_bound(analysis.exprs().intern(dim)).value_or(1), 1);
}

bool can_tile(const ProgramAnalysis& analysis, const Overlap& overlap, int tile) {
  if (tile == 1) return true;
  if (overlap.tile_dim < 0) return false;
  const ir::Dim& extent = analysis.extent(overlap.tile_dim);
  return !extent.is_constant() || extent.value() >= tile;
}

bool takes_window(const ProgramAnalysis& analysis) {
  if (analysis.stages() != 1 || analysis.scans() || analysis.scatters()) return false;
  const ir::Dim row = analysis.row_length();
  if (!row.is_constant() || row.value() < 1 || row.value() > kLongestRow) return false;
  const int channels = analysis.last_dim(analysis.outer_dims());
  if (channels < 0 || analysis.inner_dims() == 0 || !separates_rows(analysis, channels))
    return false;
  const int window = analysis.last_dim(analysis.inner_dims());
  if (analysis.extent(window).value() > kWidestWindow) return false;
  const auto rows = upper(analysis, analysis.row_count());
  if (!rows || *rows > INT32_MAX) return false;
  for (const std::size_t i : analysis.live()) {
    const ValueInfo& info = analysis.value(i);
    const InstrKind kind = analysis.instr(i).kind;
    const bool by_element = analysis.in_row(i);
    if (by_element && (kind == InstrKind::Store || info.stage > 0)) return false;
    if (kind == InstrKind::Load && info.stage > 0)
      return false;  // an index that a reduction computes
  }
  return true;
}

std::vector<Schedule> choose_window(const ProgramAnalysis& analysis) {
  const Overlap overlap = find_overlap(analysis);
  const int channels = analysis.last_dim(analysis.outer_dims());
  std::optional<Schedule> best;
  double shortest = 0;
  for (const int most : {8, 4, 2, 1}) {
    const VectorPlan vectors = plan_vectors(analysis, channels, most);
    if (vectors.vector != most) continue;
    for (const int tile : {1, 2, 4, 7, 8}) {
      if (!can_tile(analysis, overlap, tile)) continue;
      const Estimate thread = estimate(analysis, overlap, most, tile);
      if (thread.words > kWords && tile * most > 1) continue;
      const std::int64_t threads = least(analysis, count_threads(analysis, overlap, most, tile));
      // A multiprocessor needs two warps for each of its four schedulers to hide latency.
      const double warps =
          static_cast<double>(threads) / (32.0 * 4 * analysis.device().multiprocessors);
      const double time = thread.instructions * std::max(warps, 2.0);
      if (best && time >= shortest) continue;
      shortest = time;
      best = tiled(analysis, vectors, overlap, tile, kThreads);
    }
  }
  std::vector<Schedule> schedules = {*best};
  if (!best->conditions.empty())
    schedules.push_back(tiled(analysis, no_vectors(analysis), overlap, 1, kThreads));
  return schedules;
}

Schedule complete_window(const ProgramAnalysis& analysis, const Schedule& requested,
                         const std::string&) {
  const int vector = requested.vector, tile = requested.as<WindowParameters>().tile;
  const auto refuse = [&](const std::string& why) {
    refuse_schedule(analysis, fmt::format("window vector={} tile={}", vector, tile), why);
  };
  if (!takes_window(analysis)) refuse("it has no short rows side by side");
  const Overlap overlap = find_overlap(analysis);
  if (!can_tile(analysis, overlap, tile)) refuse("there are no tiles of that many rows");
  const VectorPlan vectors =
      vector > 1 ? plan_vectors(analysis, analysis.last_dim(analysis.outer_dims()), vector)
                 : no_vectors(analysis);
  if (vectors.vector != vector) refuse(fmt::format("its vectors are {} long", vectors.vector));
  Schedule schedule = tiled(analysis, vectors, overlap, tile, requested.threads());
  if (!schedule.conditions.empty()) refuse("its sizes are not constant");
  return schedule;
}

void search_window(CandidateSearch& search) {
  const auto* rule = std::get_if<WindowParameters>(&search.rule.kind);
  for (const int vector : {8, 4, 2, 1})
    for (const int tile : {1, 2, 4, 7, 8})
      for (const int threads : {32, 64, 128})
        search.add_completed(complete_window, Schedule{WindowParameters{tile}, vector, 1, threads},
                             steps_between(vector, rule ? search.rule.vector : 4) +
                                 steps_between(tile, rule ? rule->tile : 2) +
                                 steps_between(threads, 64));
}

}  // namespace

bool fills_windows(const ProgramAnalysis& analysis) {
  return least(analysis, analysis.row_count()) >=
         kFewestThreads * analysis.device().multiprocessors;
}

const LoopSchedule kWindowSchedule = {true,          takes_window, choose_window,
                                      search_window, map_window,   complete_window};

}  // namespace sinter::codegen
