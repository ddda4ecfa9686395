// SPDX-License-Identifier: Apache-2.0
// Loads of padded images, whose channels are contiguous or get interleaved.
#include <algorithm>
#include <array>
#include <vector>

#include "runtime/cpu/ops/vectors/vector_moves.h"
#include "runtime/cpu/tiles/tile_access.h"
#include "runtime/cpu/tiles/tile_runs.h"

namespace sinter::runtime::cpu {

/// True if a few rows anywhere in memory are interleaved to adjacent elements: NCHW to NHWC.
bool TileAccess::is_interleaved(const Tile& tile) const {
  if (x_.linear || (storage_size_ != 1 && storage_size_ != sizeof(std::uint32_t)) ||
      compute_ != access_.storage)
    return false;
  const std::int64_t rows = x_.extents.back();
  return rows >= kLeastStep && rows <= kMostStep && x_.steps[x_.steps.size() - 2] == 1 &&
         tile.x0 % rows == 0 && tile.cols % rows == 0;
}

void TileAccess::load_interleaved(const std::byte* buffer, const Tile& tile, Domain domain,
                                  GatherValues gathered, std::byte* target) const {
  const auto size = static_cast<std::int64_t>(storage_size_);
  const std::int64_t interleaved = x_.extents.back(), step = x_.steps.back();
  const std::vector<std::int64_t> extents(x_.extents.begin(), x_.extents.end() - 1);
  const Odometer first(extents, tile.x0 / interleaved);
  const std::int64_t fixed = fixed_offset(tile), row_bytes = tile.cols * size;
  Walker y(y_walk_, domain.rows ? tile.y0 : 0);
  std::int64_t before = -1;
  for (std::int64_t r = 0; r < (domain.rows ? tile.rows : 1); ++r) {
    std::int64_t start = fixed + (domain.rows ? y.offset() : 0);
    if (domain.rows) y.next();
    if (!access_.gathers.empty()) start += gathered_offset(gathered, r, 0);
    if (start == before) {  // enlarged images repeat rows
      copy_bytes(target, target - row_bytes, static_cast<std::size_t>(row_bytes));
      target += row_bytes;
      continue;
    }
    before = start;
    Odometer x = first;
    for (std::int64_t c = 0; c < tile.cols;) {
      const std::int64_t n = std::min(tile.cols - c, x.run() * interleaved) / interleaved;
      interleave(storage_size_, buffer + (start + x.form(x_.steps.data())) * size, interleaved,
                 step, target, n);
      target += n * interleaved * size;
      c += n * interleaved;
      x.skip(n);
    }
  }
}

/// True if guards do not depend on an image's channels (last), and channels are contiguous in
/// memory or get interleaved.
bool TileAccess::is_guarded_image(const Tile& tile) const {
  const std::size_t loops = x_.extents.size();
  if (loops < 2 || !access_.gathers.empty()) return false;
  const std::int64_t channels = x_.extents.back();
  const bool together = x_.steps[loops - 1] == 1 && x_.steps[loops - 2] == channels &&
                        tile.x0 % channels == 0 && tile.cols % channels == 0;
  return (together || (is_interleaved(tile) && x_.steps[loops - 1] > 0)) &&
         std::ranges::all_of(guard_steps_,
                             [](const GuardSteps& guard) { return guard.x.back() == 0; });
}

/// Loads an image with padding, pixel by pixel (all channels of a position).
void TileAccess::load_guarded_image(const std::byte* buffer, const Tile& tile, Domain domain,
                                    std::byte* target) const {
  const auto size = static_cast<std::int64_t>(storage_size_);
  const std::int64_t channels = x_.extents.back(), step = x_.steps.back();
  const std::vector<std::int64_t> extents(x_.extents.begin(), x_.extents.end() - 1);
  const Odometer first(extents, tile.x0 / channels);
  const std::int64_t fixed = fixed_offset(tile), x_step = x_.steps[extents.size() - 1];
  Odometer y(y_.extents, domain.rows ? tile.y0 : 0);
  const auto fill = [&](std::int64_t count) {
    if (count <= 0) return;
    fill_run(compute_, access_.fill, target, count * channels);
    target += static_cast<std::size_t>(count * channels) * compute_size_;
  };
  for (std::int64_t r = 0; r < (domain.rows ? tile.rows : 1); ++r) {
    const std::int64_t start = fixed + y.form(y_.steps.data());
    Odometer x = first;
    for (std::int64_t left = tile.cols / channels; left > 0;) {
      const std::int64_t n = std::min(left, x.run());
      Interval inside{0, n};
      for (const GuardSteps& guard : guard_steps_) {
        std::int64_t base = guard.constant + y.form(guard.y.data()) + x.form(guard.x.data());
        for (std::size_t d = 0; d < guard.z.size(); ++d) base += guard.z[d] * tile.z[d];
        const Interval one = valid(base, guard.x[extents.size() - 1], guard.extent, n);
        inside.low = std::max(inside.low, one.low);
        inside.high = std::min(inside.high, one.high);
      }
      inside.low = std::min(inside.low, n);
      inside.high = std::clamp(inside.high, inside.low, n);
      fill(inside.low);
      if (const std::int64_t count = inside.high - inside.low; count > 0) {
        const std::int64_t begin = start + x.form(x_.steps.data()) + inside.low * x_step,
                           end = begin + (count - 1) * x_step + step * (channels - 1);
        if (begin < 0) refuse_address(begin);
        if (end >= access_.count) refuse_address(end);
        const std::byte* from = buffer + begin * size;
        if (step == 1)
          load_run(access_.storage, from, 1, target, count * channels);
        else
          interleave(storage_size_, from, channels, step, target, count);
        target += static_cast<std::size_t>(count * channels) * compute_size_;
      }
      fill(n - inside.high);
      left -= n;
      x.skip(n);
    }
    if (domain.rows && !y_.extents.empty()) y.skip(1);
  }
}

void TileAccess::load_guarded(const std::byte* buffer, const Tile& tile, Domain domain,
                              GatherValues gathered, std::byte* target) const {
  if (domain.columns && is_guarded_image(tile))
    return load_guarded_image(buffer, tile, domain, target);
  const auto size = static_cast<std::int64_t>(storage_size_);
  const std::int64_t rows = domain.rows ? tile.rows : 1;
  const std::int64_t cols = domain.columns ? tile.cols : 1;
  const bool has_x = domain.columns && !x_.extents.empty();
  const std::int64_t x_step = has_x ? x_.steps.back() : 0;
  const std::int64_t fixed = fixed_offset(tile);
  Odometer y(y_.extents, domain.rows ? tile.y0 : 0);
  const Odometer first_x(x_.extents, has_x ? tile.x0 : 0);
  const bool copies = x_step == 1 && compute_ == access_.storage;
  // What a row's runs have in common, of the first guards.
  constexpr std::size_t kHoisted = 8;
  std::array<std::int64_t, kHoisted> bases;
  const auto base_of = [&](const GuardSteps& guard) {
    std::int64_t base = guard.constant + y.form(guard.y.data());
    for (std::size_t d = 0; d < guard.z.size(); ++d) base += guard.z[d] * tile.z[d];
    return base;
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::size_t g = 0; g < std::min(kHoisted, guard_steps_.size()); ++g)
      bases[g] = base_of(guard_steps_[g]);
    std::int64_t row_offset = fixed + y.form(y_.steps.data());
    if (!access_.gathers.empty()) row_offset += gathered_offset(gathered, r, 0);
    Odometer x = first_x;
    for (std::int64_t c = 0; c < cols;) {
      const std::int64_t n = has_x ? std::min(cols - c, x.run()) : cols - c;
      const std::int64_t offset = row_offset + x.form(x_.steps.data());
      Interval inside{0, n};
      for (std::size_t g = 0; g < guard_steps_.size(); ++g) {
        const GuardSteps& guard = guard_steps_[g];
        const std::int64_t base =
            (g < kHoisted ? bases[g] : base_of(guard)) + x.form(guard.x.data());
        const Interval one = valid(base, has_x ? guard.x.back() : 0, guard.extent, n);
        inside.low = std::max(inside.low, one.low);
        inside.high = std::min(inside.high, one.high);
      }
      inside.high = std::max(inside.high, inside.low);
      inside.low = std::min(inside.low, n);
      inside.high = std::min(inside.high, n);
      std::byte* to = target + static_cast<std::size_t>(r * cols + c) * compute_size_;
      if (inside.low > 0) fill_run(compute_, access_.fill, to, inside.low);
      if (inside.high > inside.low) {
        const std::int64_t first = offset + inside.low * x_step;
        const std::int64_t final = offset + (inside.high - 1) * x_step;
        if (std::min(first, final) < 0) refuse_address(std::min(first, final));
        if (std::max(first, final) >= access_.count) refuse_address(std::max(first, final));
        std::byte* const target_of = to + static_cast<std::size_t>(inside.low) * compute_size_;
        const std::int64_t count = inside.high - inside.low;
        if (copies)
          copy_bytes(target_of, buffer + first * size, static_cast<std::size_t>(count * size));
        else
          load_run(access_.storage, buffer + first * size, x_step, target_of, count);
      }
      if (inside.high < n)
        fill_run(compute_, access_.fill, to + static_cast<std::size_t>(inside.high) * compute_size_,
                 n - inside.high);
      c += n;
      if (has_x) x.skip(n);
    }
    if (domain.rows && !y_.extents.empty()) y.skip(1);
  }
}

}  // namespace sinter::runtime::cpu
