// SPDX-License-Identifier: Apache-2.0
// Scans of rows of many tiles, one block for each tile: decoupled look-back (Merrill and Garland,
// Single-pass Parallel Prefix Scan with Decoupled Look-back, 2016), but in a fixed order, so that
// equal inputs give equal bits.
//
// Each tile publishes its own total. Tiles are in groups of 32 by their number: a tile combines the
// totals of its group's earlier tiles in the order of a warp's scan. The group's last tile
// publishes the group's total, and then the result of the row through the group. What lies before a
// group is the nearest group's result that is there, then the totals of the groups in between, one
// after the other: the same sum whichever result that was.
#pragma once

#include "published.cuh"
#include "scan.cuh"

constexpr u32 kScanGroup = 32;
constexpr u32 kOwnTotal = 1, kWholeResult = 2;  // states of a record; 0: nothing yet

/// The tile of a row that a block has. A record is two words (published.cuh).
struct ScanLine {
  u64* records;  // of each scan: of each row: its tiles', then its groups'
  u64 row, rows;
  u64 tile, tiles;
  SINTER_DEVICE u64 groups() const { return (tiles + kScanGroup - 1) / kScanGroup; }
  SINTER_DEVICE u64* of(u64 scan) const {
    return records + 2 * ((scan * rows + row) * (tiles + groups()));
  }
};

/// The result over all tiles before the block's, whose own result is `total`; for one warp.
template <class Combine, class T>
SINTER_DEVICE T look_back(T total, u64* tiles, const ScanLine& line) {
  const u32 lane = threadIdx.x, at = u32(line.tile % kScanGroup);
  const u64 group = line.tile / kScanGroup;
  u64* groups = tiles + 2 * line.tiles;
  const bool closes = at == kScanGroup - 1 && lane == 0;
  if (lane == 0) publish(tiles + 2 * line.tile, kOwnTotal, total);
  T mine = Combine::template identity<T>();
  bool ready = lane >= at;
  do {
    if (!ready) ready = published(tiles + 2 * (group * kScanGroup + lane), mine) != 0;
  } while (!all_lanes(ready));
  const T in_group = last_lane<32>(scan_group<Combine, 32>(mine));
  const T through_group = Combine::of(in_group, total);
  if (group == 0) {
    if (closes) publish(groups, kWholeResult, through_group);
    return in_group;
  }
  if (closes) publish(groups + 2 * group, kOwnTotal, through_group);
  u32 state = 0, nearest = 0;
  for (;;) {
    if (lane < group && state != kWholeResult)
      state = published(groups + 2 * (group - 1 - lane), mine);
    const u32 whole = __ballot_sync(0xffffffffu, state == kWholeResult);
    const u32 there = __ballot_sync(0xffffffffu, state != 0);
    if (whole == 0) continue;
    const u32 bit = whole & (0u - whole);
    nearest = u32(__popc(bit - 1));
    if ((there & (bit - 1)) == bit - 1) break;
  }
  T before = lane_of(mine, int(nearest));
  for (int closer = int(nearest) - 1; closer >= 0; --closer)
    before = Combine::of(before, lane_of(mine, closer));
  if (closes) publish(groups + 2 * group, kWholeResult, Combine::of(before, through_group));
  return at == 0 ? before : Combine::of(before, in_group);
}

/// As scan_block of the row's tile that the block has; `carry` is what comes before the row.
/// `scratch` holds kWarps + 1 values.
template <class Combine, int kWarps, class T>
SINTER_DEVICE T scan_tiles(T x, T& carry, T* scratch, u64* tiles, const ScanLine& line) {
  T total = carry;
  const T before = scan_block<Combine, kWarps>(x, total, scratch);
  if (threadIdx.x < 32) {
    const T earlier = look_back<Combine>(total, tiles, line);
    if (threadIdx.x == 0) scratch[kWarps] = earlier;
  }
  __syncthreads();
  return line.tile == 0 ? before : Combine::of(scratch[kWarps], before);
}
