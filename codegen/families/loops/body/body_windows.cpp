// Bodies of family window: the loops over a row's elements around those over a thread's rows.
//
// Values of the reduction's pass are computed where they vary least: in the loops over all but the
// window dimension (`outer`), once for each slot of an overlap, once for each element whatever the
// row, and the rest for each row. What a later level uses of an earlier one is kept in registers.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

std::string dim_loop(const std::string& index, std::int64_t extent) {
  return fmt::format("for (i32 {0} = 0; {0} < {1}; ++{0})", index, extent);
}

}  // namespace

void BodyWriter::write_windows() {
  done_.assign(analysis_.instr_count(), false);
  declare_all(mapping_->prologue);
  thread_values(0);
  reduce_windows();
  thread_values(1);
  store_windows();
}

/// What must be computed for `values` that has no name yet; counting is free and never kept.
BodyWriter::InstrSet BodyWriter::needed_for(const InstrSet& values) const {
  InstrSet needed = values;
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const auto need = [&](std::uint32_t v) { needed[v] = needed[v] || (in_loop(v) && !done_[v]); };
    const auto& operands = math_.operands(i);
    std::for_each(operands.begin(), operands.end(), need);
    if (plan::is_memory(analysis_.instr(i).kind))
      for (const auto& gather : analysis_.access(analysis_.instr(i).access).gathers)
        need(gather.value());
  }
  return needed;
}

/// Declares registers for `values`, of `slots` slots each (0: no slots).
void BodyWriter::keep(const InstrSet& values, std::int64_t slots) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    kept_[i] = true;
    code_.line(fmt::format("{} h{}{}{};", compute_name(analysis_.type_of(i)), i,
                           slots > 0 ? fmt::format("[{}]", slots) : "",
                           vector() > 1 && per_element(i) ? fmt::format("[{}]", vector()) : ""));
  }
}

/// Computes the kept `values`, in the slot `subscript` ("[s]").
void BodyWriter::walk_kept(const InstrSet& values, const std::string& subscript) {
  slot_ = subscript;
  const InstrSet needed = needed_for(values);
  vector_part(needed, 0);
  element_part(needed, 0);
  for (std::size_t i = 0; i < values.size(); ++i) done_[i] = done_[i] || values[i];
}

void BodyWriter::open_tile() {
  const Schedule& schedule = *mapping_->schedule;
  if (schedule.tile == 1) return code_.open("");
  code_.line("#pragma unroll");
  code_.open(dim_loop("t", schedule.tile));
}

void BodyWriter::close_tile() { code_.close(); }

void BodyWriter::reduce_windows() {
  const Schedule& schedule = *mapping_->schedule;
  const Overlap& overlap = schedule.overlap;
  const bool tiled = schedule.tile > 1;
  const auto tile_dim = static_cast<std::size_t>(overlap.tile_dim);
  const auto window_dim = static_cast<std::size_t>(overlap.window_dim);
  const std::size_t count = analysis_.instr_count();

  enum class Level { kNone, kOuter, kSlot, kElement, kRow };
  std::vector<Level> levels(count, Level::kNone);
  InstrSet reduces(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& instr = analysis_.instr(i);
    const DimSet dims = analysis_.value(i).dims;
    reduces[i] = live(i) && instr.kind == InstrKind::Reduce;
    const bool by_row = tiled && (dims & dim_bit(tile_dim)) != 0;
    if (!live(i) || reduces[i] || analysis_.value(i).stage > 0 || !in_loop(i) ||
        plan::is_store(instr.kind) || instr.kind == InstrKind::Index)
      continue;
    if (tiled && overlap.shared[i])
      levels[i] = Level::kSlot;
    else if (by_row)
      levels[i] = Level::kRow;
    else
      levels[i] = (dims & dim_bit(window_dim)) != 0 ? Level::kElement : Level::kOuter;
  }
  // What other levels, or the reductions themselves, take from a level.
  InstrSet taken[3] = {InstrSet(count, false), InstrSet(count, false), InstrSet(count, false)};
  const InstrSet all = needed_for(reduces);
  for (std::size_t i = 0; i < count; ++i) {
    if (!all[i]) continue;
    const auto take = [&](std::uint32_t v) {
      const auto level = static_cast<std::size_t>(levels[v]);
      if (levels[v] != levels[i] && level >= 1 && level <= 3) taken[level - 1][v] = true;
    };
    const auto& operands = math_.operands(i);
    std::for_each(operands.begin(), operands.end(), take);
    if (analysis_.instr(i).kind == InstrKind::Load)
      for (const auto& gather : analysis_.access(analysis_.instr(i).access).gathers)
        take(gather.value());
  }
  const auto any = [](const InstrSet& set) {
    return std::find(set.begin(), set.end(), true) != set.end();
  };

  for (std::size_t i = 0; i < count; ++i)
    if (reduces[i])
      code_.line(fmt::format("{} a{}{}{};", compute_name(analysis_.type_of(i)), i,
                             tiled ? fmt::format("[{}]", schedule.tile) : "",
                             vector() > 1 ? fmt::format("[{}]", vector()) : ""));
  open_tile();
  open_elements();
  for (std::size_t i = 0; i < count; ++i)
    if (reduces[i]) code_.line(fmt::format("{} = {};", partial_sum(i), identity(i)));
  close_elements();
  close_tile();

  int opened = 0;
  for (std::size_t d = analysis_.outer_rank(); d < analysis_.rank(); ++d) {
    if (d == window_dim || (analysis_.inner_dims() & dim_bit(d)) == 0) continue;
    code_.line(schedule.rolled ? "#pragma unroll 1" : "#pragma unroll");
    code_.open(dim_loop(fmt::format("i{}", d), analysis_.extent(d).value()));
    ++opened;
  }
  if (any(taken[0])) {
    keep(taken[0], 0);
    walk_kept(taken[0], "");
  }
  const std::string window_index = fmt::format("i{}", window_dim);
  const std::int64_t window = analysis_.extent(window_dim).value();
  if (any(taken[1])) {
    const std::int64_t slots = overlap.slots(schedule.tile, window);
    keep(taken[1], slots);
    code_.line("#pragma unroll");
    code_.open(dim_loop("s", slots));
    // A pair of indices whose sum is the slot's; what is taken depends on nothing else.
    index_.set_index(window_dim, overlap.element_step == 1 ? "s" : "0");
    index_.set_index(tile_dim, overlap.element_step == 1 ? "first" : "(first + s)");
    walk_kept(taken[1], "[s]");
    code_.close();
    index_.set_index(window_dim, window_index);
    index_.set_index(tile_dim, "(first + t)");
  }
  code_.line("#pragma unroll");
  code_.open(dim_loop(window_index, window));
  if (any(taken[2])) {
    keep(taken[2], 0);
    walk_kept(taken[2], "");
  }
  slot_ = fmt::format("[t * {} + {} * {}]", overlap.row_step, window_index, overlap.element_step);
  for (std::size_t i = 0; i < count; ++i)
    if (taken[1][i]) names_[i] = kept_name(i);
  open_tile();
  const InstrSet needed = needed_for(reduces);
  vector_part(needed, 0);
  element_part(needed, 0);
  close_tile();
  code_.close();
  for (; opened > 0; --opened) code_.close();

  for (std::size_t i = 0; i < count; ++i) {
    if (reduces[i]) names_[i] = partial_sum(i);
    // What the loops have computed is out of scope.
    const bool by_element = (analysis_.value(i).dims & analysis_.inner_dims()) != 0;
    done_[i] = reduces[i] || (by_element && !plan::is_store(analysis_.instr(i).kind));
    kept_[i] = false;
  }
}

void BodyWriter::store_windows() {
  InstrSet stores(analysis_.instr_count(), false);
  bool any = false;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    stores[i] = live(i) && in_loop(i) && plan::is_store(analysis_.instr(i).kind);
    any = any || stores[i];
  }
  if (!any) return;
  open_tile();
  const InstrSet needed = needed_for(stores);
  vector_part(needed, 1);
  element_part(needed, 1);
  vector_stores(needed);
  close_tile();
}

}  // namespace sinter::codegen
