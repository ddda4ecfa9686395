#include "codegen/families/loops/schedule_candidates.h"

#include <algorithm>

#include <sinter/error.h>

#include "codegen/emit/schedule_neighbours.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr int kMostThreads = 1024, kMostUnroll = 32;
constexpr double kMostWords = 160;                // of a thread's elements, in registers
constexpr std::size_t kStaticShared = 40 * 1024;  // leaves room for what reductions need
constexpr int kMostVectors = 16;                  // of a tile, for each thread

class LoopNeighbours {
 public:
  LoopNeighbours(const ProgramAnalysis& analysis, const Schedule& rule, bool clusters)
      : analysis_(analysis), rule_(rule), clusters_(clusters), found_(rule) {}

  std::vector<Schedule> run() {
    switch (rule_.family) {
      case Family::kPointwise: pointwise(); break;
      case Family::kRow: rows(); break;
      case Family::kColumn: columns(); break;
      case Family::kScan: scans(); break;
      case Family::kWindow: windows(); break;
      case Family::kTranspose: tiles(); break;
    }
    return found_.take();
  }

 private:
  /// The rule's vectors and shorter ones, as schedules with nothing else set.
  std::vector<Schedule> vectors() const {
    std::vector<Schedule> all;
    for (int length = rule_.vector; length >= 1; length /= 2) {
      const VectorPlan plan = length > 1
                                  ? plan_vectors(analysis_, rule_.vector_dim, length, rule_.tail)
                                  : no_vectors(analysis_);
      if (plan.vector == length && implies_all(rule_.conditions, plan.conditions))
        all.push_back(with_vectors(plan, rule_.family));
    }
    return all;
  }

  /// Elements of the longest row that the rule's schedule takes.
  std::optional<std::int64_t> longest_row() const {
    const ir::Dim length = analysis_.size_of_dims(analysis_.inner_dims());
    std::optional<std::int64_t> most = upper(analysis_, length);
    const std::uint32_t expression = analysis_.exprs().intern(length);
    for (const auto& condition : rule_.conditions)
      if (condition.expression() == expression && condition.max() != INT64_MAX)
        most = std::min(most.value_or(condition.max()), condition.max());
    return most;
  }

  void pointwise() {
    if (can_schedule_transpose(analysis_)) tiles();
    for (Schedule s : vectors())
      for (const int unroll : {1, 2, 4, 8})
        for (const int threads : {64, 128, 256, 512, 1024}) {
          if (unroll * s.vector * words_per_element(analysis_) > kMostWords) continue;
          s.unroll = unroll;
          s.threads_x = threads;
          found_.add(s, steps_between(s.vector, rule_.vector) * 1.5 +
                            steps_between(unroll, rule_.unroll) +
                            steps_between(threads, rule_.threads_x));
        }
  }

  void rows() {
    if (analysis_.combines()) return;  // one thread a row, whose order counts
    const auto longest = longest_row();
    for (const Schedule& s : vectors()) {
      if (longest) held_rows(s, ceil_div(std::max<std::int64_t>(*longest, 1), s.vector));
      looped_rows(s);
    }
  }

  void held_rows(const Schedule& base, std::int64_t length) {
    if (rule_.tail) return;
    for (int cluster = 1; cluster <= (clusters_ ? most_cluster(analysis_) : 1); cluster *= 2) {
      for (int lanes = 1; lanes <= 16 && cluster == 1; lanes *= 2)
        held_rows_of(base, lanes, ceil_div(length, lanes), cluster);
      for (int unroll = 1; unroll <= 16; ++unroll)
        held_rows_of(base, 32 * ceil_div(length, std::int64_t{32} * unroll * cluster), unroll,
                     cluster);
    }
  }

  void held_rows_of(Schedule s, int lanes, int unroll, int cluster) {
    if (lanes > kMostThreads || unroll > kMostUnroll || (cluster > 1 && lanes <= 32)) return;
    s.threads_x = lanes;
    s.unroll = unroll;
    s.cluster = cluster;
    double distance = row_distance(s) + 1.5 * steps_between(cluster, rule_.cluster);
    if (!rule_.looped()) distance += steps_between(unroll, rule_.unroll) / 2;
    // Held, computed again if short, computed again.
    for (const int lean : {0, 1, 2}) {
      s.lean = lean > 0;
      s.again = lean > 1;
      if (lean > 0 && s.vector == 1) continue;
      const double words = words_per_element(analysis_, s.lean, s.again) * unroll * s.vector;
      if (unroll > 1 && words > kMostWords) continue;
      for (const int rows : rows_of_block(lanes)) {
        s.threads_y = rows;
        const double further = distance + (s.lean == rule_.lean ? 0 : 1) +
                               (s.again == rule_.again ? 0 : 1) +
                               steps_between(rows, lanes <= 32 ? rule_rows(lanes) : 1);
        s.staged = false;
        for (const int blocks : blocks_at_once(s.threads(), words)) {
          s.blocks = blocks;
          found_.add(s, further + (blocks > 0 ? s.lean ? 0 : 1 : s.lean ? 0.5 : 0));
        }
        s.blocks = 0;
        s.staged = true;
        if (!s.lean && stages(s)) found_.add(s, further + (rule_.staged ? 0 : 1));
      }
    }
  }

  void looped_rows(Schedule s) {
    s.unroll = 0;
    for (const int threads : {128, 256, 512, 1024})
      for (const int ahead : {1, 2, 4, 8}) {
        if (ahead * s.vector * words_per_element(analysis_) > kMostWords) continue;
        s.threads_x = threads;
        s.ahead = ahead;
        found_.add(s, rule_.looped() ? row_distance(s) + steps_between(ahead, rule_.ahead)
                                     : 3 + row_distance(s) + steps_between(ahead, 2));
      }
  }

  double row_distance(const Schedule& s) const {
    return 1.5 * steps_between(s.vector, rule_.vector) +
           steps_between(s.threads_x, rule_.threads_x);
  }

  /// Rows of a block if as many threads as the rule's blocks have, or the usual number, share them.
  int rule_rows(int lanes) const {
    return std::max(1, (rule_.threads_x <= 32 ? rule_.threads() : kBlockThreads) / lanes);
  }

  static std::vector<int> rows_of_block(int lanes) {
    if (lanes > 32) return {1};
    std::vector<int> rows;
    for (const int threads : {32, 64, 128, 256, 512}) rows.push_back(threads / lanes);
    return rows;
  }

  /// Blocks of a multiprocessor that the compiler is told of: none, and what fits if a thread needs
  /// little beside its elements, or a bit more.
  std::vector<int> blocks_at_once(int threads, double words) const {
    const DeviceModel& device = analysis_.device();
    std::vector<int> all = {0};
    for (const int others : {48, 32}) {
      const int registers = ceil_div(others + std::llround(words), 8) * 8;
      const auto fit = static_cast<int>(std::clamp<std::int64_t>(
          device.registers / (threads * registers), 1, std::max(device.threads / threads, 1)));
      if (fit != all.back()) all.push_back(fit);
    }
    return all;
  }

  /// Whether some loads can be staged, and all that can fit into static shared memory.
  bool stages(const Schedule& s) const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
      const auto& instr = analysis_.instr(i);
      if (!analysis_.value(i).live || instr.kind != InstrKind::Load || !can_stage(analysis_, s, i))
        continue;
      bytes += size_of(analysis_.buffer_type(analysis_.access(instr.access).buffer)) *
               static_cast<std::size_t>(s.vector * s.unroll * s.threads());
    }
    return bytes > 0 && bytes <= kStaticShared;
  }

  void columns() {
    const auto longest = longest_row();
    for (Schedule s : vectors())
      for (const int x : {32, 64, 128, 256})
        for (const int y : {1, 2, 4, 8, 16, 32}) {
          if (x * y > kMostThreads || x * y < 64) continue;
          s.threads_x = x;
          s.threads_y = y;
          const double words = words_per_element(analysis_) * s.vector;
          const double distance = row_distance(s) + steps_between(y, rule_.threads_y);
          s.unroll = 0;
          for (s.ahead = 1; s.ahead <= 8; s.ahead *= 2)
            if (s.ahead * words <= kMostWords)
              found_.add(s, distance + (rule_.looped() ? steps_between(s.ahead, rule_.ahead) : 1));
          s.ahead = 1;
          if (!longest) continue;
          s.unroll = ceil_div(std::max<std::int64_t>(*longest, 1), y);
          if (s.unroll <= kMostUnroll && s.unroll * words <= kMostWords)
            found_.add(s, distance + (rule_.looped() ? 1 : 0));
        }
    if (can_schedule_window(analysis_)) windows();
  }

  void tiles() {
    const bool same = rule_.family == Family::kTranspose;
    const Schedule usual = same ? rule_ : choose_transpose(analysis_)[0];
    const auto near = [](int value) { return std::vector<int>{value, value / 2, value * 2}; };
    Schedule wish = usual;
    wish.threads_y = 1;
    for (wish.vector = usual.vector; 2 * wish.vector >= usual.vector && wish.vector >= 1;
         wish.vector /= 2)
      for (const int turned : {usual.turn.vector, usual.turn.vector / 2})
        for (const int width : near(usual.turn.width))
          for (const int height : near(usual.turn.height))
            for (const int threads : {128, 256, 512}) try {
                const int shortest = std::min(wish.vector, turned);
                if (shortest < 1 || width * height > kMostVectors * threads * shortest) continue;
                wish.turn.vector = turned;
                wish.turn.width = width;
                wish.turn.height = height;
                wish.threads_x = threads;
                Schedule s = transpose_schedule(analysis_, wish);
                const double distance = steps_between(s.vector, usual.vector) +
                                        steps_between(turned, usual.turn.vector) +
                                        steps_between(width, usual.turn.width) +
                                        steps_between(height, usual.turn.height) +
                                        steps_between(threads, usual.threads());
                found_.add(std::move(s), distance + (same ? 0 : 1));
              } catch (const Error& error) {
                if (error.code() != ErrorCode::kUsage) throw;  // it takes no such tiles
              }
    if (!same) return;
    const Schedule plain = choose_pointwise(analysis_).back();
    if (plain.conditions.empty()) found_.add(plain, 2);
  }

  void scans() {
    if (rule_.threads_x == 1) return;  // neighbouring rows, not elements, lie side by side
    for (Schedule s : vectors())
      for (int lanes = 4; lanes <= kMostThreads; lanes *= 2) {
        s.threads_x = lanes;
        s.threads_y = lanes <= 32 ? kBlockThreads / lanes : 1;
        found_.add(s, row_distance(s));
      }
  }

  void windows() {
    for (const int vector : {8, 4, 2, 1})
      for (const int tile : {1, 2, 4, 7, 8})
        for (const int threads : {32, 64, 128}) try {
            Schedule s = window_schedule(analysis_, vector, tile, threads);
            const bool same = rule_.family == Family::kWindow;
            found_.add(std::move(s), steps_between(vector, same ? rule_.vector : 4) +
                                         steps_between(tile, same ? rule_.tile : 2) +
                                         steps_between(threads, 64));
          } catch (const Error& error) {
            if (error.code() != ErrorCode::kUsage) throw;  // it takes no such vectors or tiles
          }
  }

  const ProgramAnalysis& analysis_;
  const Schedule& rule_;
  bool clusters_;
  Neighbours<Schedule> found_;
};

}  // namespace

std::vector<Schedule> schedule_candidates(const ProgramAnalysis& analysis, const Schedule& rule,
                                          bool clusters) {
  return LoopNeighbours(analysis, rule, clusters).run();
}

}  // namespace sinter::codegen
