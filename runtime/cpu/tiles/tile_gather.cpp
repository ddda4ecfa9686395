// SPDX-License-Identifier: Apache-2.0
// Accesses with addresses that depend on values: gathers, element loads, scatters.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/vectors/index_ops.h"
#include "runtime/cpu/ops/vectors/vector_moves.h"
#include "runtime/cpu/tiles/tile_access.h"
#include "runtime/cpu/tiles/tile_runs.h"
#include "runtime/format_error.h"

namespace sinter::runtime::cpu {
namespace {

/// Elements loaded in one piece, with offsets on the stack.
constexpr std::int64_t kPiece = 1024;
/// The offset of a joint index over several loops.
std::int64_t strided_offset(const std::vector<std::int64_t>& extents,
                            const std::vector<std::int64_t>& steps, std::int64_t joint) {
  std::int64_t offset = 0;
  for (std::size_t d = extents.size(); d-- > 0;) {
    offset += joint % extents[d] * steps[d];
    joint /= extents[d];
  }
  return offset;
}

template <typename T, typename Offset>
void load_at(const std::byte* buffer, std::span<const Offset> offsets, std::byte* target) {
  const T* from = reinterpret_cast<const T*>(buffer);
  T* to = reinterpret_cast<T*>(target);
  for (std::size_t i = 0; i < offsets.size(); ++i) to[i] = from[offsets[i]];
}

template <typename Offset>
void load_elements_as_stored(std::size_t size, const std::byte* buffer,
                             std::span<const Offset> offsets, std::byte* target) {
  switch (size) {
    case 1: return load_at<std::uint8_t>(buffer, offsets, target);
    case 2: return load_at<std::uint16_t>(buffer, offsets, target);
    case 4: return load_at<std::uint32_t>(buffer, offsets, target);
    default: return load_at<std::uint64_t>(buffer, offsets, target);
  }
}

/// At most kPiece elements.
template <typename Offset>
void load_elements(DType storage, const std::byte* buffer, std::span<const Offset> offsets,
                   std::byte* target) {
  if (!is_narrow_float(storage))
    return load_elements_as_stored(size_of(storage), buffer, offsets, target);
  alignas(std::uint16_t) std::byte piece[kPiece * sizeof(std::uint16_t)];
  load_elements_as_stored(size_of(storage), buffer, offsets, piece);
  load_run(storage, piece, 1, target, std::ssize(offsets));
}

/// Offsets as at most kMost runs of contiguous elements, as in an image with padding.
struct Runs {
  static constexpr std::size_t kMost = 32, kShortest = 16;  // kShortest: average length
  std::size_t count = 0;                                    // 0: too many runs
  std::size_t first[kMost + 1];  // start of each run, then the end of the last

  void find(std::span<const std::int64_t> offsets) {
    count = 0;
    const std::size_t most = std::min(kMost, offsets.size() / kShortest);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      if (i > 0 && offsets[i] == offsets[i - 1] + 1) continue;
      if (count == most) {
        count = 0;
        return;
      }
      first[count++] = i;
    }
    first[count] = offsets.size();
  }
};

}  // namespace

void TileAccess::refuse_index(std::int64_t index, std::int64_t extent) {
  throw usage_error("index {} is out of range: the gathered dimension has {} elements", index,
                    extent);
}

std::int64_t TileAccess::gathered_offset(GatherValues gathered, std::int64_t row,
                                         std::int64_t column) const {
  std::int64_t offset = 0;
  for (const BoundGather& gather : access_.gathers) {
    const View& view = gathered.views[gather.value];
    const DType type = gathered.types[gather.value];
    const std::int64_t at = row * view.row_stride + (view.per_column ? column : 0);
    const std::int64_t found = read_int(type, view.data, at);
    const bool wraps = found < 0 && type != DType::kUInt64;
    const std::int64_t index = wraps ? found + gather.extent : found;
    if (index < 0 || index >= gather.extent) refuse_index(found, gather.extent);
    offset += index * gather.stride;
  }
  return offset;
}

void TileAccess::add_gathered(GatherValues gathered, std::int64_t row,
                              std::span<std::int64_t> offsets, std::int64_t column,
                              bool per_column) const {
  for (const BoundGather& gather : access_.gathers)
    if (const View& view = gathered.views[gather.value]; view.per_column == per_column)
      add_gathered(gather, gathered, row * view.row_stride + (per_column ? column : 0),
                   per_column ? 1 : 0, offsets);
}

void TileAccess::add_gathered(const BoundGather& gather, GatherValues gathered, std::int64_t first,
                              std::int64_t step, std::span<std::int64_t> offsets) {
  const DType type = gathered.types[gather.value];
  const auto* values = static_cast<const std::byte*>(gathered.views[gather.value].data) +
                       first * static_cast<std::int64_t>(size_of(type));
  if (add_indices(type, values, step, gather.extent, gather.stride, offsets.data(),
                  std::ssize(offsets)))
    return;
  for (std::int64_t i = 0; i < std::ssize(offsets); ++i) {
    const std::int64_t found = read_int(type, values, i * step);
    const bool wraps = found < 0 && type != DType::kUInt64;
    const std::int64_t index = wraps ? found + gather.extent : found;
    if (index < 0 || index >= gather.extent) refuse_index(found, gather.extent);
  }
}

std::int64_t TileAccess::row_offset(const Tile& tile, Domain domain, std::int64_t row) const {
  return fixed_offset(tile) +
         (domain.rows ? strided_offset(y_.extents, y_.steps, tile.y0 + row) : 0);
}

void TileAccess::column_offsets(std::int64_t x, std::span<std::int64_t> offsets) const {
  if (x_.linear) {
    fill_offsets(x * x_.step, x_.step, offsets.data(), std::ssize(offsets));
    return;
  }
  constexpr std::int64_t kShort = 16;  // for fewer, a call takes longest
  const std::int64_t count = std::ssize(offsets);
  if (const std::int64_t width = x_walk_.extents.back();
      x_walk_.extents.size() == 2 && width < kShort) {
    const std::int64_t outer = x_walk_.steps[0], inner = x_walk_.steps[1];
    std::int64_t base = x / width * outer, i = x % width;
    for (std::int64_t c = 0; c < count; base += outer, i = 0)
      for (const std::int64_t end = std::min(width, i + count - c); i < end; ++i, ++c)
        offsets[static_cast<std::size_t>(c)] = base + i * inner;
    return;
  }
  Walker walker(x_walk_, x);
  for (std::int64_t c = 0; c < count;) {
    const std::int64_t n = walker.run(count - c);
    if (n >= kShort) {
      fill_offsets(walker.offset(), walker.run_step(), offsets.data() + c, n);
    } else {
      std::int64_t offset = walker.offset();
      for (std::int64_t i = 0; i < n; ++i, offset += walker.run_step())
        offsets[static_cast<std::size_t>(c + i)] = offset;
    }
    walker.skip(n);
    c += n;
  }
}

void TileAccess::load_gathered(const std::byte* buffer, const Tile& tile, GatherValues gathered,
                               Domain domain, std::byte* target) const {
  const std::int64_t rows = domain.rows ? tile.rows : 1;
  const std::int64_t cols = domain.columns ? tile.cols : 1;
  // True if all rows use the same columns, which is common.
  const bool alike = std::ranges::all_of(access_.gathers, [&](const BoundGather& gather) {
    const View& view = gathered.views[gather.value];
    return !view.per_column || view.row_stride == 0;
  });
  const std::int64_t fixed = fixed_offset(tile);
  std::int64_t room[kPiece];
  Runs runs;
  for (std::int64_t c = 0; c < cols; c += kPiece) {
    const std::span offsets(room, static_cast<std::size_t>(std::min(kPiece, cols - c)));
    Walker y(y_walk_, domain.rows ? tile.y0 : 0);
    for (std::int64_t r = 0; r < rows; ++r) {
      if (!alike || r == 0) {
        column_offsets(tile.x0 + c, offsets);
        add_gathered(gathered, r, offsets, c, /*per_column=*/true);
        runs.count = 0;
        if (alike && rows > 1) runs.find(offsets);
      }
      std::int64_t start = fixed + (domain.rows ? y.offset() : 0);
      y.next();
      add_gathered(gathered, r, {&start, 1}, c, /*per_column=*/false);
      const std::byte* from = buffer + start * static_cast<std::int64_t>(storage_size_);
      std::byte* to = target + static_cast<std::size_t>(r * cols + c) * compute_size_;
      if (runs.count == 0) {
        load_elements<std::int64_t>(access_.storage, from, offsets, to);
        continue;
      }
      for (std::size_t k = 0; k < runs.count; ++k) {
        const std::size_t first = runs.first[k], n = runs.first[k + 1] - first;
        load_run(access_.storage, from + offsets[first] * static_cast<std::int64_t>(storage_size_),
                 1, to + first * compute_size_, static_cast<std::int64_t>(n));
      }
    }
  }
}

std::int64_t TileAccess::repeated_offset(const Tile& tile) const {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < z_steps_.size(); ++d) offset += z_steps_[d] * tile.z[d];
  return offset;
}

void TileAccess::find_column_offsets(const Tile& tile, GatherValues gathered,
                                     std::uint64_t of_columns, std::int32_t* offsets) const {
  std::int64_t room[kPiece];
  for (std::int64_t c = 0; c < tile.cols; c += kPiece) {
    const std::span piece(room, static_cast<std::size_t>(std::min(kPiece, tile.cols - c)));
    column_offsets(tile.x0 + c, piece);
    for (std::size_t g = 0; g < access_.gathers.size(); ++g)
      if (of_columns >> g & 1) add_gathered(access_.gathers[g], gathered, c, 1, piece);
    narrow_offsets(room, offsets + c, std::ssize(piece));
  }
  finish_offsets(offsets, tile.cols);
}

void TileAccess::load_columns(const std::byte* buffer, const Tile& tile, GatherValues gathered,
                              std::uint64_t of_columns, const std::int32_t* offsets,
                              std::byte* target) const {
  const std::int64_t fixed = fixed_offset(tile);
  Walker y(y_walk_, tile.y0);
  std::int64_t room[kPiece];
  for (std::int64_t r = 0; r < tile.rows; r += kPiece) {
    const std::span starts(room, static_cast<std::size_t>(std::min(kPiece, tile.rows - r)));
    for (std::int64_t& start : starts) {
      start = fixed + y.offset();
      y.next();
    }
    add_gathered_rows(gathered, r, of_columns, starts);
    const auto [first, last] = std::ranges::minmax(starts);
    if (first + offsets[tile.cols] < 0) refuse_address(first + offsets[tile.cols]);
    if (last + offsets[tile.cols + 1] >= access_.count)
      refuse_address(last + offsets[tile.cols + 1]);
    if (storage_size_ == sizeof(std::uint32_t)) {
      look_up_rows(reinterpret_cast<const std::uint32_t*>(buffer), access_.count, starts, offsets,
                   offsets + tile.cols + 2, tile.cols, reinterpret_cast<std::uint32_t*>(target));
      target += starts.size() * static_cast<std::size_t>(tile.cols) * compute_size_;
      continue;
    }
    for (const std::int64_t start : starts) {
      load_offsets(buffer, start, tile.cols, offsets, target);
      target += static_cast<std::size_t>(tile.cols) * compute_size_;
    }
  }
}

void TileAccess::find_offsets(const Tile& tile, GatherValues gathered,
                              std::int32_t* offsets) const {
  const std::int64_t count = tile.rows * tile.cols;
  if (!access_.is_plain()) {
    const std::int64_t start = repeated_offset(tile);
    for_each_element(tile, {true, true}, gathered,
                     [&](std::int64_t r, std::int64_t c, std::int64_t address, bool) {
                       offsets[r * tile.cols + c] = static_cast<std::int32_t>(address - start);
                     });
  }
  std::int64_t room[kPiece];
  for (std::int64_t r = 0; access_.is_plain() && r < tile.rows; ++r)
    for (std::int64_t c = 0; c < tile.cols; c += kPiece) {
      const std::span piece(room, static_cast<std::size_t>(std::min(kPiece, tile.cols - c)));
      column_offsets(tile.x0 + c, piece);
      add_gathered(gathered, r, piece, c, /*per_column=*/true);
      std::int64_t start =
          access_.address.constant + strided_offset(y_.extents, y_.steps, tile.y0 + r);
      add_gathered(gathered, r, {&start, 1}, c, /*per_column=*/false);
      for (std::size_t i = 0; i < piece.size(); ++i)
        offsets[r * tile.cols + c + static_cast<std::int64_t>(i)] =
            static_cast<std::int32_t>(start + piece[i]);
    }
  finish_offsets(offsets, count);
}

/// Appends bounds, since computed addresses were only checked for these places, and lookups.
void TileAccess::finish_offsets(std::int32_t* offsets, std::int64_t count) const {
  find_bounds(offsets, count, offsets[count], offsets[count + 1]);
  if (storage_size_ == sizeof(std::uint32_t)) find_lookups(offsets, count, offsets + count + 2);
}

View TileAccess::load_at(const std::byte* buffer, const Tile& tile, const std::int32_t* offsets,
                         std::byte* target) const {
  load_offsets(buffer, repeated_offset(tile), tile.rows * tile.cols, offsets, target);
  return {target, tile.cols, true};
}

/// Stores whose runs are too short for a call each, at plain places.
void TileAccess::store_short_runs(std::byte* buffer, const Tile& tile, const View& value) const {
  std::int64_t room[kPiece];
  for (std::int64_t c = 0; c < tile.cols; c += kPiece) {
    const std::span places(room, static_cast<std::size_t>(std::min(kPiece, tile.cols - c)));
    column_offsets(tile.x0 + c, places);
    const std::int64_t fixed = fixed_offset(tile);
    Walker y(y_walk_, tile.y0);
    for (std::int64_t r = 0; r < tile.rows; ++r, y.next())
      with_compute_type(compute_, [&](auto* kind) {
        using T = std::remove_pointer_t<decltype(kind)>;
        const T* from = static_cast<const T*>(value.data) + r * value.row_stride + c;
        T* to = reinterpret_cast<T*>(buffer) + fixed + y.offset();
        for (std::size_t i = 0; i < places.size(); ++i) to[places[i]] = from[i];
      });
  }
}

/// The elements `start` + offsets[0] .. offsets[count - 1].
void TileAccess::load_offsets(const std::byte* buffer, std::int64_t start, std::int64_t count,
                              const std::int32_t* offsets, std::byte* target) const {
  const std::byte* from = buffer + start * static_cast<std::int64_t>(storage_size_);
  if (start + offsets[count] < 0) refuse_address(start + offsets[count]);
  if (start + offsets[count + 1] >= access_.count) refuse_address(start + offsets[count + 1]);
  if (storage_size_ == sizeof(std::uint32_t)) {
    look_up(reinterpret_cast<const std::uint32_t*>(from), access_.count - start, offsets,
            offsets + count + 2, count, reinterpret_cast<std::uint32_t*>(target));
    return;
  }
  for (std::int64_t i = 0; i < count; i += kPiece)
    load_elements<std::int32_t>(
        access_.storage, from,
        std::span(offsets + i, static_cast<std::size_t>(std::min(kPiece, count - i))),
        target + static_cast<std::size_t>(i) * compute_size_);
}

/// Replaces elements at plain places, piece by piece.
void TileAccess::scatter_row(std::byte* buffer, const Tile& tile, GatherValues gathered,
                             const View& value) const {
  std::int64_t start = row_offset(tile, {true, true}, 0);
  add_gathered(gathered, 0, {&start, 1}, 0, /*per_column=*/false);
  std::int64_t room[kPiece];
  for (std::int64_t c = 0; c < tile.cols; c += kPiece) {
    const std::span places(room, static_cast<std::size_t>(std::min(kPiece, tile.cols - c)));
    column_offsets(tile.x0 + c, places);
    add_gathered(gathered, 0, places, c, /*per_column=*/true);
    with_compute_type(compute_, [&](auto* kind) {
      using T = std::remove_pointer_t<decltype(kind)>;
      const std::int64_t step = value.per_column ? 1 : 0;
      const T* from = static_cast<const T*>(value.data) + c * step;
      T* to = reinterpret_cast<T*>(buffer) + start;
      for (std::size_t i = 0; i < places.size(); ++i)
        to[places[i]] = from[static_cast<std::int64_t>(i) * step];
    });
  }
}

void TileAccess::scatter(std::byte* buffer, const Tile& tile, GatherValues gathered,
                         const View& value, std::optional<Combine> combine) const {
  const bool same_in_row = std::ranges::none_of(access_.gathers, [&](const BoundGather& gather) {
    return gathered.views[gather.value].per_column;
  });
  if (access_.is_plain() && !combine && compute_ == access_.storage && value.per_column &&
      same_in_row && x_.linear && x_.step == 1) {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const std::int64_t start =
          row_offset(tile, {true, true}, r) + tile.x0 + gathered_offset(gathered, r, 0);
      const auto size = static_cast<std::int64_t>(storage_size_);
      std::memcpy(buffer + start * size,
                  static_cast<const std::byte*>(value.data) + r * value.row_stride * size,
                  static_cast<std::size_t>(tile.cols * size));
    }
    return;
  }
  if (access_.is_plain() && !combine && compute_ == access_.storage && tile.rows == 1)
    return scatter_row(buffer, tile, gathered, value);
  // Column by column, because adjacent rows often share cache lines. Within a row, elements keep
  // their order.
  std::vector<std::int64_t> places(static_cast<std::size_t>(tile.rows * tile.cols));
  if (access_.is_plain()) {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const std::span row(places.data() + r * tile.cols, static_cast<std::size_t>(tile.cols));
      std::int64_t start = row_offset(tile, {true, true}, r);
      add_gathered(gathered, r, {&start, 1}, 0, /*per_column=*/false);
      column_offsets(tile.x0, row);
      for (std::int64_t& place : row) place += start;
      add_gathered(gathered, r, row, 0, /*per_column=*/true);
    }
  } else {
    find_places(tile, gathered, places);
  }
  const auto place = [&](std::int64_t r, std::int64_t c) {
    return places[static_cast<std::size_t>(r * tile.cols + c)];
  };
  const bool narrow = compute_ != access_.storage;
  with_compute_type(compute_, [&](auto* kind) {
    using T = std::remove_pointer_t<decltype(kind)>;
    const T* from = static_cast<const T*>(value.data);
    T* to = reinterpret_cast<T*>(buffer);
    for (std::int64_t c = 0; c < tile.cols; ++c) {
      for (std::int64_t r = 0; r < tile.rows; ++r) {
        const T x = from[r * value.row_stride + (value.per_column ? c : 0)];
        if (!narrow) {
          T& element = to[place(r, c)];
          element = combine ? combine_values<T>(*combine, element, x) : x;
          continue;
        }
        std::byte* element = buffer + place(r, c) * static_cast<std::int64_t>(storage_size_);
        const auto wide = static_cast<double>(x);
        store_double(
            access_.storage, element,
            combine ? combine_values<double>(*combine, load_double(access_.storage, element), wide)
                    : wide);
      }
    }
  });
}

}  // namespace sinter::runtime::cpu
