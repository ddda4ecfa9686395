// SPDX-License-Identifier: Apache-2.0
// Reductions over overlapping windows: one dimension after another; wide windows by doubling
// (maxima and minima).
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "runtime/cpu/tiles/tile_access.h"
#include "runtime/cpu/tiles/tile_runs.h"

namespace sinter::runtime::cpu {
namespace {

/// Elements combined at once; they must fit a core's private cache.
constexpr std::int64_t kRoom = 16 << 10, kMostRoom = 1 << 20;
/// Elements of float32 windows that are combined in registers: of rows, and along one.
constexpr std::int64_t kMostTaps = 64, kMostAlong = 8;

/// The largest power of two that is at most `size`: windows of this width are made by doubling.
std::int64_t doubled(std::int64_t size) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size)));
}
std::int64_t doublings(std::int64_t size) {
  return std::bit_width(static_cast<std::uint64_t>(size)) - 1 + (doubled(size) < size ? 1 : 0);
}

}  // namespace

/// The window of element loop `y` over the dimension along which loop `x` moves; nullopt if they do
/// not form one.
std::optional<WindowLoop> TileAccess::window_of(std::size_t y, std::size_t x) const {
  WindowLoop loop{y, y_.extents[y], 1, 1, 1, -1};
  const std::int64_t along = y_.steps[y], across = x_.steps[x];
  if (along <= 0 || across <= 0) return std::nullopt;
  for (std::size_t g = 0; g < guard_steps_.size(); ++g) {
    const GuardSteps& guard = guard_steps_[g];
    if (guard.y[y] == 0) continue;
    const auto others = [](const std::vector<std::int64_t>& steps, std::size_t own) {
      for (std::size_t d = 0; d < steps.size(); ++d)
        if (d != own && steps[d] != 0) return true;
      return false;
    };
    if (loop.guard >= 0 || others(guard.y, y) || others(guard.x, x)) return std::nullopt;
    loop.guard = static_cast<int>(g);
    loop.stride = guard.x[x];
    loop.dilation = guard.y[y];
  }
  if (loop.guard < 0) {
    const std::int64_t unit = std::gcd(along, across);
    loop.stride = across / unit;
    loop.dilation = along / unit;
  }
  if (loop.stride <= 0 || loop.dilation <= 0) return std::nullopt;
  // Windows that share no position, as the columns of a matrix of which each is reduced.
  const std::int64_t common = std::gcd(loop.stride, loop.dilation);
  if (loop.dilation / common >= x_.extents[x]) return std::nullopt;
  loop.pitch = along / loop.dilation;
  if (loop.pitch * loop.dilation != along || loop.pitch * loop.stride != across ||
      loop.stride > loop.size * loop.dilation)
    return std::nullopt;
  return loop;
}

void TileAccess::find_sliding() {
  if (x_.extents.empty() || y_.extents.empty() || compute_ == DType::kBool ||
      !access_.gathers.empty() || !(access_.is_plain() || linear_guards_))
    return;
  // Guards without a window loop are constant over all elements of a row; not supported.
  for (const GuardSteps& guard : guard_steps_)
    if (std::ranges::all_of(guard.y, [](std::int64_t step) { return step == 0; })) return;
  Sliding found;
  const std::size_t last = x_.extents.size() - 1;
  const auto choose = [&](std::size_t x, bool is_inner) -> std::optional<WindowLoop> {
    std::optional<WindowLoop> best;
    for (std::size_t y = 0; y < y_.extents.size(); ++y) {
      if (!is_inner && found.inner && found.inner->y == y) continue;
      const auto loop = window_of(y, x);
      if (loop && (!is_inner || loop->pitch == 1) && (!best || loop->dilation < best->dilation))
        best = loop;
    }
    return best;
  };
  found.inner = choose(last, true);
  if (!found.inner && x_.steps[last] != 1) return;
  if (last > 0) found.outer = choose(last - 1, false);
  if (!found.inner && !found.outer) return;
  for (std::size_t y = 0; y < y_.extents.size(); ++y) {
    if ((found.inner && found.inner->y == y) || (found.outer && found.outer->y == y)) continue;
    found.others.push_back(y);
    found.other_windows *= y_.extents[y];
  }
  // Guards outside the sliding windows must not vary along the loops over which these slide.
  for (const GuardSteps& guard : guard_steps_) {
    const auto is_of = [&](const std::optional<WindowLoop>& loop) {
      return loop && guard.y[loop->y] != 0;
    };
    if ((!is_of(found.inner) && guard.x[last] != 0) ||
        (found.outer && !is_of(found.outer) && guard.x[last - 1] != 0))
      return;
  }
  sliding_ = found;
}

bool TileAccess::slides(Combine combine) const {
  if (!sliding_ || room_for(1, x_.extents.back()) > kMostRoom) return false;
  const bool idempotent = combine != Combine::kSum;
  const auto steps_of = [&](const std::optional<WindowLoop>& loop) -> std::int64_t {
    if (!loop) return 0;
    return idempotent ? std::min(loop->size - 1, loop->stride * doublings(loop->size))
                      : loop->size - 1;
  };
  const std::int64_t stride = sliding_->inner ? sliding_->inner->stride : 1,
                     rows = sliding_->outer ? sliding_->outer->stride : 1;
  std::int64_t windows = 1;
  for (const std::int64_t size : y_.extents) windows *= size;
  if (windows == 0) return false;
  if (combines_in_registers(combine)) {
    const std::int64_t along =
        sliding_->inner ? std::min(sliding_->inner->size * std::min<std::int64_t>(stride, 2),
                                   3 * doublings(sliding_->inner->size))
                        : 0;
    const std::int64_t down = windows / (sliding_->inner ? sliding_->inner->size : 1) * stride;
    return down + along + 3 <= (can_reduce(combine) ? 2 : 4) * windows;
  }
  const std::int64_t inner =
      sliding_->inner ? (idempotent ? doublings(sliding_->inner->size) : sliding_->inner->size - 1)
                      : 0;
  const std::int64_t work =
      stride * (rows * sliding_->other_windows / 2 + steps_of(sliding_->outer) + inner) + 2;
  const std::int64_t one_by_one = can_reduce(combine) ? windows : 2 * windows;
  return work <= one_by_one;
}

std::int64_t TileAccess::room_for(std::int64_t rows, std::int64_t cols) const {
  const auto reach = [](const std::optional<WindowLoop>& loop, std::int64_t count) {
    return loop ? (count - 1) * loop->stride + (loop->size - 1) * loop->dilation + 1 : count;
  };
  return reach(sliding_->outer, rows) * reach(sliding_->inner, cols);
}

std::size_t TileAccess::sliding_bytes() const {
  const std::int64_t room = std::max(kRoom, room_for(1, x_.extents.back()));
  // Source and target of each pass.
  return static_cast<std::size_t>(2 * room + kReadBehind) * compute_size_;
}

std::int64_t TileAccess::sliding_columns(std::int64_t most) const {
  std::int64_t columns = 1;
  for (std::size_t d = x_.extents.size(); d-- > 0;) {
    if (columns * x_.extents[d] > most)
      return columns *
             std::max<std::int64_t>(1, d + 1 == x_.extents.size() ? most : most / columns);
    columns *= x_.extents[d];
  }
  return columns;
}

bool TileAccess::is_identity_outside(Combine combine) const {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (combine) {
    case Combine::kSum: return access_.fill == 0;
    case Combine::kMax: return access_.fill == -infinity;
    case Combine::kMin: return access_.fill == infinity;
    default: return false;
  }
}

/// Where windows that do not slide begin, in relation to the first; nullopt if those at `at`, the
/// index of each column loop, are outside.
std::optional<std::int64_t> TileAccess::offset_of_window(const Tile& tile, const std::int64_t* at,
                                                         std::int64_t number) const {
  std::array<std::int64_t, kMaxAxes> of_window{};
  std::int64_t offset = 0;
  for (const std::size_t y : sliding_->others) {
    of_window[y] = number % y_.extents[y];
    number /= y_.extents[y];
    offset += of_window[y] * y_.steps[y];
  }
  for (std::size_t g = 0; g < guard_steps_.size(); ++g) {
    if ((sliding_->inner && sliding_->inner->guard == static_cast<int>(g)) ||
        (sliding_->outer && sliding_->outer->guard == static_cast<int>(g)))
      continue;
    const GuardSteps& guard = guard_steps_[g];
    std::int64_t index = guard.constant;
    for (std::size_t d = 0; d < guard.z.size(); ++d) index += guard.z[d] * tile.z[d];
    for (std::size_t d = 0; d < guard.x.size(); ++d) index += guard.x[d] * at[d];
    for (std::size_t d = 0; d < guard.y.size(); ++d) index += guard.y[d] * of_window[d];
    if (index < 0 || index >= guard.extent) return std::nullopt;
  }
  return offset;
}

void TileAccess::combine_rows(const std::byte* buffer, std::span<const std::int64_t> others,
                              std::int64_t start, std::int64_t y_pitch, const Covered& of_rows,
                              const Covered& in_row, std::int64_t rows,
                              const WindowKernels& windows, float* to) const {
  const auto fill = static_cast<float>(access_.fill);
  const WindowLoop outer = sliding_->outer.value_or(WindowLoop{});
  const std::int64_t size = sliding_->outer ? outer.size : 1, pitch = in_row.count,
                     columns = in_row.high - in_row.low;
  std::array<std::int64_t, kMostTaps> taps;
  for (std::int64_t r = 0, n = 0; r < rows; r += n) {
    // Positions of the first row's elements; rows of which all are inside go together.
    const std::int64_t first = r * outer.stride;
    std::int64_t count = 0, low = 0, high = 0;
    bool all = true;
    for (const std::int64_t other : others)
      for (std::int64_t k = 0; k < size; ++k) {
        const std::int64_t row = first + k * outer.dilation;
        const bool inside = row >= of_rows.low && row < of_rows.high;
        all = all && inside;
        if (!inside) continue;
        const std::int64_t tap = other + k * outer.dilation * y_pitch;
        low = count == 0 ? tap : std::min(low, tap);
        high = count == 0 ? tap : std::max(high, tap);
        taps[static_cast<std::size_t>(count++)] = tap;
      }
    float* const out = to + r * pitch;
    n = 1;
    if (count == 0 || columns <= 0) {
      std::fill_n(out, pitch, fill);
      continue;
    }
    if (all) {
      const std::int64_t most = (of_rows.high - 1 - (size - 1) * outer.dilation) / outer.stride;
      n = std::clamp<std::int64_t>(most - r + 1, 1, rows - r);
    }
    const std::int64_t from = start + first * y_pitch,
                       end = from + (n - 1) * outer.stride * y_pitch + high + columns;
    if (from + low < 0) refuse_address(from + low);
    if (end > access_.count) refuse_address(end - 1);
    windows.rows({reinterpret_cast<const float*>(buffer) + from, outer.stride * y_pitch, n, columns,
                  taps.data(), count, 1, out + in_row.low, pitch});
    for (std::int64_t k = 0; columns < pitch && k < n; ++k) {
      std::fill_n(out + k * pitch, in_row.low, fill);
      std::fill(out + k * pitch + in_row.high, out + (k + 1) * pitch, fill);
    }
  }
}

bool TileAccess::combines_in_registers(Combine combine) const {
  return access_.storage == DType::kFloat32 && is_identity_outside(combine) &&
         sliding_->other_windows * (sliding_->outer ? sliding_->outer->size : 1) <= kMostTaps;
}

void TileAccess::reduce_sliding(const std::byte* buffer, const Tile& tile, OpKernel combine,
                                Combine kind, std::byte* room, std::byte* results) const {
  const bool idempotent = kind != Combine::kSum;
  const Sliding& sliding = *sliding_;
  const bool in_float32 = access_.storage == DType::kFloat32;
  const WindowKernels windows = in_float32 ? find_window_kernels(kind) : WindowKernels{};
  const std::size_t last = x_.extents.size() - 1;
  const auto size = static_cast<std::int64_t>(storage_size_),
             wide = static_cast<std::int64_t>(compute_size_);
  const std::int64_t capacity = std::max(kRoom, room_for(1, x_.extents.back()));
  std::byte *a = room, *b = room + capacity * wide;
  // to = combine(left, right) for rows of `cols` elements, `pitch` apart.
  const auto combined = [&](std::byte* to, std::int64_t to_pitch, const std::byte* left,
                            const std::byte* right, std::int64_t pitch, std::int64_t rows,
                            std::int64_t cols) {
    OpArgs args{rows, cols, to, to_pitch, {}};
    args.args[0] = {left, pitch, true};
    args.args[1] = {right, pitch, true};
    combine(args);
  };

  std::array<std::int64_t, kMaxAxes> at{};
  for (std::int64_t c = 0; c < tile.cols;) {
    std::int64_t rest = tile.x0 + c;
    for (std::size_t d = x_.extents.size(); d-- > 0; rest /= x_.extents[d])
      at[d] = rest % x_.extents[d];
    const std::int64_t cols = std::min(tile.cols - c, x_.extents[last] - at[last]);
    std::int64_t rows = 1;
    if (sliding.outer && cols == x_.extents[last]) {
      rows = std::min((tile.cols - c) / cols, x_.extents[last - 1] - at[last - 1]);
      while (rows > 1 && room_for(rows, cols) > capacity) rows = (rows + 1) / 2;
    }
    const auto range_of = [&](const std::optional<WindowLoop>& loop, std::size_t x,
                              std::int64_t count) {
      Covered range{at[x], count, 0, count};
      if (!loop) return range;
      range.count = (count - 1) * loop->stride + (loop->size - 1) * loop->dilation + 1;
      range.first = at[x] * loop->stride;
      range.high = range.count;
      if (loop->guard < 0) return range;
      const GuardSteps& guard = guard_steps_[static_cast<std::size_t>(loop->guard)];
      std::int64_t base = guard.constant + range.first;
      for (std::size_t d = 0; d < guard.z.size(); ++d) base += guard.z[d] * tile.z[d];
      const Interval inside = valid(base, 1, guard.extent, range.count);
      range.low = inside.low;
      range.high = inside.high;
      return range;
    };
    const Covered in_row = range_of(sliding.inner, last, cols);
    const Covered of_rows = last > 0 ? range_of(sliding.outer, last - 1, rows) : Covered{};
    const std::int64_t pitch = in_row.count;
    const std::int64_t x_pitch = sliding.inner ? 1 : x_.steps[last],
                       y_pitch = sliding.outer ? sliding.outer->pitch
                                 : last > 0    ? x_.steps[last - 1]
                                               : 0;
    std::int64_t start = fixed_offset(tile) + in_row.first * x_pitch + of_rows.first * y_pitch;
    for (std::size_t d = 0; d + 1 < last; ++d) start += at[d] * x_.steps[d];

    const bool doubles =
        sliding.outer && idempotent && !(in_float32 && sliding.outer->size <= kMostAlong) &&
        sliding.outer->stride * doublings(sliding.outer->size) < sliding.outer->size - 1;
    // Combines rows where they lie if the padding value is the identity.
    const bool in_place = !doubles && combines_in_registers(kind);
    if (in_place) {
      std::array<std::int64_t, kMostTaps> others;
      std::size_t count = 0;
      for (std::int64_t other = 0; other < sliding.other_windows; ++other)
        if (const auto offset = offset_of_window(tile, at.data(), other)) others[count++] = *offset;
      combine_rows(buffer, std::span(others).first(count), start + in_row.low * x_pitch, y_pitch,
                   of_rows, in_row, rows, windows, reinterpret_cast<float*>(b));
      std::swap(a, b);
    }
    // Loads the input's rows with padding and combines the windows that do not slide.
    const std::int64_t count = of_rows.count * pitch, valid_cols = in_row.high - in_row.low;
    for (std::int64_t other = 0; !in_place && other < sliding.other_windows; ++other) {
      const auto offset = offset_of_window(tile, at.data(), other);
      const bool inside = offset && of_rows.high > of_rows.low && valid_cols > 0;
      const std::int64_t address =
          start + of_rows.low * y_pitch + in_row.low * x_pitch + offset.value_or(0);
      std::byte* const to = other == 0 ? a : b;
      const std::int64_t valid_rows = inside ? of_rows.high - of_rows.low : 0;
      if (valid_rows * valid_cols < count) fill_run(compute_, access_.fill, to, count);
      if (inside) {
        const std::int64_t end = address + (valid_rows - 1) * y_pitch + valid_cols;
        if (address < 0) refuse_address(address);
        if (end > access_.count) refuse_address(end - 1);
      }
      // Contiguous rows are loaded as one.
      const bool joint = y_pitch == pitch && valid_cols == pitch;
      for (std::int64_t r = 0; r < (joint ? std::min<std::int64_t>(valid_rows, 1) : valid_rows);
           ++r)
        load_run(access_.storage, buffer + (address + r * y_pitch) * size, 1,
                 to + ((of_rows.low + r) * pitch + in_row.low) * wide,
                 joint ? valid_rows * pitch : valid_cols);
      if (other > 0) combined(a, count, a, b, count, 1, count);
    }
    // Combines down the rows, then along them, with the elements `shift` positions later. All rows
    // at once: values that mix the end of one row with the next one's start are never read.
    std::int64_t have = of_rows.count;
    if (sliding.outer && !in_place) {
      const std::int64_t window = sliding.outer->size, stride = sliding.outer->stride,
                         dilation = sliding.outer->dilation;
      const auto down = [&](std::int64_t by, std::int64_t made, std::int64_t step) {
        const std::byte* const behind = a + by * dilation * pitch * wide;
        if (step == 1)
          combined(b, made * pitch, a, behind, made * pitch, 1, made * pitch);
        else
          combined(b, pitch, a, behind, step * pitch, made, pitch);
        std::swap(a, b);
      };
      if (doubles) {
        std::int64_t width = 1;
        for (; width * 2 <= window; width *= 2) down(width, have -= width * dilation, 1);
        if (window > width || stride > 1) down(window - width, rows, stride);
      } else {
        for (std::int64_t k = 1; k < window; ++k) {
          const bool joint = stride == 1;
          const std::int64_t cols_of = joint ? rows * pitch : pitch;
          OpArgs args{joint ? 1 : rows, cols_of, b, cols_of, {}};
          const std::int64_t step = joint ? cols_of : stride * pitch;
          args.args[0] = k == 1 ? View{a, step, true} : View{b, cols_of, true};
          args.args[1] = {a + k * dilation * pitch * wide, step, true};
          combine(args);
        }
        std::swap(a, b);
      }
    }
    const std::int64_t stride = sliding.inner ? sliding.inner->stride : 1;
    bool is_taken = stride == 1 && pitch == cols;
    if (sliding.inner && in_float32 && stride <= kMostWindowStride &&
        sliding.inner->size <= kMostAlong) {
      std::array<std::int64_t, kMostAlong> taps;
      for (std::int64_t k = 0; k < sliding.inner->size; ++k)
        taps[static_cast<std::size_t>(k)] = k * sliding.inner->dilation;
      windows.along({reinterpret_cast<const float*>(a), pitch, rows, cols, taps.data(),
                     sliding.inner->size, stride, reinterpret_cast<float*>(b), cols});
      std::swap(a, b);
      is_taken = true;
    } else if (sliding.inner) {
      const std::int64_t window = sliding.inner->size, dilation = sliding.inner->dilation;
      std::int64_t left = rows * pitch;
      const auto along = [&](std::int64_t by) {
        left -= by * dilation;
        combined(b, left, a, a + by * dilation * wide, left, 1, left);
        std::swap(a, b);
      };
      if (idempotent) {
        std::int64_t width = 1;
        for (; width * 2 <= window; width *= 2) along(width);
        if (width < window) along(window - width);
      } else {
        left -= (window - 1) * dilation;
        combined(b, left, a, a + dilation * wide, left, 1, left);
        for (std::int64_t k = 2; k < window; ++k)
          combined(b, left, b, a + k * dilation * wide, left, 1, left);
        std::swap(a, b);
      }
    }
    if (!is_taken) {
      for (std::int64_t r = 0; r < rows; ++r)
        load_run(compute_, a + r * pitch * wide, stride, b + r * cols * wide, cols);
      std::swap(a, b);
    }
    std::memcpy(results + c * wide, a, static_cast<std::size_t>(rows * cols * wide));
    c += rows * cols;
  }
}

}  // namespace sinter::runtime::cpu
