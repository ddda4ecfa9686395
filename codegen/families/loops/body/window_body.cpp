// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/window_body.h"

#include <fmt/format.h>

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

std::string dim_loop(const std::string& index, std::int64_t extent) {
  return fmt::format("for (i32 {0} = 0; {0} < {1}; ++{0})", index, extent);
}

}  // namespace

WindowBody::WindowBody(BodyState& state, StatementWriter& out)
    : s_(state),
      out_(out),
      window_(state.schedule().as<WindowParameters>()),
      overlap_(window_.overlap),
      tiled_(window_.tile > 1),
      length_(state.analysis.extent(overlap_.window_dim).value()),
      index_(fmt::format("i{}", overlap_.window_dim)),
      reduces_(state.analysis.instr_count(), false),
      done_(reduces_),
      taken_{reduces_, reduces_, reduces_} {
  for (const std::size_t i : s_.live) reduces_[i] = s_.analysis.instr(i).kind == InstrKind::Reduce;
}

/// Instructions needed for `values` that have no name yet; counting is free and never kept.
InstrSet WindowBody::needed_for(const InstrSet& values) const {
  InstrSet needed = values;
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const std::uint32_t v : s_.operands(i))
      needed[v] = needed[v] || (s_.in_loop(v) && !done_[v]);
  }
  return needed;
}

WindowBody::Level WindowBody::level_of(std::size_t i) const {
  const DimSet dims = s_.analysis.value(i).dims;
  if (!s_.is_live(i) || reduces_[i] || s_.analysis.value(i).stage > 0 || !s_.in_loop(i) ||
      s_.is_store(i) || s_.analysis.instr(i).kind == InstrKind::Index)
    return Level::kNone;
  if (tiled_ && overlap_.shared[i]) return Level::kSlot;
  if (tiled_ && (dims & dim_bit(overlap_.tile_dim)) != 0) return Level::kRow;
  return (dims & dim_bit(overlap_.window_dim)) != 0 ? Level::kElement : Level::kOuter;
}

void WindowBody::find_taken() {
  for (const std::size_t i : members(needed_for(reduces_)))
    for (const std::uint32_t v : s_.operands(i)) {
      const Level level = level_of(v);
      if (level != level_of(i) && level != Level::kNone && level != Level::kRow)
        taken(level)[v] = true;
    }
}

void WindowBody::open_tile() {
  if (tiled_) s_.code.line("#pragma unroll");
  s_.code.open(tiled_ ? dim_loop("t", window_.tile) : "");
}

/// Computes the values taken from a level, in the slot `subscript` ("[s]").
void WindowBody::walk_kept(Level level, const std::string& subscript) {
  s_.slot = subscript;
  out_.write(needed_for(taken(level)), 0);
  for (const std::size_t i : members(taken(level))) done_[i] = true;
}

void WindowBody::keep_and_walk(Level level) {
  if (members(taken(level)).empty()) return;
  out_.keep(taken(level), 0);
  walk_kept(level, "");
}

void WindowBody::walk_slots() {
  if (members(taken(Level::kSlot)).empty()) return;
  const auto tile_dim = static_cast<std::size_t>(overlap_.tile_dim);
  const auto window_dim = static_cast<std::size_t>(overlap_.window_dim);
  const std::int64_t slots = overlap_.slots(window_.tile, length_);
  out_.keep(taken(Level::kSlot), slots);
  s_.code.line("#pragma unroll");
  s_.code.open(dim_loop("s", slots));
  // A pair of indices whose sum is the slot's; the values depend only on the sum.
  s_.index.set_index(window_dim, overlap_.element_step == 1 ? "s" : "0");
  s_.index.set_index(tile_dim, overlap_.element_step == 1 ? "first" : "(first + s)");
  walk_kept(Level::kSlot, "[s]");
  s_.code.close();
  s_.index.set_index(window_dim, index_);
  s_.index.set_index(tile_dim, "(first + t)");
}

void WindowBody::declare_sums() {
  for (const std::size_t i : members(reduces_))
    s_.code.line(fmt::format("{} a{}{}{};", out_.text.type(i), i,
                             tiled_ ? fmt::format("[{}]", window_.tile) : "",
                             out_.text.elements_size()));
  open_tile();
  out_.open_elements();
  for (const std::size_t i : members(reduces_))
    s_.code.line(fmt::format("{} = {};", out_.text.partial_sum(i), out_.text.identity(i)));
  out_.close_elements();
  s_.code.close();
}

void WindowBody::reduce() {
  find_taken();
  declare_sums();
  int opened = 0;
  for (std::size_t d = s_.analysis.outer_rank(); d < s_.analysis.rank(); ++d) {
    if (static_cast<int>(d) == overlap_.window_dim || (s_.analysis.inner_dims() & dim_bit(d)) == 0)
      continue;
    s_.code.line(window_.rolled ? "#pragma unroll 1" : "#pragma unroll");
    s_.code.open(dim_loop(fmt::format("i{}", d), s_.analysis.extent(d).value()));
    ++opened;
  }
  keep_and_walk(Level::kOuter);
  walk_slots();
  s_.code.line("#pragma unroll");
  s_.code.open(dim_loop(index_, length_));
  keep_and_walk(Level::kElement);
  s_.slot = fmt::format("[t * {} + {} * {}]", overlap_.row_step, index_, overlap_.element_step);
  for (const std::size_t i : members(taken(Level::kSlot))) s_.names[i] = out_.text.kept_name(i);
  open_tile();
  out_.write(needed_for(reduces_), 0);
  s_.code.close();
  s_.code.close();
  for (; opened > 0; --opened) s_.code.close();

  for (std::size_t i = 0; i < reduces_.size(); ++i) {
    if (reduces_[i]) s_.names[i] = out_.text.partial_sum(i);
    // Values computed in the loops are out of scope.
    done_[i] = reduces_[i] || (s_.analysis.in_row(i) && !s_.is_store(i));
    s_.kept[i] = false;
  }
}

void WindowBody::store() {
  InstrSet stores(reduces_.size(), false);
  for (const std::size_t i : s_.live) stores[i] = s_.in_loop(i) && s_.is_store(i);
  if (members(stores).empty()) return;
  open_tile();
  out_.write(needed_for(stores), 1);
  s_.code.close();
}

}  // namespace sinter::codegen
