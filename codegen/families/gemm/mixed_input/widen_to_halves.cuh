// SPDX-License-Identifier: Apache-2.0
// Packed weights become 16-bit floats of x's type, as tensor core operands.
#pragma once

#include "mixed_input.cuh"

#ifdef SINTER_WARPGROUPS

/// Group scales and zero points, stored as T, are applied to the weights, which are then rounded to
/// T. Scales may be e4m3, which T holds.
template <class T, class Weights_, class Scaling_>
struct WidenToHalves {
  typedef T X;
  typedef Weights_ Weights;
  typedef Scaling_ Scaling;
  typedef T Zero;
  typedef FactoredWeights<T, Weights> Factored;
  static constexpr float kUnits = 1, kFactorUnits = Factored::kUnit;

  template <class Tile>
  struct Mainloop {
    typedef typename Tile::Operands Operands;
    typedef typename Tile::Accumulators Accumulators;
    static constexpr int kTiles = Tile::kTiles, kProducts = Tile::kProducts, kRows = Tile::kRows;
    static constexpr int kPart = Tile::kPart, kPartsOfStage = Tile::kPartsOfStage;
    static constexpr int kGroup = Scaling::kGroup, kFold = Tile::kFold;
    static_assert(kGroup == 0 || kFold == kPart || kFold == kGroup, "groups fit parts");
    typedef typename Scaling::Stored S;
    static_assert(kFold % 16 == 0 && (kGroup == 0 || sizeof(S) <= 2), "groups are whole fragments");

    typedef u32 Fragments[kTiles][kPart / 16][4];

    /// A group's values for the lane's columns g and g + 8, each duplicated.
    template <class V>
    SINTER_DEVICE static void pairs_of(u32 (&pairs)[2], const unsigned char* values) {
      const int lane = threadIdx.x % 32 / 4;
      if constexpr (sizeof(V) == 1) {
        pairs[0] = PackedFloats::template widen_both<T>(values[lane] * 0x101u);
        pairs[1] = PackedFloats::template widen_both<T>(values[lane + 8] * 0x101u);
      } else {
        const u16* const own = reinterpret_cast<const u16*>(values) + lane;
        pairs[0] = own[0] * 0x10001u;
        pairs[1] = own[8] * 0x10001u;
      }
    }

    /// Loads the warp's weights in a slot as floats.
    SINTER_DEVICE static void load_weights(Fragments& a, const unsigned char* slot) {
      constexpr int kDepth = Weights::kUnitDepth, kEach = kDepth / 16;  // fragments in a unit
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int unit = 0; unit < kPart / kDepth; ++unit) {
          const uint4 bits = Tile::load_unit(slot, i, unit);
#pragma unroll
          for (int j = 0; j < kEach; ++j) {
            u32(&own)[4] = a[i][unit * kEach + j];
            if constexpr (Scaling::kFactors)
              Factored::widen_unit(own, bits, j);
            else
              Weights::template widen_unit<T>(own, bits, j);
            if constexpr (kGroup > 0) {
              const int fold = (unit * kDepth + j * 16) / kFold;
              u32 pairs[2];
              if constexpr (Scaling::kZeros) {
                pairs_of<T>(pairs, Tile::zeros_of(slot, i, fold));
#pragma unroll
                for (int r = 0; r < 4; ++r) own[r] = subtract_pairs<T>(own[r], pairs[r % 2]);
              }
              pairs_of<S>(pairs, Tile::scales_of(slot, i, fold));
#pragma unroll
              for (int r = 0; r < 4; ++r)
                own[r] = multiply_add_pairs<T>(own[r], pairs[r % 2], 0x80008000u);
            }
          }
        }
      }
    }

    /// Starts the MMAs of part `part` of a stage.
    SINTER_DEVICE static void start_part(Accumulators& accumulators, const Fragments& a,
                                         const unsigned char* stage, int part) {
      const T* const rows = reinterpret_cast<const T*>(stage) + part * kProducts * kRows * kPart;
      warpgroup_arrive();
#pragma unroll
      for (int j = 0; j < kPart / 16; ++j)
#pragma unroll
        for (int i = 0; i < kTiles; ++i)
#pragma unroll
          for (int p = 0; p < kProducts; ++p)
            wgmma<kRows, false>(accumulators[i][p], a[i][j], rows + p * kRows * kPart, j * 16,
                                true);
      warpgroup_commit();
    }

    SINTER_DEVICE static void settle_weights(Fragments& a) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) settle(a[i]);
    }

    SINTER_DEVICE static void fence_accumulators(Accumulators& accumulators) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int p = 0; p < kProducts; ++p) settle(accumulators[i][p]);
    }

    SINTER_DEVICE static void multiply_stages(Accumulators& accumulators, unsigned char* shared,
                                              const Operands& x) {
      const int parts = Tile::count_parts(x);
      Fragments a[2];
      int stage = 0, before = 0;  // of the current part; of the MMAs started last
      int slot = 0;               // of the weights loaded next
      u32 phase = 0;
      const auto load_next = [&](int s, Fragments& own) {
        Tile::next_weights(shared, x, s, parts, slot);
        load_weights(own, Tile::slot_of(shared, slot));
        Tile::advance(slot);
      };
      if (parts > 0) {
        load_next(0, a[0]);
        Tile::full_of(shared)[0].wait(0);
      }
      // Converts the next part's weights during this part's MMAs.
      const auto turn = [&](int s, Fragments& own, Fragments& other) {
        const int part = s % kPartsOfStage;
        start_part(accumulators, own, Tile::stage_of(shared, stage), part);
        if (s > 0) {
          warpgroup_wait<1>();
          settle_weights(other);
          if (part == 0) Tile::release(shared, before);
        }
        before = stage;
        if (s + 1 == parts) return;
        load_next(s + 1, other);
        if (part + 1 == kPartsOfStage) {
          Tile::advance(stage, phase);
          Tile::full_of(shared)[stage].wait(phase);
        }
      };
      // Zeros the accumulators before the first MMA: otherwise ptxas serializes the MMAs.
      fence_accumulators(accumulators);
#pragma unroll 1
      for (int s = 0; s < parts; s += 2) {
        turn(s, a[0], a[1]);
        turn(s + 1, a[1], a[0]);
      }
      warpgroup_wait<0>();
      fence_accumulators(accumulators);
    }
  };
};

#endif  // SINTER_WARPGROUPS
