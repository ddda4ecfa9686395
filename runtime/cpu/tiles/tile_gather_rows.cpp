// SPDX-License-Identifier: Apache-2.0
// Loads of rows that begin at gathered places, in whole or one element each, and of one element for
// each row anywhere.
#include <algorithm>
#include <cstring>

#include "runtime/cpu/tiles/tile_access.h"
#include "runtime/cpu/tiles/tile_runs.h"

namespace sinter::runtime::cpu {
namespace {

/// Rows whose places are found together, on the stack.
constexpr std::int64_t kRows = 256;

/// Copies a row of kBytes, or of `bytes` if 0. A constant size compiles to a few instructions
/// instead of a call.
template <std::size_t kBytes>
void copy_rows(const std::byte* buffer, std::span<const std::int64_t> starts, std::int64_t size,
               std::size_t bytes, std::byte* target) {
  for (const std::int64_t start : starts) {
    std::memcpy(target, buffer + start * size, kBytes > 0 ? kBytes : bytes);
    target += bytes;
  }
}

}  // namespace

void TileAccess::add_gathered_rows(GatherValues gathered, std::int64_t row,
                                   std::uint64_t of_columns, std::span<std::int64_t> starts) const {
  for (std::size_t g = 0; g < access_.gathers.size(); ++g) {
    if (of_columns >> g & 1) continue;
    const std::int64_t step = gathered.views[access_.gathers[g].value].row_stride;
    add_gathered(access_.gathers[g], gathered, row * step, step, starts);
  }
}

template <typename Visit>
void TileAccess::for_gathered_rows(const Tile& tile, std::int64_t first, GatherValues gathered,
                                   const Visit& visit) const {
  Walker y(y_walk_, tile.y0);
  std::int64_t room[kRows];
  for (std::int64_t r = 0; r < tile.rows; r += kRows) {
    const std::span starts(room, static_cast<std::size_t>(std::min(kRows, tile.rows - r)));
    for (std::int64_t& start : starts) {
      start = first + y.offset();
      y.next();
    }
    add_gathered_rows(gathered, r, /*of_columns=*/0, starts);
    visit(r, std::span<const std::int64_t>(starts));
  }
}

bool TileAccess::takes_rows(const Tile& tile, Domain domain, GatherValues gathered) const {
  constexpr std::size_t kMostGathers = 64;
  if (access_.gathers.size() > kMostGathers || !access_.is_plain() || compute_ != access_.storage ||
      !domain.rows)
    return false;
  if (access_.gathers.empty()) return !domain.columns && !y_walk_.linear;
  // For a single row, load_plain copies nothing.
  if (domain.columns && (!x_.linear || x_.step != 1 || tile.rows == 1)) return false;
  return std::ranges::none_of(access_.gathers, [&](const BoundGather& gather) {
    return gathered.views[gather.value].per_column;
  });
}

void TileAccess::load_rows(const std::byte* buffer, const Tile& tile, Domain domain,
                           GatherValues gathered, std::byte* target) const {
  const auto size = static_cast<std::int64_t>(storage_size_);
  const std::int64_t cols = domain.columns ? tile.cols : 1;
  const auto bytes = static_cast<std::size_t>(cols * size);
  const std::int64_t first = fixed_offset(tile) + (domain.columns ? tile.x0 : 0);
  for_gathered_rows(tile, first, gathered,
                    [&](std::int64_t r, std::span<const std::int64_t> starts) {
                      std::byte* const to = target + static_cast<std::size_t>(r) * bytes;
                      switch (bytes) {
                        case 1: return copy_rows<1>(buffer, starts, size, bytes, to);
                        case 2: return copy_rows<2>(buffer, starts, size, bytes, to);
                        case 4: return copy_rows<4>(buffer, starts, size, bytes, to);
                        case 8: return copy_rows<8>(buffer, starts, size, bytes, to);
                        case 16: return copy_rows<16>(buffer, starts, size, bytes, to);
                        case 32: return copy_rows<32>(buffer, starts, size, bytes, to);
                        case 64: return copy_rows<64>(buffer, starts, size, bytes, to);
                        default: return copy_rows<0>(buffer, starts, size, bytes, to);
                      }
                    });
}

}  // namespace sinter::runtime::cpu
