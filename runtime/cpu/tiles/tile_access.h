// SPDX-License-Identifier: Apache-2.0
// Moves values between buffers and tiles.
//
// A tile covers rows y0 .. y0 + rows of the "y" loops and columns x0 .. x0 + cols of the "x" loops,
// at one index of the "z" loops. The schedule assigns the program's loops to these roles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_moves.h"
#include "runtime/cpu/tiles/tile_loops.h"
#include "runtime/cpu/tiles/tile_walkers.h"

namespace sinter::runtime::cpu {

/// Axes of BoundLoops by role, outermost first.
struct TileAxes {
  std::vector<std::size_t> z, y, x;
};

struct Tile {
  const std::int64_t* z = nullptr;  // index of each z loop
  std::int64_t y0 = 0, rows = 0, x0 = 0, cols = 0;
};

/// The dimensions of a tile along which a value varies. Without columns: one value per row; without
/// rows: one per column.
struct Domain {
  bool rows = true, columns = true;
};

/// Views and types of the indices of gathers, by instruction.
struct GatherValues {
  const View* views = nullptr;
  const DType* types = nullptr;
};

/// A loop over the elements of overlapping windows. An element is at input position stride *
/// (window) + dilation * (loop); positions are `pitch` elements apart.
struct WindowLoop {
  std::size_t y = 0;  // index of the loop
  std::int64_t size = 0, stride = 1, dilation = 1, pitch = 1;
  int guard = -1;  // index of the guard that bounds the positions; -1: none
};

/// Size of find_offsets()' array for a tile of `elements`: the offsets, their minimum and maximum,
/// and the table of look_up().
constexpr std::int64_t offset_count(std::int64_t elements) {
  return elements + 2 + elements / kLeastLookup;
}

class TileAccess {
 public:
  TileAccess(const BoundLoops& loops, const BoundAccess& access, const TileAxes& axes);

  const BoundAccess& access() const { return access_; }

  /// The values of `tile` over `domain`: in place if possible, else converted to the compute type
  /// and copied to `target`, which has room for the domain: with rows `pitch` elements apart, which
  /// may be other than the tile's columns only if is_transposed(). Throws Error for a gathered
  /// index or an address out of range.
  View load(const std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
            void* target, std::int64_t pitch) const;

  /// find_offsets() computes the offsets of the elements of `tile` without the z loops; load_at()
  /// loads the values there. Requires gathers independent of z, no guards, and fewer than 2^31
  /// elements. Throws like load. `offsets` has offset_count() elements.
  void find_offsets(const Tile& tile, GatherValues gathered, std::int32_t* offsets) const;
  View load_at(const std::byte* buffer, const Tile& tile, const std::int32_t* offsets,
               std::byte* target) const;

  /// The same for gathers of which some (a bit of `of_columns` each) vary with the columns alone,
  /// the others not with the columns: find_column_offsets() computes the columns' part,
  /// load_columns() adds each row's. Requires no guards. `offsets` has offset_count(tile.cols)
  /// elements.
  void find_column_offsets(const Tile& tile, GatherValues gathered, std::uint64_t of_columns,
                           std::int32_t* offsets) const;
  void load_columns(const std::byte* buffer, const Tile& tile, GatherValues gathered,
                    std::uint64_t of_columns, const std::int32_t* offsets, std::byte* target) const;

  /// For elements that are equal in all rows but that load() must copy: the number of columns after
  /// which they repeat. 0: no such access.
  std::int64_t period() const;

  /// Stores `value`, which has the compute type. Throws like load.
  void store(std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
             const View& value) const;

  /// Scatters the elements of `tile` in order along columns. Combines them with the existing values
  /// by `combine`; without one, replaces those. Throws like load.
  void scatter(std::byte* buffer, const Tile& tile, GatherValues gathered, const View& value,
               std::optional<Combine> combine) const;

  void scatter_row(std::byte* buffer, const Tile& tile, GatherValues gathered,
                   const View& value) const;

  /// Whether a result over `domain` can be computed directly in the buffer: values are contiguous
  /// along columns and stored in the compute type. If so, sets address and row stride.
  bool in_place(std::byte* buffer, const Tile& tile, Domain domain, std::byte*& address,
                std::int64_t& row_stride) const;

  /// Whether memory is contiguous along rows' starts (column-major): tiles should then be about
  /// square.
  bool is_transposed() const;
  /// Whether load() copies nothing.
  bool is_used_in_place() const;

  /// Whether reduce() supports the access, where load() would have to copy.
  bool can_reduce(Combine combine) const;
  /// Reduces the rows of `tile` in place, without copying them, to one accumulator for each column.
  void reduce(const std::byte* buffer, const Tile& tile, const ReduceKernels& kernels,
              std::byte* accumulators) const;

  /// Whether windows overlap enough that reduce_sliding() takes fewer operations.
  bool slides(Combine combine) const;
  /// Bytes of its scratch memory; and the number of columns of a tile, at most `most`, in whole
  /// rows.
  std::size_t sliding_bytes() const;
  std::int64_t sliding_columns(std::int64_t most) const;
  /// What reduce() would accumulate for a tile with all rows, as values of the compute type.
  /// `combine` is the operator kernel of `kind`.
  void reduce_sliding(const std::byte* buffer, const Tile& tile, OpKernel combine, Combine kind,
                      std::byte* room, std::byte* results) const;

  /// True if rows of `cols` columns are contiguous in the buffer, without gap or repetition.
  bool is_stream(std::int64_t cols) const;
  /// The same for rows with gaps between them.
  bool streams_rows(std::int64_t cols) const;
  /// The address of element (y, x) of such an access. There must be no z loops.
  const std::byte* stream_address(const std::byte* buffer, std::int64_t y, std::int64_t x) const;

 private:
  /// Windows that slide along the last column loop, along the one before it, and the loops that do
  /// not slide.
  struct Sliding {
    std::optional<WindowLoop> inner, outer;
    std::vector<std::size_t> others;  // y loops
    std::int64_t other_windows = 1;
  };
  /// The input positions that some windows cover, and the valid ones among them.
  struct Covered {
    std::int64_t first = 0, count = 1, low = 0, high = 1;
  };
  void find_sliding();
  /// Whether rows of windows are combined where they lie.
  bool combines_in_registers(Combine combine) const;
  std::optional<std::int64_t> offset_of_window(const Tile& tile, const std::int64_t* at,
                                               std::int64_t number) const;
  /// The rows of windows, combined from those in the buffer: `others` begin at these offsets from
  /// element `start`.
  void combine_rows(const std::byte* buffer, std::span<const std::int64_t> others,
                    std::int64_t start, std::int64_t y_pitch, const Covered& of_rows,
                    const Covered& in_row, std::int64_t rows, const WindowKernels& windows,
                    float* to) const;
  std::optional<WindowLoop> window_of(std::size_t y, std::size_t x) const;
  bool is_identity_outside(Combine combine) const;
  std::int64_t room_for(std::int64_t rows, std::int64_t cols) const;

  /// A linear guard over the loops of each role.
  struct GuardSteps {
    std::int64_t constant = 0, extent = 0;
    std::vector<std::int64_t> z, y, x;
  };

  /// Sets the indices of `axes`, the loops of one role, from their joint index.
  static void set_index(const std::vector<std::size_t>& axes, const Strides& strides,
                        std::int64_t joint, std::int64_t* index);
  /// is_inside() evaluates all guards, address_at() the address without gathers. `index` is by
  /// axis; `values` are those of the nodes.
  bool is_inside(const std::int64_t* index, std::span<const std::int64_t> values) const;
  std::int64_t address_at(const std::int64_t* index, std::span<const std::int64_t> values) const;
  /// Whether all nonlinear terms and all guards are constant along a loop.
  bool is_same_along(std::size_t axis) const;
  std::int64_t fixed_offset(const Tile& tile) const;
  /// The part of the offset that the z loops contribute.
  std::int64_t repeated_offset(const Tile& tile) const;
  View load_plain(const std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
                  std::byte* target) const;
  void load_gathered(const std::byte* buffer, const Tile& tile, GatherValues gathered,
                     Domain domain, std::byte* target) const;
  /// For accesses whose index arithmetic is constant along the innermost column loop.
  void load_by_runs(const std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
                    std::byte* target) const;
  void load_guarded(const std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
                    std::byte* target) const;
  /// Calls visit(row, column, address, inside) for every element.
  template <typename Visit>
  void for_each_element(const Tile& tile, Domain domain, GatherValues gathered,
                        Visit&& visit) const;
  bool gathers_by_element(Domain domain, GatherValues gathered) const;
  /// Adds the gathers' contributions in `row`, from `column` on, to `offsets`. `per_column`: those
  /// of gathers with a value for each column; otherwise of the others, to a single offset.
  void add_gathered(GatherValues gathered, std::int64_t row, std::span<std::int64_t> offsets,
                    std::int64_t column, bool per_column) const;
  /// The contributions of indices first, first + step, .. of one gather.
  static void add_gathered(const BoundGather& gather, GatherValues gathered, std::int64_t first,
                           std::int64_t step, std::span<std::int64_t> offsets);
  void finish_offsets(std::int32_t* offsets, std::int64_t count) const;
  void load_offsets(const std::byte* buffer, std::int64_t start, std::int64_t count,
                    const std::int32_t* offsets, std::byte* target) const;
  /// The contributions of columns x, x + 1, .. to the address.
  void column_offsets(std::int64_t x, std::span<std::int64_t> offsets) const;
  void store_short_runs(std::byte* buffer, const Tile& tile, const View& value) const;
  bool has_short_runs() const;
  /// Adds the gathers' contributions, without those of the bits `of_columns`, to the places of rows
  /// row, row + 1, ..
  void add_gathered_rows(GatherValues gathered, std::int64_t row, std::uint64_t of_columns,
                         std::span<std::int64_t> starts) const;
  /// Calls visit(row, places) for some rows at a time: `first` plus what y loops and gathers add.
  template <typename Visit>
  void for_gathered_rows(const Tile& tile, std::int64_t first, GatherValues gathered,
                         const Visit& visit) const;
  /// Whether each row is a contiguous run, or one element, at its own indices.
  bool takes_rows(const Tile& tile, Domain domain, GatherValues gathered) const;
  void load_rows(const std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
                 std::byte* target) const;
  void load_transposed(const std::byte* buffer, const Tile& tile, std::byte* target,
                       std::int64_t pitch) const;
  bool is_interleaved(const Tile& tile) const;
  void load_interleaved(const std::byte* buffer, const Tile& tile, Domain domain,
                        GatherValues gathered, std::byte* target) const;
  bool is_guarded_image(const Tile& tile) const;
  void load_guarded_image(const std::byte* buffer, const Tile& tile, Domain domain,
                          std::byte* target) const;
  std::int64_t row_offset(const Tile& tile, Domain domain, std::int64_t row) const;
  /// The checked addresses of all elements of `tile`, row by row.
  void find_places(const Tile& tile, GatherValues gathered, std::span<std::int64_t> places) const;
  [[noreturn]] static void refuse_index(std::int64_t index, std::int64_t extent);
  std::int64_t gathered_offset(GatherValues gathered, std::int64_t row, std::int64_t column) const;
  [[noreturn]] void refuse_address(std::int64_t address) const;

  BoundAccess access_;
  TileAxes axes_;
  std::vector<BoundNode> nodes_;
  std::size_t axis_count_ = 0;
  Strides y_, x_;
  // Adjacent loops merged where their strides allow it; the second without the innermost loop.
  Strides y_walk_, x_walk_, x_outer_;
  std::vector<std::int64_t> z_steps_;
  DType compute_;
  std::size_t storage_size_, compute_size_;
  std::int64_t x_period_ = 0;   // of columns of which outer loops repeat the inner ones; 0: none
  bool same_in_runs_ = false;   // nonlinear terms do not depend on the innermost column loop
  bool linear_guards_ = false;  // all guards are linear, and there are no other nonlinear terms
  std::vector<GuardSteps> guard_steps_;
  std::optional<Sliding> sliding_;
};

}  // namespace sinter::runtime::cpu
