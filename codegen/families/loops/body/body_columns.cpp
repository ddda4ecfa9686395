// Family column with vectors: what a thread knows of each of its rows.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

/// Values of pass `stage` that differ between the rows of a thread's vector alone. What others use
/// of them stays in registers.
void BodyWriter::row_vectors(int stage) {
  const std::size_t count = analysis_.instr_count();
  InstrSet own(count, false), kept(count, false);
  for (std::size_t i = 0; i < count; ++i)
    own[i] = live(i) && analysis_.value(i).stage == stage && in_loop(i) &&
             analysis_.instr(i).kind != InstrKind::Reduce &&
             (analysis_.value(i).dims & analysis_.inner_dims()) == 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!live(i) || own[i]) continue;
    const auto use = [&](std::uint32_t v) { kept[v] = kept[v] || (own[v] && is_row_vector(v)); };
    const auto& operands = math_.operands(i);
    std::for_each(operands.begin(), operands.end(), use);
    if (plan::is_memory(analysis_.instr(i).kind))
      for (const auto& gather : analysis_.access(analysis_.instr(i).access).gathers)
        use(gather.value());
  }
  keep(kept, 0);
  vector_part(own, stage);
  element_part(own, stage);
  vector_stores(own);
  for (std::size_t i = 0; i < count; ++i) {
    if (!divides_[i] || !is_row_vector(i) || analysis_.value(i).stage != stage) continue;
    code_.line(fmt::format("float d{}[{}];", i, vector()));
    inverses_[i] = fmt::format("d{}[j]", i);
    open_elements();
    code_.line(fmt::format("{} = reciprocal({});", inverses_[i], names_[i]));
    close_elements();
  }
}

}  // namespace sinter::codegen
