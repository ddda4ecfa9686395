// Tiles of a matrix product one after the other (sm_90a): a block stays, one thread has the copy
// engine fill the stages of this tile and the next ones, and teams of warpgroups take turns: while
// one has the epilogue of its tile, straight from its registers, another multiplies.
#pragma once

#include "product_groups.cuh"

#ifdef SINTER_WARPGROUPS

/// kTeams of kGroups warpgroups, each team at a tile of its own; see GroupStages. Block b of
/// gridDim.x has the tiles b, b + gridDim.x, ..
template <class T, int kM, int kN, int kTeams, int kGroups, int kStages, bool kRowsAreK, int kRank>
struct TurnTile : GroupStages<T, kM, kN, kGroups, kStages, kRowsAreK, kRank> {
  typedef GroupStages<T, kM, kN, kGroups, kStages, kRowsAreK, kRank> Stages;
  typedef typename Stages::Operands Operands;
  typedef typename Stages::Sums Sums;
  static constexpr int kTeam = 128 * kGroups, kWorkers = kTeam * kTeams, kThreads = kWorkers + 128;
  // What 65536 registers give, in steps of 8: 128 threads that copy, the others multiply.
  static constexpr int kCopying = 24;
  static constexpr int kMultiplying = (65536 - 128 * kCopying) / kWorkers / 8 * 8;
  static_assert(kTeams <= 2 && kMultiplying <= 256 && kN % 32 == 0, "registers, barriers, columns");

  SINTER_DEVICE static int team() {
    return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kTeam, 0);
  }

  /// The tiles of a team, in order.
  struct Turn {
    u32 tile, number;  // `number`: of the tile among the block's
    SINTER_DEVICE Turn()
        : tile(blockIdx.x + static_cast<u32>(team()) * gridDim.x),
          number(static_cast<u32>(team())) {}
    SINTER_DEVICE void go_on() {
      tile += kTeams * gridDim.x;
      number += kTeams;
    }
  };

  /// First of all. True in threads that multiply; the others copy for the block's tiles, of which
  /// operands_of(i) are the operands, and have no more to do. `kEarly`: see fill_first.
  template <bool kEarly, class OperandsOf>
  SINTER_DEVICE static bool multiplies(unsigned char* shared, u32 tiles, OperandsOf operands_of) {
    if (threadIdx.x == kWorkers) Stages::start_turnstiles(shared);
    __syncthreads();  // all see the turnstiles
    if (team() < kTeams) {
      set_registers<kMultiplying, true>();
      if (kTeams > 1 && team() == kTeams - 1) give_turn<kWorkers>(0);
      if (kEarly) wait_for_previous_kernel();
      return true;
    }
    set_registers<kCopying, false>();
    if (threadIdx.x == kWorkers) copy<kEarly>(shared, tiles, operands_of);
    return false;
  }

  /// Multiplies the turn's tile.
  SINTER_DEVICE static void multiply(Sums& sums, unsigned char* shared, const Turn& turn,
                                     const Operands& x) {
    const int steps = Stages::count_steps(x);
    const u32 before = turn.number * static_cast<u32>(steps);
    RingPlace<kStages> at{static_cast<int>(before % kStages), before / kStages % 2};
    if (kTeams > 1) take_turn<kWorkers>(team());
    const int last = Stages::start_products(sums, shared, steps, group(), at);
    if (kTeams > 1) give_turn<kWorkers>((team() + 1) % kTeams);
    Stages::finish_products(sums);
    if (steps > 0) Stages::release(shared, last);
  }

  // The epilogue walks a tile in passes, of eight rows for each warp, whose columns come 32 at a
  // time: four lanes have a row, of eight columns each.
  static constexpr int kVector = 8;
  static constexpr int kVectors = kN % 128 == 0 ? 4 : kN % 96 == 0 ? 3 : kN / 32;
  static constexpr int kRows = Stages::kRowTiles * 2, kPasses = kRows * (kN / 32 / kVectors);

  SINTER_DEVICE static int row_of(int pass) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    return (group() * Stages::kRowTiles + pass % kRows / 2) * 64 + warp * 16 + pass % 2 * 8 +
           lane / 4;
  }
  SINTER_DEVICE static int column_of(int pass, int k) {
    return (pass / kRows * kVectors + k) * 32 + threadIdx.x % 4 * kVector;
  }
  /// The lane's sums of a pass's vector k, by all lanes of a warp: what four lanes hold of four
  /// times eight columns is transposed among them.
  SINTER_DEVICE static void sum(float (&x)[kVector], const Sums& sums, int pass, int k) {
    const int i = pass % kRows / 2, half = pass % 2 * 2, first = (pass / kRows * kVectors + k) * 4;
#pragma unroll
    for (int u = 0; u < 4; ++u)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        x[u * 2 + e] = sums[i][(first + u) / kTiles][(first + u) % kTiles][half + e];
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
      const bool upper = (threadIdx.x & bit) != 0;
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        if ((u & bit) != 0) continue;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float &low = x[u * 2 + e], &high = x[(u | bit) * 2 + e];
          const float other = exchange(upper ? low : high, bit);
          low = upper ? other : low;
          high = upper ? high : other;
        }
      }
    }
  }

 private:
  static constexpr int kTiles = Stages::kColumns / 8;  // of one product

  SINTER_DEVICE static int group() {
    return kGroups == 1 ? 0 : static_cast<int>(threadIdx.x) / 128 % kGroups;
  }

  template <bool kEarly, class OperandsOf>
  SINTER_DEVICE static void copy(unsigned char* shared, u32 tiles, OperandsOf operands_of) {
    RingPlace<kStages> at{0, 1};  // the first time around all stages are free
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const Operands x = operands_of(tile);
      int done = 0;
      if (tile == blockIdx.x) {
        done = Stages::template fill_first<kEarly>(shared, x);
        for (int s = 0; s < done; ++s) at = at.next();
      }
      Stages::fill_others(shared, x, done, at);
    }
  }
};

#endif  // SINTER_WARPGROUPS
