// Family transpose: what passes through tiles in shared memory on its way in or out.
#include <fmt/format.h>

#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

void BodyWriter::declare_tiles() {
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    if (!is_turned(i)) continue;
    const Turn& turn = mapping_->schedule->turn;
    const std::string type = buffer_type_name(i);
    if (plan::is_store(analysis_.instr(i).kind))
      code_.line(fmt::format("__shared__ TurnedTile<{}, {}, {}, {}, {}> m{};", type, turn.height,
                             turn.width, vector(), turn.vector, i));
    else
      code_.line(fmt::format("__shared__ TurnedTile<{}, {}, {}, {}, {}> m{};", type, turn.width,
                             turn.height, turn.vector, vector(), i));
  }
}

/// What lies across the stores comes through shared memory.
void BodyWriter::fill_tiles() {
  const ThreadMapping* stores = mapping_;
  std::vector<std::size_t> loads;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    if (is_turned(i) && analysis_.instr(i).kind == InstrKind::Load && live(i)) loads.push_back(i);
  if (loads.empty()) return;
  mapping_ = stores->turned.get();
  for (const std::size_t i : loads)
    code_.line(fmt::format("Vec<{}, {}> r{}[{}];", buffer_type_name(i), vector(), i,
                           mapping_->schedule->unroll));
  open_vectors();
  for (const std::size_t i : loads)
    code_.line(fmt::format("r{}[k] = {};", i, raw_expression(i, true)));
  close_vectors();
  open_vectors();
  for (const std::size_t i : loads) code_.line(fmt::format("m{0}.put(x, y, r{0}[k]);", i));
  close_vectors();
  code_.line("__syncthreads();");
  mapping_ = stores;
}

/// And what is stored across leaves it.
void BodyWriter::empty_tiles() {
  std::vector<std::size_t> stores;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    if (is_turned(i) && plan::is_store(analysis_.instr(i).kind)) stores.push_back(i);
  if (stores.empty()) return;
  const ThreadMapping* whole = mapping_;
  mapping_ = whole->turned.get();
  code_.line("__syncthreads();");
  open_vectors();
  for (const std::size_t i : stores)
    code_.line(fmt::format("store({}{}, m{}.run(y, x));", pointers_[analysis_.instr(i).access],
                           loop_address(analysis_.instr(i).access), i));
  close_vectors();
  mapping_ = whole;
}

}  // namespace sinter::codegen
