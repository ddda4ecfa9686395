// Draws a token for each row of logits, as ir/ops/sampling.cpp says: by a block, or a cluster of
// blocks, of which each has a part of the vocabulary.
//
// Nothing is sorted. Where top-k and top-p cut the tokens, most likely first, is found by passes
// over the row: each counts, or weighs, what lies above seven keys, and leaves an eighth of the
// keys in question. Sums are of integers, so that they do not depend on the order.
#pragma once

#include "cluster.cuh"
#include "order.cuh"

/// Where the parameters and sets are, and how many.
struct SamplingInputs {
  const double* reals;
  const i64* integers;
  const i32* sets;
  const i32* biased;
  const float* biases;
  i64 set_count, bias_count;
};

/// What is kept of tokens, most likely first: those above `key`, and those of that key whose id is
/// below `limit`.
struct TokenCut {
  u32 key;
  i64 limit;
  SINTER_DEVICE bool keeps(u32 other, i64 id) const {
    return other > key || (other == key && id < limit);
  }
};

/// T: of logits; kVocabulary: tokens.
template <class T, int kVocabulary, int kThreads, int kBlocks>
struct TokenSampler {
  static constexpr int kWarps = kThreads / 32, kPivots = 7, kMostValues = kPivots + 2;
  static constexpr int kWords = (kVocabulary + 31) / 32;
  /// Words of a set that a block has the tokens of.
  static constexpr int kOwnWords = (kWords + kBlocks - 1) / kBlocks;
  static constexpr u32 kNan = 0xffffffffu;  // the key of every NaN

  /// Dynamic shared memory of a block.
  struct Memory {
    u64 warps[kWarps][kMostValues];
    u64 blocks[2][kBlocks][kMostValues];  // in turn, so that one barrier is enough
    u32 counts[kWarps];
    u32 biased[kOwnWords];  // bits of tokens that have a bias
  };

  Memory& shared;
  const T* logits;  // the row's
  const u32 *allowed, *seen;
  const i32* biased;
  const float* biases;
  i64 bias_count;
  float penalty;
  double temperature;
  float most;  // of the values
  int rank;
  i64 begin, end;  // the block's tokens
  int turn;

  SINTER_DEVICE static void wait_for_all() {
    if constexpr (kBlocks > 1)
      cluster_barrier();
    else
      __syncthreads();
  }

  SINTER_DEVICE TokenSampler(Memory& memory, const T* x, const SamplingInputs& from, i64 row,
                             int block)
      : shared(memory), logits(x + row * kVocabulary), rank(block), turn(0) {
    constexpr int kReals = 4, kIntegers = 6;
    const double* const reals = from.reals + row * kReals;
    const i64* const integers = from.integers + row * kIntegers;
    temperature = reals[0];
    penalty = static_cast<float>(reals[3]);
    allowed = set_of(from, integers[2]);
    seen = set_of(from, integers[3]);
    // Of the biases those that there are.
    const i64 first = clamped(integers[4], from.bias_count);
    bias_count = clamped(integers[5] - (first - integers[4]), from.bias_count - first);
    biased = from.biased + first;
    biases = from.biases + first;
    begin = i64(rank) * kOwnWords * 32;
    end = begin + i64(kOwnWords) * 32 < kVocabulary ? begin + i64(kOwnWords) * 32 : kVocabulary;
    if (bias_count > 0)
      for (int word = static_cast<int>(threadIdx.x); word < kOwnWords; word += kThreads) {
        const i64 low = begin + i64(word) * 32;
        u32 bits = 0;
        for (i64 i = bias_of(low); i < bias_count && biased[i] < low + 32; ++i)
          if (biased[i] >= low) bits |= 1u << (biased[i] - low);
        shared.biased[word] = bits;
      }
    // All blocks run now: their memory may be written to.
    wait_for_all();
  }

  SINTER_DEVICE static i64 clamped(i64 x, i64 high) { return x < 0 ? 0 : x > high ? high : x; }
  SINTER_DEVICE static const u32* set_of(const SamplingInputs& from, i64 number) {
    if (number < 0 || number >= from.set_count) return nullptr;
    return reinterpret_cast<const u32*>(from.sets) + number * kWords;
  }
  SINTER_DEVICE static bool has(const u32* set, i64 id) {
    return (set[id / 32] >> (id % 32) & 1) != 0;
  }
  /// The first bias of a token from `id` on.
  SINTER_DEVICE i64 bias_of(i64 id) const {
    i64 low = 0, high = bias_count;
    while (low < high) {
      const i64 middle = (low + high) / 2;
      if (biased[middle] < id)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  /// The logit of one of the block's tokens with bias and penalty.
  SINTER_DEVICE float value_of(i64 id) const {
    float value = widen(logits[id]);
    if (bias_count > 0 && has(shared.biased, id - begin))
      for (i64 i = bias_of(id); i < bias_count && biased[i] == id; ++i) value += biases[i];
    if (seen != nullptr && has(seen, id))
      value = value > 0.0f ? quotient_to_nearest(value, penalty) : value * penalty;
    return value;
  }
  SINTER_DEVICE bool allows(i64 id) const { return allowed == nullptr || has(allowed, id); }
  SINTER_DEVICE double score_of(float value) const {
    return value == most ? 0.0
                         : (static_cast<double>(value) - static_cast<double>(most)) / temperature;
  }
  SINTER_DEVICE u64 weight_of(float value) const {
    return static_cast<u64>(exponential(static_cast<float>(score_of(value))) * 0x1p40f);
  }

  /// The sums of the first kSums values of all the row's threads, and the largest of the others.
  template <int kSums, int kCount>
  SINTER_DEVICE void combine(u64 (&x)[kCount]) {
    static_assert(kCount <= kMostValues && kCount <= kThreads, "there is room for these");
    const auto of = [](int i, u64 a, u64 b) { return i < kSums ? a + b : a > b ? a : b; };
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = of(i, x[i], exchange(x[i], mask));
    if (thread % 32 == 0)
#pragma unroll
      for (int i = 0; i < kCount; ++i) shared.warps[thread / 32][i] = x[i];
    __syncthreads();
    if (thread < kCount) {
      u64 all = shared.warps[0][thread];
      for (int warp = 1; warp < kWarps; ++warp) all = of(thread, all, shared.warps[warp][thread]);
      u64* const place = &shared.blocks[turn][rank][thread];
      if constexpr (kBlocks > 1)
        for (int block = 0; block < kBlocks; ++block)
          *of_block(place, static_cast<u32>(block)) = all;
      else
        *place = all;
    }
    wait_for_all();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      x[i] = shared.blocks[turn][0][i];
      for (int block = 1; block < kBlocks; ++block)
        x[i] = of(i, x[i], shared.blocks[turn][block][i]);
    }
    turn = 1 - turn;
  }

  /// Calls `take` with the id, key and value of each of the thread's tokens that may be drawn.
  template <class Take>
  SINTER_DEVICE void each(const Take& take) const {
    for (i64 id = begin + static_cast<i64>(threadIdx.x); id < end; id += kThreads) {
      if (!allows(id)) continue;
      const float value = value_of(id);
      take(id, key_of(value), value);
    }
  }

  /// The cut behind the tokens, most likely first, in front of each of which measures of less than
  /// `bound` lie together; `all`: what is kept so far, which has a measure of `bound` or more.
  template <class Measure>
  SINTER_DEVICE TokenCut cut_at(u64 bound, const TokenCut& all, const Measure& measure) {
    u64 low = all.key, high = u64(key_of(most)) + 1, above = 0;  // the cut's key is in between
    while (high - low > 1) {
      u64 pivots[kPivots], x[kPivots + 2] = {};
#pragma unroll
      for (int i = 0; i < kPivots; ++i) {
        const u64 step = high - low < 8 ? u64(i) + 1 : (high - low) * (i + 1) / 8;
        pivots[i] = low + step < high ? low + step : high;
      }
      each([&](i64 id, u32 key, float value) {
        if (key < low || key >= high || !all.keeps(key, id)) return;
        const u64 own = measure(value);
#pragma unroll
        for (int i = 0; i < kPivots; ++i) x[i] += key >= pivots[i] ? own : 0;
        x[kPivots] = key > x[kPivots] ? key : x[kPivots];
        const u64 inverse = ~key;
        x[kPivots + 1] = inverse > x[kPivots + 1] ? inverse : x[kPivots + 1];
      });
      combine<kPivots>(x);
      const u64 top = x[kPivots], bottom = u32(~static_cast<u32>(x[kPivots + 1]));
      u64 next_low = low, next_high = pivots[0], behind = x[0];
#pragma unroll
      for (int i = 0; i < kPivots; ++i)
        if (above + x[i] >= bound) {
          next_low = pivots[i];
          next_high = i + 1 < kPivots ? pivots[i + 1 < kPivots ? i + 1 : i] : high;
          behind = i + 1 < kPivots ? x[i + 1 < kPivots ? i + 1 : i] : 0;
        }
      if (top == bottom) {  // one key is left
        low = top;
        break;
      }
      above += behind;
      low = next_low > bottom ? next_low : bottom;
      high = next_high < top + 1 ? next_high : top + 1;
    }
    // Of tokens of that key as many as it takes.
    const u32 key = static_cast<u32>(low);
    u64 one[1] = {0};
    each([&](i64, u32 other, float value) {
      if (other == key) one[0] = measure(value);
    });
    combine<0>(one);
    return {key, limit_of(key, (bound - above + one[0] - 1) / one[0])};
  }

  /// The id behind the `count`-th token of a key.
  SINTER_DEVICE i64 limit_of(u32 key, u64 count) {
    u64 here[kBlocks] = {};
    each([&](i64, u32 other, float) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block)
        here[block] += other == key && block == rank ? 1 : 0;
    });
    combine<kBlocks>(here);
    u64 before = 0, all = 0, own = 0;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      before += block < rank ? here[block] : 0;
      own += block == rank ? here[block] : 0;
      all += here[block];
    }
    if (count >= all) return kVocabulary;
    u64 limit[1] = {0};
    if (count > before && count <= before + own) {
      const int thread = static_cast<int>(threadIdx.x);
      u64 left = count - before;
      for (i64 tile = begin; tile < end; tile += kThreads) {
        const i64 id = tile + thread;
        const bool hit = id < end && allows(id) && key_of(value_of(id)) == key;
        const u32 bits = __ballot_sync(0xffffffffu, hit);
        if (thread % 32 == 0) shared.counts[thread / 32] = static_cast<u32>(__popc(bits));
        __syncthreads();
        u64 in_front = 0, in_tile = 0;
        for (int warp = 0; warp < kWarps; ++warp) {
          in_front += warp < thread / 32 ? shared.counts[warp] : 0;
          in_tile += shared.counts[warp];
        }
        __syncthreads();
        if (in_tile >= left) {
          in_front += static_cast<u64>(__popc(bits & ((2u << (thread % 32)) - 1)));
          if (hit && in_front == left) limit[0] = static_cast<u64>(id) + 1;
          break;
        }
        left -= in_tile;
      }
    }
    combine<0>(limit);
    return static_cast<i64>(limit[0]);
  }

  /// The row's token.
  SINTER_DEVICE i32 draw(double top_p, double least_score, i64 top_k, u64 seed) {
    u64 x[3] = {0, 0, 0};  // allowed tokens, NaNs, and the key of the most likely above its id
    for (i64 id = begin + static_cast<i64>(threadIdx.x); id < end; id += kThreads) {
      const u32 key = key_of(value_of(id));
      x[1] += key == kNan ? 1 : 0;
      if (!allows(id)) continue;
      x[0] += 1;
      const u64 own = u64(key) << 32 | static_cast<u32>(~static_cast<u32>(id));
      x[2] = own > x[2] ? own : x[2];
    }
    combine<2>(x);
    if (x[1] != 0) return kVocabulary;
    if (x[0] == 0) return -1;
    const i64 likeliest = static_cast<i64>(static_cast<u32>(~static_cast<u32>(x[2])));
    if (!(temperature > 0.0 && temperature < static_cast<double>(infinity())))
      return static_cast<i32>(likeliest);
    most = float_of_key(static_cast<u32>(x[2] >> 32));
    TokenCut cut = {0, kVocabulary};
    if (top_k > 0 && static_cast<u64>(top_k) < x[0])
      cut = cut_at(static_cast<u64>(top_k), cut, [](float) { return u64(1); });
    if (top_p < 1.0) {
      u64 total[1] = {0};
      each([&](i64 id, u32 other, float value) {
        if (cut.keeps(other, id)) total[0] += weight_of(value);
      });
      combine<1>(total);
      const double share = round_up(top_p * static_cast<double>(total[0]));
      const u64 bound = share > 1.0 ? static_cast<u64>(share) : 1;
      cut = cut_at(bound < total[0] ? bound : total[0], cut,
                   [this](float value) { return weight_of(value); });
    }
    u64 best = 0;
    i64 best_id = 0;
    double best_sum = -static_cast<double>(infinity());
    each([&](i64 id, u32 other, float value) {
      if (!cut.keeps(other, id)) return;
      const double score = score_of(value);
      if (score < least_score) return;
      const u64 bits = mixed(seed + static_cast<u64>(id + 1) * 0x9E3779B97F4A7C15ull);
      const double u = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
      // With -log1p(-u) >= u a noise is at most -log(u): most tokens need no logarithm of float64.
      const float near = static_cast<float>(score);
      const float bound = near - logarithm(static_cast<float>(u));
      if (bound + 1e-3f - 1e-5f * near < static_cast<float>(best_sum)) return;
      const double sum = score - logarithm(-logarithm_of_one_plus(-u));
      if (sum > best_sum) {
        best_sum = sum;
        best_id = id;
        best = key_of(sum);
      }
    });
    u64 key[1] = {best};
    combine<0>(key);
    if (key[0] == 0) return static_cast<i32>(likeliest);
    u64 id[1] = {best == key[0] ? static_cast<u32>(~static_cast<u32>(best_id)) : 0u};
    combine<0>(id);
    return static_cast<i32>(~static_cast<u32>(id[0]));
  }

  SINTER_DEVICE static u64 mixed(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
  }
};

/// The token of row `row`, by a cluster of kBlocks blocks of kThreads threads, of which this is
/// number `rank`.
template <class T, int kVocabulary, int kThreads, int kBlocks>
SINTER_DEVICE void sample_row(const T* logits, const SamplingInputs& from, i32* tokens, i64 row,
                              int rank) {
  typedef TokenSampler<T, kVocabulary, kThreads, kBlocks> Sampler;
  SINTER_DYNAMIC_SHARED(memory);
  Sampler sampler(*reinterpret_cast<typename Sampler::Memory*>(memory), logits, from, row, rank);
  const double* const reals = from.reals + row * 4;
  const i64* const integers = from.integers + row * 6;
  const i32 token = sampler.draw(reals[1], reals[2], integers[1], static_cast<u64>(integers[0]));
  if (rank == 0 && threadIdx.x == 0) tokens[row] = token;
}
