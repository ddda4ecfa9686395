// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/held_values.h"

#include <algorithm>

#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

/// The last pass that uses each value; recomputing a value uses its operands.
std::vector<int> last_passes(const ProgramAnalysis& analysis, bool lean, bool again) {
  std::vector<int> last(analysis.instr_count(), 0);
  const std::vector<std::size_t>& live = analysis.live();
  for (auto at = live.rbegin(); at != live.rend(); ++at) {
    const std::size_t u = *at;
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
  return std::ranges::any_of(analysis.live(), [&](std::size_t i) {
    const auto& user = analysis.instr(i);
    if (i <= value || user.kind == InstrKind::Reduce ||
        analysis.value(i).stage <= analysis.value(value).stage)
      return false;
    if (std::ranges::find(user.args, value) != user.args.end()) return true;
    return plan::is_memory(user.kind) &&
           std::ranges::any_of(analysis.access(user.access).gathers,
                               [&](const auto& gather) { return gather.value() == value; });
  });
}

double words_per_element(const ProgramAnalysis& analysis, bool lean, bool again, DimSet elements) {
  const bool reduces = analysis.program().inner_dims > 0;
  if (elements == 0) elements = reduces ? analysis.inner_dims() : analysis.outer_dims();
  const std::vector<int> last = last_passes(analysis, lean, again);
  // Registers live across each pass; entry 0 is before the first pass: everything loaded.
  std::vector<double> held(static_cast<std::size_t>(analysis.stages()) + 1, 0.0);
  const auto hold = [&](int from, int to, double words) {
    for (int pass = from; pass <= to; ++pass) held[static_cast<std::size_t>(pass)] += words;
  };
  double all = 0;
  for (const std::size_t i : analysis.live()) {
    const auto& instr = analysis.instr(i);
    const ValueInfo& info = analysis.value(i);
    // Values that vary only by guards are one element for the whole row.
    const DimSet dims =
        instr.kind == InstrKind::Load ? analysis.address_dims(instr.access) : info.dims;
    if ((dims & elements) == 0) continue;
    double words = 0;
    if (instr.kind == InstrKind::Load) {
      const bool is_shared = reduces && (info.dims & analysis.outer_dims()) == 0;
      if (lean && is_shared) continue;
      words = static_cast<double>(analysis.memory_bytes(i)) / 4;
      hold(0, last[i], words);
    } else if (instr.kind == InstrKind::Op && keeps_for_later(analysis, i) &&
               !(lean && is_cheap_again(analysis, i, again))) {
      words = std::max(1.0, static_cast<double>(size_of(analysis.type_of(i))) / 4);
      hold(info.stage + 1, last[i], words);
    }
    all += words;
  }
  // Otherwise all values count: the compiler may share registers but does not always.
  return std::max(lean ? *std::max_element(held.begin(), held.end()) : all, 0.5);
}

bool is_shared_by_rows(const ProgramAnalysis& analysis, std::size_t load) {
  return (analysis.access_dims(analysis.instr(load).access) & analysis.outer_dims()) == 0;
}

bool is_late(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load) {
  if (schedule.reduction().lean && is_shared_by_rows(analysis, load)) return true;
  if (!schedule.is<StridedParameters>()) return false;
  const DimSet run = dim_bit(analysis.last_dim(analysis.inner_dims()));
  return (analysis.access_dims(analysis.instr(load).access) & analysis.inner_dims() & ~run) == 0;
}

bool is_cheap_again(const ProgramAnalysis& analysis, std::size_t value, bool again) {
  constexpr int kMostOperations = 3;
  const int stage = analysis.value(value).stage;
  const auto is_used_later = [&](std::size_t load) {
    return std::ranges::any_of(analysis.live(), [&](std::size_t i) {
      const auto& args = analysis.instr(i).args;
      return analysis.value(i).stage > stage && std::ranges::find(args, load) != args.end();
    });
  };
  std::vector<std::size_t> rest = {value}, loads;
  for (int operations = 0; !rest.empty();) {
    const std::size_t i = rest.back();
    rest.pop_back();
    const auto& instr = analysis.instr(i);
    if ((analysis.value(i).dims & analysis.inner_dims()) == 0) continue;  // same for the row
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
  for (const std::size_t load : loads) bytes += analysis.memory_bytes(load);
  return bytes <= 2;
}

bool can_stage(const ProgramAnalysis& analysis, const Schedule& schedule, std::size_t load) {
  constexpr std::size_t kMostShared = 24 * 1024;  // per array: two blocks fit the static 48 KiB
  const auto& instr = analysis.instr(load);
  if (instr.kind != InstrKind::Load || schedule.looped() || schedule.vector == 1 ||
      schedule.reduction().cluster > 1 || !schedule.vector_access[instr.access])
    return false;
  const auto& access = analysis.access(instr.access);
  const std::size_t bytes = analysis.memory_bytes(load) * static_cast<std::size_t>(schedule.vector);
  // Only data of single rows: what all rows share hits the cache.
  return access.guards.empty() && access.gathers.empty() && bytes >= 4 &&
         (analysis.access_dims(instr.access) & analysis.outer_dims()) != 0 &&
         bytes * static_cast<std::size_t>(schedule.unroll * schedule.threads()) <= kMostShared;
}

double held_words(const ProgramAnalysis& analysis, const Schedule& schedule) {
  const ReductionParameters& reduction = schedule.reduction();
  const auto* window = std::get_if<WindowParameters>(&schedule.kind);
  return words_per_element(analysis, reduction.lean) * schedule.vector *
         (schedule.looped() ? reduction.ahead : schedule.unroll) * (window ? window->tile : 1);
}

}  // namespace sinter::codegen
