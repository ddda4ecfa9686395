// SPDX-License-Identifier: Apache-2.0
// Reductions of rows in place.
#include <algorithm>
#include <array>
#include <vector>

#include "runtime/cpu/tiles/tile_access.h"
#include "runtime/cpu/tiles/tile_runs.h"

namespace sinter::runtime::cpu {

bool TileAccess::can_reduce(Combine combine) const {
  const bool plain = access_.is_plain();
  if (access_.storage != compute_ || compute_ == DType::kBool || !access_.gathers.empty() ||
      x_.extents.empty() || x_.steps.back() != 1 || y_.extents.empty() ||
      !(plain || linear_guards_) || (plain && x_.linear && y_.linear))
    return false;
  // What lies outside is combined once, however often it occurs.
  const bool counts = combine == Combine::kSum || combine == Combine::kProd;
  if (!plain && counts && !is_identity_outside(combine)) return false;
  return std::ranges::all_of(guard_steps_,
                             [](const GuardSteps& guard) { return guard.x.back() == 0; });
}

void TileAccess::reduce(const std::byte* buffer, const Tile& tile, const ReduceKernels& kernels,
                        std::byte* accumulators) const {
  constexpr std::int64_t kMostRows = 64;
  const std::int64_t fixed = fixed_offset(tile);
  std::uint64_t fill = 0;  // one element
  fill_run(compute_, access_.fill, reinterpret_cast<std::byte*>(&fill), 1);
  std::vector<std::int64_t> bases;  // of guards
  for (const GuardSteps& guard : guard_steps_) {
    std::int64_t base = guard.constant;
    for (std::size_t d = 0; d < guard.z.size(); ++d) base += guard.z[d] * tile.z[d];
    bases.push_back(base);
  }
  const std::size_t guards = bases.size();
  std::array<std::int64_t, kMostRows> offsets;
  std::array<const void*, kMostRows> rows;
  std::vector<std::int64_t> guarded(static_cast<std::size_t>(kMostRows) * guards);
  Odometer y(y_.extents, tile.y0);
  for (std::int64_t done = 0; done < tile.rows; done += kMostRows) {
    const auto count = static_cast<std::size_t>(std::min(kMostRows, tile.rows - done));
    for (std::size_t r = 0; r < count; ++r, y.skip(1)) {
      offsets[r] = fixed + y.form(y_.steps.data());
      for (std::size_t g = 0; g < guards; ++g)
        guarded[r * guards + g] = bases[g] + y.form(guard_steps_[g].y.data());
    }
    Odometer x(x_.extents, tile.x0);
    for (std::int64_t c = 0; c < tile.cols;) {
      const std::int64_t n = std::min(tile.cols - c, x.run());
      const std::int64_t offset = x.form(x_.steps.data());
      std::size_t inside = 0;
      for (std::size_t r = 0; r < count; ++r) {
        bool is_inside = true;
        for (std::size_t g = 0; g < guards; ++g) {
          const std::int64_t at = guarded[r * guards + g] + x.form(guard_steps_[g].x.data());
          is_inside = is_inside && at >= 0 && at < guard_steps_[g].extent;
        }
        if (!is_inside) continue;
        const std::int64_t address = offsets[r] + offset;
        if (guards > 0 && address < 0) refuse_address(address);
        if (guards > 0 && address + n > access_.count) refuse_address(address + n - 1);
        rows[inside++] = buffer + address * static_cast<std::int64_t>(storage_size_);
      }
      kernels.rows_anywhere({rows.data(), inside}, inside < count ? &fill : nullptr, c, n,
                            accumulators);
      c += n;
      x.skip(n);
    }
  }
}

}  // namespace sinter::runtime::cpu
