// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/body_state.h"

#include <algorithm>

#include "codegen/families/loops/held_values.h"
#include "codegen/families/loops/schedule_parts.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

std::vector<std::size_t> members(const InstrSet& set) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < set.size(); ++i)
    if (set[i]) all.push_back(i);
  return all;
}

BodyState::BodyState(const ProgramAnalysis& program, Arguments& arguments,
                     const ThreadMapping& threads, CodeText& text)
    : analysis(program),
      args(arguments),
      mapping(threads),
      loop(&threads.loop),
      code(text),
      math(program),
      index(program, arguments, threads, [this](std::uint32_t i) { return names[i]; }),
      names(program.instr_count()),
      inverses(program.instr_count()),
      inverse_functions(program.instr_count(), "reciprocal"),
      pointers(program.program().accesses.size()),
      kept(program.instr_count(), false),
      divides(kept),
      staged(kept),
      grouped(kept),
      uniform(uniform_in_vectors(program, schedule().vector_dim, schedule().vector)) {
  if (loop->unrolled()) keep_subscript += "[k]";
  if (vector() > 1) keep_subscript += "[j]";
  for (std::size_t i = 0; i < program.instr_count(); ++i)
    if (is_live(i)) live.push_back(i);
  find_staged();
  find_kept();
}

/// Stages as many loads as fit static shared memory.
void BodyState::find_staged() {
  std::size_t room = 40 * 1024;
  for (std::size_t i = 0; schedule().row().staged && i < analysis.instr_count(); ++i) {
    if (!is_preloaded(i) || !can_stage(analysis, schedule(), i)) continue;
    const std::size_t bytes =
        analysis.memory_bytes(i) *
        static_cast<std::size_t>(vector() * schedule().unroll * schedule().threads());
    if (bytes > room) continue;
    room -= bytes;
    staged[i] = true;
  }
}

void BodyState::find_kept() {
  for (const std::size_t i : live) {
    const auto& instr = analysis.instr(i);
    const bool computed = instr.kind == InstrKind::Op || instr.kind == InstrKind::Scan ||
                          (is_load(i) && !is_preloaded(i));
    const bool late = is_load(i) && is_late(analysis, schedule(), i);
    kept[i] = !schedule().looped() && computed && !late && per_element(i) && !is_row_vector(i) &&
              keeps_for_later(analysis, i) &&
              !(is_lean() && is_cheap_again(analysis, i, schedule().reduction().again));
    if (instr.kind != InstrKind::Op) continue;
    const bool to_nearest = math.by_inverse(i);
    if (!to_nearest && math.op(i) != ScalarOp::kDiv) continue;
    const std::uint32_t by = instr.args[1];
    if (analysis.type_of(i) == DType::kFloat32 && in_loop(i) &&
        (!in_loop(by) || (is_row_vector(by) && !is_row_vector(i))) &&
        analysis.instr(by).kind != InstrKind::Constant) {
      divides[by] = true;
      if (to_nearest) inverse_functions[by] = "reciprocal_to_nearest";
    }
  }
}

bool BodyState::per_element(std::size_t i) const {
  const int dim = schedule().vector_dim;
  return in_loop(i) && (dim < 0 || !is_one_in_vectors(analysis, dim, uniform, i));
}

bool BodyState::gathers_by_element(std::size_t i) const {
  return std::ranges::any_of(analysis.access(analysis.instr(i).access).gathers,
                             [&](const auto& gather) { return in_loop(gather.value()); });
}

std::vector<std::uint32_t> BodyState::operands(std::size_t i) const {
  std::vector<std::uint32_t> all = math.operands(i);
  if (plan::is_memory(analysis.instr(i).kind))
    for (const auto& gather : analysis.access(analysis.instr(i).access).gathers)
      all.push_back(gather.value());
  return all;
}

bool BodyState::is_preloaded(std::size_t i) const {
  if (grouped[i]) return true;
  const std::vector<bool>& given = mapping.given_loads;
  if (!given.empty() && !given[i]) return false;
  // The mainloop's latency hides loads, if one pass has them all.
  const bool ahead = analysis.stages() > 0 || loop->unrolled() || !given.empty() ||
                     (!mapping.gemm.products.empty() && mapping.passes.header.empty());
  return is_load(i) && is_live(i) && product(i) == nullptr && !is_transposed(i) &&
         !is_row_vector(i) && !schedule().looped() && ahead && per_element(i) &&
         analysis.value(i).stage == 0 && !gathers_by_element(i) &&
         !is_late(analysis, schedule(), i);
}

bool BodyState::is_passes_ahead(std::size_t i) const {
  return !mapping.passes.count.empty() && is_preloaded(i) && is_vector(i) &&
         !is_shared_by_rows(analysis, i) &&
         analysis.access(analysis.instr(i).access).gathers.empty();
}

bool BodyState::is_of_all_passes(std::size_t i) const {
  return !mapping.passes.has_new_columns.empty() && is_preloaded(i) && is_vector(i) &&
         loads_exchanged(i);
}

const GemmEpilogue::ProductLoad* BodyState::product(std::size_t i) const {
  const auto& all = mapping.gemm.products;
  const auto found = std::ranges::find(all, i, &GemmEpilogue::ProductLoad::load);
  return found == all.end() ? nullptr : &*found;
}

bool BodyState::loads_exchanged(std::size_t i) const {
  return !mapping.gemm.load_exchanged.empty() && is_shared_by_rows(analysis, i) &&
         index.guards(analysis.access(analysis.instr(i).access)).empty();
}

bool BodyState::is_row_vector(std::size_t i) const {
  return has_row_vectors() && in_loop(i) && analysis.instr(i).kind != InstrKind::Index &&
         !analysis.in_row(i);
}

}  // namespace sinter::codegen
