// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/stencil/stencil_form.h"

#include <algorithm>
#include <numeric>

#include "codegen/families/loops/window/overlap.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::ExprOp;
using plan::fb::InstrKind;

namespace {

constexpr std::int64_t kWidestWindow = 64, kLargestStep = 64, kLargestUnit = 4;
constexpr std::int64_t kMostApart = 64;  // elements of windows that share none: of more, threads
                                         // share a window

/// The overlap along outer dimension `d` and inner `e`, as the strides of an access say it.
std::optional<Overlap> overlap_of(const ProgramAnalysis& analysis, std::uint32_t access, int d,
                                  int e) {
  const ir::Dim row = analysis.stride(access, d), element = analysis.stride(access, e);
  if (row == ir::Dim(0) || element == ir::Dim(0)) return std::nullopt;
  Overlap overlap;
  overlap.tile_dim = d;
  overlap.window_dim = e;
  if (row.is_constant() && element.is_constant()) {
    if (row.value() < 0 || element.value() < 0) return std::nullopt;
    const std::int64_t divisor = std::gcd(row.value(), element.value());
    overlap.row_step = row.value() / divisor;
    overlap.element_step = element.value() / divisor;
    if (overlap.row_step != 1 && overlap.element_step != 1) return std::nullopt;
    return overlap;
  }
  for (std::int64_t step = 1; step <= kLargestStep; ++step) {
    overlap.row_step = overlap.element_step = 1;
    if (row == element * ir::Dim(step))
      overlap.row_step = step;
    else if (element == row * ir::Dim(step))
      overlap.element_step = step;
    else
      continue;
    return overlap;
  }
  return std::nullopt;
}

/// The overlap of the shortest steps along dimensions other than `taken`, in which load `i` is
/// shared. `most`: the most elements from one slot to the next; 0: any.
Overlap shortest(const ProgramAnalysis& analysis, std::size_t i, DimSet taken, std::int64_t most) {
  Overlap best;
  const std::uint32_t access = analysis.instr(i).access;
  std::int64_t least = INT64_MAX;
  for (int d = 0; d < static_cast<int>(analysis.outer_rank()); ++d)
    for (int e = static_cast<int>(analysis.outer_rank()); e < static_cast<int>(analysis.rank());
         ++e) {
      if ((analysis.outer_dims() & ~taken & dim_bit(d)) == 0 ||
          (analysis.inner_dims() & ~taken & dim_bit(e)) == 0 || !separates_rows(analysis, d))
        continue;
      if (analysis.extent(e).value() > kWidestWindow) continue;
      std::optional<Overlap> overlap = overlap_of(analysis, access, d, e);
      if (!overlap || overlap->row_step > kLargestStep || overlap->element_step > kLargestStep)
        continue;
      // Steps over all of the dimension: its elements lie between those of other dimensions.
      const ir::Dim& extent = analysis.extent(d);
      if (overlap->element_step > 1 && extent.is_constant() &&
          overlap->element_step >= extent.value())
        continue;
      std::int64_t unit = 1;
      if (most > 0) {
        const ir::Dim& row = analysis.stride(access, d);
        if (!row.is_constant()) continue;
        unit = row.value() / overlap->row_step;
        if (unit > most) continue;
      }
      const std::int64_t length = unit * overlap->row_step * overlap->element_step;
      if (length >= least) continue;
      overlap->shared = shared_values(analysis, *overlap);
      if (!overlap->shared[i]) continue;
      least = length;
      best = std::move(*overlap);
    }
  return best;
}

/// Whether a window has elements that its neighbour has as well.
bool overlaps(const ProgramAnalysis& analysis, const Overlap& o) {
  return o.window_dim >= 0 && analysis.extent(o.window_dim).value() * o.element_step > o.row_step;
}

DimSet both(const Overlap& o) { return dim_bit(o.tile_dim) | dim_bit(o.window_dim); }

/// What an index adds up to along an overlap: row * r + element * e + constant.
struct LinearIndex {
  std::int64_t row = 0, element = 0, constant = 0;
};
std::optional<LinearIndex> linear_index(const ProgramAnalysis& analysis, const Overlap& o,
                                        std::uint32_t n) {
  const auto& node = analysis.program().index_nodes[n];
  if (node.op() == ExprOp::Symbol) {
    const auto d = static_cast<int>(node.a());
    if (d != o.tile_dim && d != o.window_dim) return std::nullopt;
    return LinearIndex{d == o.tile_dim, d == o.window_dim, 0};
  }
  if (node.op() == ExprOp::Constant) {
    if (!analysis.exprs().is_constant(node.a())) return std::nullopt;
    return LinearIndex{0, 0, analysis.exprs().constant(node.a())};
  }
  if (node.op() != ExprOp::Add && node.op() != ExprOp::Sub && node.op() != ExprOp::Mul)
    return std::nullopt;
  const auto a = linear_index(analysis, o, node.a()), b = linear_index(analysis, o, node.b());
  if (!a || !b) return std::nullopt;
  if (node.op() == ExprOp::Mul) {
    const bool first = a->row == 0 && a->element == 0;
    if (!first && (b->row != 0 || b->element != 0)) return std::nullopt;
    const std::int64_t by = first ? a->constant : b->constant;
    const LinearIndex& of = first ? *b : *a;
    return LinearIndex{of.row * by, of.element * by, of.constant * by};
  }
  const std::int64_t sign = node.op() == ExprOp::Add ? 1 : -1;
  return LinearIndex{a->row + sign * b->row, a->element + sign * b->element,
                     a->constant + sign * b->constant};
}

/// If each aligned vector of a row of memory is read as a whole or not at all: how many elements in
/// front of a block's first slot its vector begins. Blocks begin at multiples of the vector.
std::optional<std::int64_t> lead_of(const ProgramAnalysis& analysis, const StencilForm& form,
                                    std::size_t slot, std::int64_t vector) {
  if (analysis.instr(slot).kind != InstrKind::Load) return std::nullopt;
  const std::uint32_t a = analysis.instr(slot).access;
  const auto& access = analysis.access(a);
  const Overlap& x = form.x();
  if (!access.gathers.empty() || !access.nonaffine.empty() ||
      analysis.stride(a, x.tile_dim) != ir::Dim(x.row_step) ||
      analysis.stride(a, x.window_dim) != ir::Dim(x.element_step))
    return std::nullopt;
  for (int d = 0; d < static_cast<int>(analysis.rank()); ++d)
    if ((both(x) & dim_bit(d)) == 0 && !ir::is_multiple_of(analysis.stride(a, d), vector))
      return std::nullopt;
  // Without a guard a row is as long as what its windows read.
  ir::Dim length = (analysis.extent(x.tile_dim) - ir::Dim(1)) * ir::Dim(x.row_step) +
                   ir::Dim((form.width() - 1) * x.element_step + 1);
  std::int64_t before = 0;
  for (const auto& guard : access.guards) {
    if ((analysis.node_dims(guard.index()) & both(x)) == 0) continue;
    const auto index = linear_index(analysis, x, guard.index());
    if (!index || index->row != x.row_step || index->element != x.element_step) return std::nullopt;
    before = -index->constant;
    length = analysis.exprs().dim(guard.extent());
  }
  if (!ir::is_multiple_of(length, vector) ||
      !ir::is_multiple_of(analysis.exprs().dim(access.offset) + ir::Dim(before), vector))
    return std::nullopt;
  return (vector - before % vector) % vector;
}

}  // namespace

StencilForm::StencilForm(const ProgramAnalysis& analysis, Overlap x, Overlap y, Operands operands)
    : analysis_(&analysis), operands_(std::move(operands)), x_(std::move(x)), y_(std::move(y)) {
  find_read();
}

std::optional<StencilForm> StencilForm::of(const ProgramAnalysis& analysis) {
  for (const std::size_t i : analysis.live(InstrKind::Load)) {
    if (!analysis.in_row(i)) continue;
    Overlap x = shortest(analysis, i, 0, kLargestUnit);
    if (x.tile_dim < 0) continue;
    Overlap y = shortest(analysis, i, both(x), 0);
    const bool overlap = overlaps(analysis, x) || overlaps(analysis, y);
    if (!overlap && (y.tile_dim < 0 ||
                     analysis.extent(x.window_dim).value() * analysis.extent(y.window_dim).value() >
                         kMostApart))
      continue;
    StencilForm form(analysis, std::move(x), std::move(y), [&](std::size_t value) {
      std::vector<std::uint32_t> all = analysis.instr(value).args;
      if (plan::is_memory(analysis.instr(value).kind))
        for (const auto& gather : analysis.access(analysis.instr(value).access).gathers)
          all.push_back(gather.value());
      return all;
    });
    if (!form.slots().empty()) return form;
  }
  return std::nullopt;
}

DimSet StencilForm::other_inner() const { return analysis_->inner_dims() & ~both(x_) & ~both(y_); }
DimSet StencilForm::planes() const { return analysis_->outer_dims() & ~both(x_) & ~both(y_); }

StencilLevel StencilForm::level(std::size_t i) const {
  const auto& info = analysis_->value(i);
  const InstrKind kind = analysis_->instr(i).kind;
  const DimSet loops = analysis_->inner_dims() | both(x_) | both(y_);
  if (!info.live || info.stage > 0 || (kind != InstrKind::Op && kind != InstrKind::Load) ||
      (info.dims & loops) == 0)
    return StencilLevel::kFree;
  if (x_.shared[i] && (!has_rows() || y_.shared[i])) return StencilLevel::kSlot;
  if ((info.dims & (both(x_) | both(y_))) == 0) return StencilLevel::kOuter;
  return (info.dims & analysis_->outer_dims() & (both(x_) | both(y_))) == 0
             ? StencilLevel::kTap
             : StencilLevel::kElement;
}

std::vector<bool> StencilForm::needed_for(const std::vector<bool>& values) const {
  std::vector<bool> needed = values;
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const std::uint32_t v : operands_(i)) needed[v] = true;
  }
  return needed;
}

void StencilForm::find_read() {
  std::vector<bool> reduces(analysis_->instr_count(), false), read = reduces;
  for (const std::size_t i : analysis_->live(InstrKind::Reduce)) {
    reduces[i] = true;
    separable_ =
        separable_ && level(analysis_->instr(i).args[0]) == StencilLevel::kSlot && width() > 1;
  }
  const std::vector<bool> needed = needed_for(reduces);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    const StencilLevel own = level(i);
    for (const std::uint32_t v : operands_(i)) {
      const StencilLevel of = level(v);
      if (of != own && (of == StencilLevel::kSlot || of == StencilLevel::kTap)) read[v] = true;
    }
  }
  for (std::size_t i = 0; i < read.size(); ++i)
    if (read[i]) (level(i) == StencilLevel::kSlot ? slots_ : taps_).push_back(i);
}

DType StencilForm::slot_type(std::size_t i) const {
  return analysis_->instr(i).kind == InstrKind::Load ? analysis_->memory_type(i)
                                                     : analysis_->type_of(i);
}

StencilTile stencil_tile(const ProgramAnalysis& analysis, const StencilForm& form,
                         const Schedule& schedule, std::size_t slot) {
  const auto& own = schedule.as<StencilParameters>();
  const auto bytes = static_cast<std::int64_t>(size_of(form.slot_type(slot)));
  const std::int64_t threads_y = schedule.threads_y / own.planes;
  const std::int64_t step = own.columns * form.x().row_step;  // slots between threads
  StencilTile tile;
  tile.columns =
      form.x().slots(static_cast<std::int64_t>(schedule.threads_x) * own.columns, form.width());
  if (form.has_rows()) tile.rows = form.y().slots(threads_y * own.rows, form.height());
  tile.row_slots = form.x().slots(own.columns, form.width());
  for (std::int64_t vector = 16 / bytes; vector > 1 && tile.copied == 1; vector /= 2)
    if (const auto lead = lead_of(analysis, form, slot, vector);
        lead && schedule.threads_x * step % vector == 0) {
      tile.copied = static_cast<int>(vector);
      tile.lead = *lead;
    }
  while (tile.vector * 2 * bytes <= 16 && step % (tile.vector * 2) == 0 &&
         tile.vector < tile.row_slots)
    tile.vector *= 2;
  const auto whole = [](std::int64_t count, std::int64_t vector) {
    return (count + vector - 1) / vector * vector;
  };
  // The last thread's vectors may be longer than its slots.
  const std::int64_t last =
      (schedule.threads_x - 1) * step + whole(tile.lead + tile.row_slots, tile.vector);
  tile.pitch =
      whole(std::max(tile.copies() * tile.copied, last), std::max(tile.vector, tile.copied));
  return tile;
}

std::int64_t stencil_bytes(const ProgramAnalysis& analysis, const StencilForm& form,
                           const Schedule& schedule) {
  const auto aligned = [](std::int64_t bytes) { return (bytes + 15) / 16 * 16; };
  const int planes = schedule.as<StencilParameters>().planes;
  std::int64_t sum = 0;
  for (const std::size_t i : form.slots()) {
    const std::size_t bytes = size_of(form.slot_type(i));
    sum += aligned(planes * stencil_tile(analysis, form, schedule, i).elements() *
                   static_cast<std::int64_t>(bytes));
  }
  for (const std::size_t i : form.taps()) {
    const std::size_t bytes = size_of(analysis.type_of(i));
    sum +=
        aligned(planes * form.height() * tap_pitch(form, bytes) * static_cast<std::int64_t>(bytes));
  }
  return sum;
}

}  // namespace sinter::codegen
