// SPDX-License-Identifier: Apache-2.0
// Packed 4-bit weights become e4m3, exactly, as operands with e4m3 rows of x. The accumulators of
// each group of k are multiplied by its scales and added in float32 registers.
#pragma once

#include "eight_bit_warpgroup.cuh"
#include "mixed_input.cuh"

/// Copies the highest bit of each byte to all its bits.
SINTER_DEVICE u32 spread_signs(u32 bytes) {
#ifdef __CUDACC__
  u32 result;
  asm("prmt.b32 %0, %1, %1, 0xba98;" : "=r"(result) : "r"(bytes));
  return result;
#else
  return (bytes >> 7 & 0x01010101u) * 0xffu;
#endif
}

/// Converts the numbers 0 .. 15 in the bytes of `numbers`, minus a zero point of 0 .. 15, to e4m3
/// of 1/512 of the difference. A code below 16 is a multiple of the smallest subnormal, 2^-9.
/// `offset`: 0x80 minus the zero point, in each byte.
SINTER_DEVICE u32 float8_of_numbers(u32 numbers, u32 offset) {
  const u32 shifted = numbers + offset;  // highest bit set: not negative
  const u32 positive = spread_signs(shifted);
  // Clears that bit for non-negative values; the magnitude of others is ~x + 1.
  const u32 codes = (positive & (shifted ^ 0x80808080u)) | (~positive & ~shifted);
  return codes + (~positive & 0x01010101u);
}
/// A weight's value / its code's value.
constexpr float kFloat8Units = 512;

/// The fragments of 32 k's from two words of 16 each (PackedWeights for 8-bit rows). `offsets`: for
/// the lane's two columns.
SINTER_DEVICE void widen_to_float8(u32 (&a)[4], u32 low, u32 high, const u32 (&offsets)[2]) {
  a[0] = float8_of_numbers(low & 0x0f0f0f0fu, offsets[0]);
  a[1] = float8_of_numbers(low >> 4 & 0x0f0f0f0fu, offsets[1]);
  a[2] = float8_of_numbers(high & 0x0f0f0f0fu, offsets[0]);
  a[3] = float8_of_numbers(high >> 4 & 0x0f0f0f0fu, offsets[1]);
}

#ifdef SINTER_WARPGROUPS

/// Promotes the accumulators of 32, 64 or 128 k's: of one group, at most 128, as fp8 tensor cores
/// accumulate with few bits.
template <class X_, class Weights_, class Scaling_>
struct WidenToFloat8 {
  typedef X_ X;
  typedef Weights_ Weights;
  typedef Scaling_ Scaling;
  typedef f16 Zero;
  static constexpr float kUnits = kFloat8Units;

  template <class Tile>
  struct Mainloop {
    typedef typename Scaling::Stored S;
    typedef typename Tile::Operands Operands;
    typedef typename Tile::Products Products;
    typedef typename Tile::Accumulators Accumulators;
    static constexpr int kTiles = Tile::kTiles, kProducts = Tile::kProducts, kRows = Tile::kRows;
    static constexpr int kPart = Tile::kPart, kFold = Tile::kFold, kFolds = Tile::kFolds;
    static constexpr bool kGrouped = Tile::kGrouped;
    static_assert(Weights::kUnitDepth == 64 && Tile::kPartsOfStage == 1, "half bytes, by stages");
    static_assert(kFold % 32 == 0, "groups are whole products");

    // If registers allow, converts a part's weights during the previous part's MMAs.
    static constexpr int kSumRegisters = kTiles * kProducts * kRows / 2, kPartRegisters = kRows / 2;
    static constexpr bool kMakesAhead = kSumRegisters + kPartRegisters + 32 * kTiles <= 160;

    /// The weights of a part in one tile, and the scales of columns g and g + 8 for its groups.
    struct Left {
      u32 fragments[kPart / 32][4];
      float scales[kFolds][2];
    };

    /// A group's value for the lane's column g, or g + 8.
    template <class V>
    SINTER_DEVICE static float value_of(const unsigned char* values, int half) {
      const int lane = threadIdx.x % 32;
      return widen(reinterpret_cast<const V*>(values)[half * 8 + lane / 4]);
    }

    /// Loads tile `i` of the weights in a slot.
    SINTER_DEVICE static void load_left(Left& left, const unsigned char* slot, int i) {
#pragma unroll
      for (int fold = 0; fold < kFolds; ++fold)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          left.scales[fold][half] =
              kGrouped ? value_of<S>(Tile::scales_of(slot, i, fold), half) * kUnits : 1;
#pragma unroll
      for (int unit = 0; unit < kPart / 64; ++unit) {
        const uint4 bits = Tile::load_unit(slot, i, unit);
        const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          u32 offsets[2] = {0x78787878u, 0x78787878u};
          if constexpr (Scaling::kZeros) {
            const int fold = (unit * 64 + j * 32) / kFold;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const float zero = value_of<Zero>(Tile::zeros_of(slot, i, fold), half);
              offsets[half] -= static_cast<u32>(static_cast<i32>(zero)) * 0x01010101u;
            }
          }
          widen_to_float8(left.fragments[unit * 2 + j], words[j * 2], words[j * 2 + 1], offsets);
        }
      }
    }

    /// Starts the MMAs of one group of k with kRows rows of a stage.
    SINTER_DEVICE static void start(Products& products, const Left& left,
                                    const unsigned char* stage, int fold, int p) {
      const X* const rows = reinterpret_cast<const X*>(stage) + p * kRows * kPart;
      warpgroup_arrive();
#pragma unroll
      for (int j = 0; j < kFold / 32; ++j)
        wgmma_from_registers<X>(products, left.fragments[fold * (kFold / 32) + j], rows,
                                fold * kFold + j * 32, j > 0);
      warpgroup_commit();
    }

    SINTER_DEVICE static void promote(Products& accumulators, const Products& products,
                                      const float (&scales)[2]) {
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          accumulators[j][e] = kGrouped ? fmaf(products[j][e], scales[e / 2], accumulators[j][e])
                                        : accumulators[j][e] + products[j][e];
    }

    /// The MMAs of tile `i` with a stage; calls `meanwhile` while the first are in flight.
    template <class Meanwhile>
    SINTER_DEVICE static void multiply_part(Accumulators& accumulators, Products& products,
                                            Left& left, const unsigned char* stage, int i,
                                            const Meanwhile& meanwhile) {
#pragma unroll
      for (int fold = 0; fold < kFolds; ++fold)
#pragma unroll
        for (int p = 0; p < kProducts; ++p) {
          start(products, left, stage, fold, p);
          if (fold == 0 && p == 0) meanwhile();
          warpgroup_wait<0>();
          settle(products);
          settle(left.fragments);
          promote(accumulators[i][p], products, left.scales[fold]);
        }
    }

    /// Hides `number` from the compiler. A branch on it keeps later code in place: ptxas would
    /// otherwise move that code behind the wait for MMAs in flight.
    SINTER_DEVICE static int unknown(int number) {
#ifdef __CUDACC__
      asm volatile("" : "+r"(number));
#endif
      return number;
    }

    SINTER_DEVICE static void multiply_stages(Accumulators& accumulators, unsigned char* shared,
                                              const Operands& x) {
      const int parts = Tile::count_parts(x);
      Products products = {};
      int stage = 0, slot = 0;  // of x; of the weights converted next
      u32 phase = 0;
      const auto release = [&] {
        Tile::release(shared, stage);
        Tile::advance(stage, phase);
      };
      if constexpr (kMakesAhead) {
        Left left[2][kTiles];
        const auto make = [&](int s, Left(&to)[kTiles]) {
          Tile::next_weights(shared, x, s, parts, slot);
#pragma unroll
          for (int i = 0; i < kTiles; ++i) load_left(to[i], Tile::slot_of(shared, slot), i);
          Tile::advance(slot);
        };
        const auto turn = [&](int s, Left(&own)[kTiles], Left(&other)[kTiles]) {
          Tile::full_of(shared)[stage].wait(phase);
#pragma unroll
          for (int i = 0; i < kTiles; ++i)
            multiply_part(accumulators, products, own[i], Tile::stage_of(shared, stage), i, [&] {
              if (i == 0 && unknown(s + 1) < parts) make(s + 1, other);
            });
          release();
        };
        if (parts > 0) make(0, left[0]);
#pragma unroll 1
        for (int s = 0; s < parts; s += 2) {
          turn(s, left[0], left[1]);
          turn(s + 1, left[1], left[0]);
        }
      } else {
#pragma unroll 1
        for (int s = 0; s < parts; ++s) {
          Tile::next_weights(shared, x, s, parts, slot);
          Left left;
#pragma unroll
          for (int i = 0; i < kTiles; ++i) {
            load_left(left, Tile::slot_of(shared, slot), i);
            if (i == 0) Tile::full_of(shared)[stage].wait(phase);
            multiply_part(accumulators, products, left, Tile::stage_of(shared, stage), i, [] {});
          }
          release();
          Tile::advance(slot);
        }
      }
    }
  };
};

#endif  // SINTER_WARPGROUPS
