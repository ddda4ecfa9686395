#include "codegen/families/loops/held_values.h"

#include <algorithm>

#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

/// The last pass that uses each value; computing a value again uses what it is made of.
std::vector<int> last_passes(const ProgramAnalysis& analysis, bool lean, bool again) {
  std::vector<int> last(analysis.instr_count(), 0);
  for (std::size_t u = analysis.instr_count(); u-- > 0;) {
    if (!analysis.value(u).live) continue;
    const auto& user = analysis.instr(u);
    int pass = analysis.value(u).stage - (user.kind == InstrKind::Reduce ? 1 : 0);
    if (lean && user.kind == InstrKind::Op && is_cheap_again(analysis, u, again))
      pass = std::max(pass, last[u]);
    for (const std::uint32_t arg : user.args) last[arg] = std::max(last[arg], pass);
  }
  return last;
}

}  // namespace

bool keeps_for_later(const ProgramAnalysis& analysis, std::size_t value) {
  const ValueInfo& info = analysis.value(value);
  for (std::size_t i = value + 1; i < analysis.instr_count(); ++i) {
    const auto& user = analysis.instr(i);
    if (!analysis.value(i).live || user.kind == InstrKind::Reduce) continue;
    if (analysis.value(i).stage > info.stage &&
        std::find(user.args.begin(), user.args.end(), value) != user.args.end())
      return true;
    if (!plan::is_memory(user.kind)) continue;
    for (const auto& gather : analysis.access(user.access).gathers)
      if (gather.value() == value && analysis.value(i).stage > info.stage) return true;
  }
  return false;
}

double words_per_element(const ProgramAnalysis& analysis, bool lean, bool again) {
  const bool reduces = analysis.program().inner_dims > 0;
  const DimSet elements = reduces ? analysis.inner_dims() : analysis.outer_dims();
  const std::vector<int> last = last_passes(analysis, lean, again);
  // What is held behind each pass, and before the first one all that is loaded.
  std::vector<double> held(static_cast<std::size_t>(analysis.stages()) + 1, 0.0);
  const auto hold = [&](int from, int to, double words) {
    for (int pass = from; pass <= to; ++pass) held[static_cast<std::size_t>(pass)] += words;
  };
  double all = 0;
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    const ValueInfo& info = analysis.value(i);
    if (!info.live || (info.dims & elements) == 0) continue;
    double words = 0;
    if (instr.kind == InstrKind::Load) {
      const bool is_shared = reduces && (info.dims & analysis.outer_dims()) == 0;
      if (lean && is_shared) continue;
      words =
          static_cast<double>(size_of(analysis.buffer_type(analysis.access(instr.access).buffer))) /
          4;
      hold(0, last[i], words);
    } else if (instr.kind == InstrKind::Op && keeps_for_later(analysis, i) &&
               !(lean && is_cheap_again(analysis, i, again))) {
      words = std::max(1.0, static_cast<double>(size_of(analysis.type_of(i))) / 4);
      hold(info.stage + 1, last[i], words);
    }
    all += words;
  }
  // Otherwise the compiler is left to share registers; it does not always.
  return std::max(lean ? *std::max_element(held.begin(), held.end()) : all, 0.5);
}

bool is_shared_by_rows(const ProgramAnalysis& analysis, std::size_t load) {
  return (analysis.access_dims(analysis.instr(load).access) & analysis.outer_dims()) == 0;
}

bool is_late(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load) {
  return schedule.lean && is_shared_by_rows(analysis, load);
}

bool is_cheap_again(const ProgramAnalysis& analysis, std::size_t value, bool again) {
  constexpr int kMostOperations = 3;
  const int stage = analysis.value(value).stage;
  const auto is_used_later = [&](std::size_t load) {
    for (std::size_t i = load + 1; i < analysis.instr_count(); ++i) {
      const auto& args = analysis.instr(i).args;
      if (analysis.value(i).live && analysis.value(i).stage > stage &&
          std::find(args.begin(), args.end(), load) != args.end())
        return true;
    }
    return false;
  };
  std::vector<std::size_t> rest = {value}, loads;
  for (int operations = 0; !rest.empty();) {
    const std::size_t i = rest.back();
    rest.pop_back();
    const auto& instr = analysis.instr(i);
    if ((analysis.value(i).dims & analysis.inner_dims()) == 0) continue;  // of the row
    if (instr.kind == InstrKind::Load) {
      const auto& access = analysis.access(instr.access);
      if (!access.gathers.empty() || !access.guards.empty()) return false;
      if (!is_used_later(i) && std::find(loads.begin(), loads.end(), i) == loads.end())
        loads.push_back(i);
    } else if (instr.kind == InstrKind::Op && ++operations <= kMostOperations &&
               (again || !is_long_operation(static_cast<ScalarOp>(instr.op)))) {
      rest.insert(rest.end(), instr.args.begin(), instr.args.end());
    } else {
      return false;
    }
  }
  std::size_t bytes = 0;
  for (const std::size_t load : loads)
    bytes += size_of(analysis.buffer_type(analysis.access(analysis.instr(load).access).buffer));
  return bytes <= 2;
}

bool can_stage(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load) {
  constexpr std::size_t kMostShared =
      24 * 1024;  // of one array: two blocks' worth in the static 48 KiB
  const auto& instr = analysis.instr(load);
  if (instr.kind != InstrKind::Load || schedule.looped() || schedule.vector == 1 ||
      schedule.cluster > 1 || !schedule.vector_access[instr.access])
    return false;
  const auto& access = analysis.access(instr.access);
  const std::size_t bytes =
      size_of(analysis.buffer_type(access.buffer)) * static_cast<std::size_t>(schedule.vector);
  // Rows of their own: what all rows share comes from the cache in no time.
  return access.guards.empty() && access.gathers.empty() && bytes >= 4 &&
         (analysis.access_dims(instr.access) & analysis.outer_dims()) != 0 &&
         bytes * static_cast<std::size_t>(schedule.unroll * schedule.threads()) <= kMostShared;
}

double held_words(const ProgramAnalysis& analysis, const Schedule& schedule) {
  const int vectors = schedule.looped() ? schedule.ahead : schedule.unroll;
  return words_per_element(analysis, schedule.lean) * schedule.vector * vectors * schedule.tile;
}

}  // namespace sinter::codegen
