// SPDX-License-Identifier: Apache-2.0
// Moving values between buffers and tiles.
//
// A tile covers rows y0 .. y0 + rows of the loops "y" and columns x0 .. x0 + cols of the loops "x",
// at one index of the loops "z". Which of the program's loops are which is the schedule's choice.
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
  const std::int64_t* z = nullptr;  // index by z loop
  std::int64_t y0 = 0, rows = 0, x0 = 0, cols = 0;
};

/// Which of a tile's directions a value has; one without columns has one value per row, one without
/// rows one per column.
struct Domain {
  bool rows = true, columns = true;
};

/// Indices that address gathers: view and type by instruction.
struct GatherValues {
  const View* views = nullptr;
  const DType* types = nullptr;
};

/// A loop over the elements of windows, of which neighbours overlap: an element lies at
/// stride * (window) + dilation * (loop), positions `pitch` elements apart.
struct WindowLoop {
  std::size_t y = 0;  // loop
  std::int64_t size = 0, stride = 1, dilation = 1, pitch = 1;
  int guard = -1;  // that says which positions there are
};

/// Of a tile of `elements`: one each, the least and the greatest, and what look_up wants.
constexpr std::int64_t offset_count(std::int64_t elements) {
  return elements + 2 + elements / kLeastLookup;
}

class TileAccess {
 public:
  TileAccess(const BoundLoops& loops, const BoundAccess& access, const TileAxes& axes);

  const BoundAccess& access() const { return access_; }

  /// The values of `tile` over `domain`: where they lie if they can be used there, else copied and
  /// converted to the compute type, densely, to `target`. `target` has room for the domain. Throws
  /// Error for a gathered index or an address out of range.
  View load(const std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
            void* target) const;

  /// Where the elements of `tile` lie but for the loops z, which no gather may depend on; and the
  /// values there. For accesses without guards of less than 2^31 elements. Throws like load.
  /// `offsets` has room for offset_count of them.
  void find_offsets(const Tile& tile, GatherValues gathered, std::int32_t* offsets) const;
  View load_at(const std::byte* buffer, const Tile& tile, const std::int32_t* offsets,
               std::byte* target) const;

  /// Columns after which elements that are the same in all rows, and that load() has to copy, come
  /// again; 0: no such access.
  std::int64_t period() const;

  /// Writes `value`, which is in the compute type. Throws like load.
  void store(std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
             const View& value) const;

  /// Writes the elements of `tile` one after the other along columns; `combine` with what is there,
  /// or in its place. Throws like load.
  void scatter(std::byte* buffer, const Tile& tile, GatherValues gathered, const View& value,
               std::optional<Combine> combine) const;

  /// Where a result over `domain` may be computed in place: sets address and row stride, and
  /// returns true, if the values are contiguous along columns and stored in the compute type.
  bool in_place(std::byte* buffer, const Tile& tile, Domain domain, std::byte*& address,
                std::int64_t& row_stride) const;

  /// Whether rows' neighbouring elements are a column's: a tile should be about as high as wide.
  bool is_transposed() const;
  /// Whether load() copies nothing.
  bool is_used_in_place() const;

  /// Whether reduce() takes the access, and load() would have to copy it.
  bool can_reduce() const;
  /// Combines the rows of `tile` where they lie with one accumulator for each column.
  void reduce(const std::byte* buffer, const Tile& tile, const ReduceKernels& kernels,
              std::byte* accumulators) const;

  /// Whether windows overlap so that reduce_sliding() takes fewer steps. `idempotent`: elements may
  /// be combined more than once.
  bool slides(bool idempotent) const;
  /// Room that it needs, and columns of a tile, at most `most`, of whole rows.
  std::size_t sliding_bytes() const;
  std::int64_t sliding_columns(std::int64_t most) const;
  /// What reduce() does, of tiles of all rows. `combine` is the kernel of `kind` as an operator.
  void reduce_sliding(const std::byte* buffer, const Tile& tile, OpKernel combine, Combine kind,
                      const ReduceKernels& kernels, std::byte* room, std::byte* accumulators) const;

  /// True if rows of `cols` columns follow each other in the buffer without gap or repetition.
  bool is_stream(std::int64_t cols) const;
  /// Where element (y, x) of such an access lies. z must have no loops.
  const std::byte* stream_address(const std::byte* buffer, std::int64_t y, std::int64_t x) const;

 private:
  /// Windows along the last column loop, along the one before, and over others.
  struct Sliding {
    std::optional<WindowLoop> inner, outer;
    std::vector<std::size_t> others;  // y loops
    std::int64_t other_windows = 1;
  };
  void find_sliding();
  std::optional<WindowLoop> window_of(std::size_t y, std::size_t x) const;
  bool is_identity_outside(Combine combine) const;
  std::int64_t room_for(std::int64_t rows, std::int64_t cols) const;

  /// A linear guard over the loops of each role.
  struct GuardSteps {
    std::int64_t constant = 0, extent = 0;
    std::vector<std::int64_t> z, y, x;
  };

  /// Sets the index of `axes`, the loops of one role, of which `joint` is the joint index.
  static void set_index(const std::vector<std::size_t>& axes, const Strides& strides,
                        std::int64_t joint, std::int64_t* index);
  /// Whether all guards hold, and the address without what is gathered, at an index by axis, where
  /// the nodes have `values`.
  bool is_inside(const std::int64_t* index, std::span<const std::int64_t> values) const;
  std::int64_t address_at(const std::int64_t* index, std::span<const std::int64_t> values) const;
  /// Whether all that is not linear, and all guards, are the same along a loop.
  bool is_same_along(std::size_t axis) const;
  std::int64_t fixed_offset(const Tile& tile) const;
  /// What the loops z add to it.
  std::int64_t repeated_offset(const Tile& tile) const;
  View load_plain(const std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
                  std::byte* target) const;
  void load_gathered(const std::byte* buffer, const Tile& tile, GatherValues gathered,
                     Domain domain, std::byte* target) const;
  /// For accesses whose index arithmetic is the same along the innermost column loop.
  void load_by_runs(const std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
                    std::byte* target) const;
  void load_guarded(const std::byte* buffer, const Tile& tile, Domain domain, GatherValues gathered,
                    std::byte* target) const;
  /// Calls visit(row, column, address, inside) for every element.
  template <typename Visit>
  void for_each_element(const Tile& tile, Domain domain, GatherValues gathered,
                        Visit&& visit) const;
  bool gathers_by_element(Domain domain, GatherValues gathered) const;
  /// Adds to `offsets` what the gathers contribute in `row` from `column` on: those that have a
  /// value for each column, or (then there is one offset) the others.
  void add_gathered(GatherValues gathered, std::int64_t row, std::span<std::int64_t> offsets,
                    std::int64_t column, bool per_column) const;
  /// What columns x, x + 1, .. add to the address.
  void column_offsets(std::int64_t x, std::span<std::int64_t> offsets) const;
  bool has_short_runs() const;
  /// Whether rows are neighbouring elements, each at its own index of one gather.
  bool takes_rows(Domain domain, GatherValues gathered) const;
  void load_rows(const std::byte* buffer, const Tile& tile, GatherValues gathered,
                 std::byte* target) const;
  void load_transposed(const std::byte* buffer, const Tile& tile, std::byte* target) const;
  bool is_interleaved(const Tile& tile) const;
  void load_interleaved(const std::byte* buffer, const Tile& tile, Domain domain,
                        std::byte* target) const;
  bool is_guarded_image(const Tile& tile) const;
  void load_guarded_image(const std::byte* buffer, const Tile& tile, Domain domain,
                          std::byte* target) const;
  std::int64_t row_offset(const Tile& tile, Domain domain, std::int64_t row) const;
  /// The addresses of all elements of `tile`, one after the other, checked.
  void find_places(const Tile& tile, GatherValues gathered, std::span<std::int64_t> places) const;
  [[noreturn]] static void refuse_index(std::int64_t index, std::int64_t extent);
  std::int64_t gathered_offset(GatherValues gathered, std::int64_t row, std::int64_t column) const;
  [[noreturn]] void refuse_address(std::int64_t address) const;

  BoundAccess access_;
  TileAxes axes_;
  std::vector<BoundNode> nodes_;
  std::size_t axis_count_ = 0;
  Strides y_, x_;
  Strides y_walk_, x_walk_;  // with neighbouring loops as one that are walked as one
  std::vector<std::int64_t> z_steps_;
  DType compute_;
  std::size_t storage_size_, compute_size_;
  bool same_in_runs_ = false;   // what is not linear does not depend on the innermost column loop
  bool linear_guards_ = false;  // all guards are linear, and nothing else is not
  std::vector<GuardSteps> guard_steps_;
  std::optional<Sliding> sliding_;
};

}  // namespace sinter::runtime::cpu
