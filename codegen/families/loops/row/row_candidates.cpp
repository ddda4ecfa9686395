// SPDX-License-Identifier: Apache-2.0
// Candidates near the rule's row schedule: other vectors, threads and clusters; held or looped.
#include <algorithm>
#include <cmath>

#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/row/row_schedule.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr std::size_t kStaticShared = 40 * 1024;  // leaves room for reductions

class RowSearch {
 public:
  explicit RowSearch(CandidateSearch& search)
      : search_(search), rule_(search.rule.as<RowParameters>()) {}

  void run() {
    if (search_.analysis.combines()) return;  // one thread a row, to keep the order
    const auto longest = search_.longest_row();
    for (const VectorPlan& vectors : search_.vectors(rule_.tail)) {
      const Schedule s = with_vectors(vectors, RowParameters{.tail = vectors.tail});
      if (longest) held_rows(s, ceil_div(std::max<std::int64_t>(*longest, 1), s.vector));
      looped_rows(s);
    }
  }

 private:
  void held_rows(const Schedule& base, std::int64_t length) {
    if (rule_.tail) return;
    for (int cluster = 1; cluster <= (search_.clusters ? most_cluster(search_.analysis) : 1);
         cluster *= 2) {
      for (int lanes = 1; lanes <= 16 && cluster == 1; lanes *= 2)
        held_rows_of(base, lanes, ceil_div(length, lanes), cluster);
      for (int unroll = 1; unroll <= 16; ++unroll)
        held_rows_of(base, 32 * ceil_div(length, std::int64_t{32} * unroll * cluster), unroll,
                     cluster);
    }
  }

  void held_rows_of(Schedule s, int lanes, int unroll, int cluster) {
    if (lanes > kMostCandidateThreads || unroll > kMostCandidateUnroll ||
        (cluster > 1 && lanes <= 32))
      return;
    s.threads_x = lanes;
    s.unroll = unroll;
    auto& row = s.as<RowParameters>();
    row.cluster = cluster;
    double distance = search_.row_distance(s) + 1.5 * steps_between(cluster, rule_.cluster);
    if (!search_.rule.looped()) distance += steps_between(unroll, search_.rule.unroll) / 2;
    // Held; short operations recomputed; all recomputed.
    for (const int lean : {0, 1, 2}) {
      row.lean = lean > 0;
      row.again = lean > 1;
      if (lean > 0 && s.vector == 1) continue;
      const double words =
          words_per_element(search_.analysis, row.lean, row.again) * unroll * s.vector;
      if (unroll > 1 && words > kMostCandidateWords) continue;
      for (const int rows : rows_of_block(lanes)) {
        s.threads_y = rows;
        const double further = distance + (row.lean == rule_.lean ? 0 : 1) +
                               (row.again == rule_.again ? 0 : 1) +
                               steps_between(rows, lanes <= 32 ? rule_rows(lanes) : 1);
        row.staged = false;
        for (const int blocks : blocks_at_once(s.threads(), words)) {
          row.blocks = blocks;
          search_.found.add(s, further + (blocks > 0 ? row.lean ? 0 : 1 : row.lean ? 0.5 : 0));
        }
        row.blocks = 0;
        row.staged = true;
        if (!row.lean && stages(s)) search_.found.add(s, further + (rule_.staged ? 0 : 1));
      }
    }
  }

  void looped_rows(Schedule s) {
    s.unroll = 0;
    for (const int threads : {128, 256, 512, 1024})
      for (const int ahead : {1, 2, 4, 8}) {
        if (ahead * s.vector * words_per_element(search_.analysis) > kMostCandidateWords) continue;
        s.threads_x = threads;
        s.as<RowParameters>().ahead = ahead;
        search_.found.add(s, search_.rule.looped()
                                 ? search_.row_distance(s) + steps_between(ahead, rule_.ahead)
                                 : 3 + search_.row_distance(s) + steps_between(ahead, 2));
      }
  }

  /// Rows of a block with as many threads as the rule's blocks, or the default number.
  int rule_rows(int lanes) const {
    return std::max(
        1, (search_.rule.threads_x <= 32 ? search_.rule.threads() : kBlockThreads) / lanes);
  }

  static std::vector<int> rows_of_block(int lanes) {
    if (lanes > 32) return {1};
    std::vector<int> rows;
    for (const int threads : {32, 64, 128, 256, 512}) rows.push_back(threads / lanes);
    return rows;
  }

  /// Launch bounds to try, in blocks on a multiprocessor: none, and what fits if threads need few
  /// registers besides their elements, or slightly more.
  std::vector<int> blocks_at_once(int threads, double words) const {
    const DeviceModel& device = search_.analysis.device();
    std::vector<int> all = {0};
    for (const int others : {48, 32}) {
      const int registers = ceil_div(others + std::llround(words), 8) * 8;
      const auto fit = static_cast<int>(std::clamp<std::int64_t>(
          device.registers / (threads * registers), 1, std::max(device.threads / threads, 1)));
      if (fit != all.back()) all.push_back(fit);
    }
    return all;
  }

  /// Whether some loads can be staged, and all of these fit static shared memory.
  bool stages(const Schedule& s) const {
    std::size_t bytes = 0;
    for (const std::size_t i : search_.analysis.live(InstrKind::Load))
      if (can_stage(search_.analysis, s, i))
        bytes += search_.analysis.memory_bytes(i) *
                 static_cast<std::size_t>(s.vector * s.unroll * s.threads());
    return bytes > 0 && bytes <= kStaticShared;
  }

  CandidateSearch& search_;
  const RowParameters& rule_;
};

}  // namespace

void search_row(CandidateSearch& search) { RowSearch(search).run(); }

}  // namespace sinter::codegen
