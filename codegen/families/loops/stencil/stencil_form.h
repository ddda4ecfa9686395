// SPDX-License-Identifier: Apache-2.0
// How a program's windows overlap along two dimensions, and which values they share.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// Where a value of the reductions is computed: once for each iteration of the loops over neither
/// window; for each slot of the block's rectangle, into shared memory; for each tap of the windows,
/// likewise; or for each element of a window.
enum class StencilLevel { kFree, kOuter, kSlot, kTap, kElement };

class StencilForm {
 public:
  /// Nothing if the program's reductions are of another form.
  static std::optional<StencilForm> of(const ProgramAnalysis& analysis);
  /// The values that an instruction is computed from.
  using Operands = std::function<std::vector<std::uint32_t>(std::size_t)>;
  /// The form with the overlaps that a schedule has.
  StencilForm(const ProgramAnalysis& analysis, Overlap x, Overlap y, Operands operands);

  const Overlap& x() const { return x_; }
  const Overlap& y() const { return y_; }
  bool has_rows() const { return y_.tile_dim >= 0; }
  /// Elements of a window along the dimensions; 1 where it has none.
  std::int64_t width() const { return extent(x_.window_dim); }
  std::int64_t height() const { return extent(y_.window_dim); }
  /// The inner dimensions that are neither.
  DimSet other_inner() const;
  /// The outer dimensions that are neither.
  DimSet planes() const;

  StencilLevel level(std::size_t i) const;
  /// `values` and all that they are computed from.
  std::vector<bool> needed_for(const std::vector<bool>& values) const;
  /// Values of a level (kSlot, kTap) that others read from shared memory.
  const std::vector<std::size_t>& slots() const { return slots_; }
  const std::vector<std::size_t>& taps() const { return taps_; }
  /// Whether every reduction takes a shared value as it is: rows of windows are then reduced once
  /// for all windows that share them.
  bool is_separable() const { return separable_; }
  /// The type that a slot has in shared memory: that of the buffer if it is a load.
  DType slot_type(std::size_t i) const;

 private:
  std::int64_t extent(int d) const { return d < 0 ? 1 : analysis_->extent(d).value(); }
  void find_read();

  const ProgramAnalysis* analysis_;
  Operands operands_;
  Overlap x_, y_;
  std::vector<std::size_t> slots_, taps_;
  bool separable_ = true;
};

/// The rectangle of slots that a block has in shared memory, for one plane. In front of a row lie
/// `lead` unused elements, so that vectors of memory are vectors of the rectangle.
struct StencilTile {
  std::int64_t columns = 1, rows = 1;  // of slots
  std::int64_t lead = 0;
  std::int64_t pitch = 1;      // elements from one row to the next
  std::int64_t row_slots = 1;  // of a row of windows of one thread
  int copied = 1;              // elements that one load from memory copies
  int vector = 1;              // elements of a thread's loads from the rectangle
  std::int64_t elements() const { return rows * pitch; }
  /// Loads of a row.
  std::int64_t copies() const { return (lead + columns + copied - 1) / copied; }
};
StencilTile stencil_tile(const ProgramAnalysis& analysis, const StencilForm& form,
                         const Schedule& schedule, std::size_t slot);

/// A row of taps takes whole vectors of 16 bytes.
inline std::int64_t tap_vector(const StencilForm& form, std::size_t bytes) {
  return bytes < 4 || form.width() == 1 ? 1 : 16 / static_cast<std::int64_t>(bytes);
}
inline std::int64_t tap_pitch(const StencilForm& form, std::size_t bytes) {
  const std::int64_t vector = tap_vector(form, bytes);
  return (form.width() + vector - 1) / vector * vector;
}

/// Static shared memory of a block, in bytes.
std::int64_t stencil_bytes(const ProgramAnalysis& analysis, const StencilForm& form,
                           const Schedule& schedule);

}  // namespace sinter::codegen
