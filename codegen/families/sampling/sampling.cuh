// SPDX-License-Identifier: Apache-2.0
// Draws a token for each row of logits, as defined in ir/ops/sampling.cpp, by a block or a cluster
// of blocks that split the vocabulary.
//
// Nothing is sorted. A multiway search finds the cut of top-k and top-p: each pass over the row
// sums the counts or weights of tokens above each of seven pivot keys, and leaves an eighth of the
// range. The sums are integers, so that their order does not matter.
#pragma once

#include "cluster.cuh"
#include "order.cuh"
#include "vector.cuh"

/// Sampling parameters and token sets, with their counts.
struct SamplingInputs {
  const double* reals;
  const i64* integers;
  const i32* sets;
  const i32* biased;
  const float* biases;
  i64 set_count, bias_count;
  const i32* wanted;  // null: no log probabilities
};

struct SampledOutputs {
  i32 *tokens, *likeliest;
  float* logprobs;
};

/// The tokens that are kept: those with a higher key than `key`, and those with that key and an id
/// below `limit`.
struct TokenCut {
  u32 key;
  int limit;
  SINTER_DEVICE bool keeps(u32 other, int id) const {
    return other > key || (other == key && id < limit);
  }
};

/// T: type of logits; kVocabulary: tokens; kLikeliest: most tokens with log probabilities.
template <class T, int kVocabulary, int kThreads, int kBlocks, int kLikeliest>
struct TokenSampler {
  static constexpr int kWarps = kThreads / 32, kPivots = 7, kMostValues = kPivots + 2;
  static constexpr int kWords = (kVocabulary + 31) / 32;
  /// Words of a set that cover a block's tokens.
  static constexpr int kOwnWords = (kWords + kBlocks - 1) / kBlocks;
  /// Adjacent tokens that a thread loads at once: rows have this alignment.
  static constexpr int kVector = kVocabulary % 8 == 0   ? 8
                                 : kVocabulary % 4 == 0 ? 4
                                 : kVocabulary % 2 == 0 ? 2
                                                        : 1;

  /// Dynamic shared memory of a block.
  struct Memory {
    u64 warps[kWarps][kMostValues];
    u64 blocks[2][kBlocks][kMostValues];  // double-buffered: one barrier is enough
    u64 likeliest[kLikeliest + 1];        // in the first block: key in the upper, inverted id in
                                          // the lower half
    u32 counts[kWarps];
    u32 likeliest_count;
    u32 biased[kOwnWords];  // bits of tokens with a bias
  };

  Memory& shared;
  const T* logits;  // of the row
  const u32 *allowed, *seen;
  const i32* biased;
  const float* biases;
  i64 bias_count;
  float penalty;
  double temperature;
  float most, rate;  // largest value; 1 / temperature
  int rank;
  int begin, end;  // the block's range of tokens
  int turn;
  bool plain;  // values are unmodified logits, and all tokens are allowed

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
    // Clamps the range of biases to existing ones.
    const i64 first = clamped(integers[4], from.bias_count);
    bias_count = clamped(integers[5] - (first - integers[4]), from.bias_count - first);
    biased = from.biased + first;
    biases = from.biases + first;
    plain = allowed == nullptr && seen == nullptr && bias_count == 0;
    begin = rank * kOwnWords * 32;
    end = begin + kOwnWords * 32 < kVocabulary ? begin + kOwnWords * 32 : kVocabulary;
    if (bias_count > 0)
      for (int word = static_cast<int>(threadIdx.x); word < kOwnWords; word += kThreads) {
        const i64 low = begin + i64(word) * 32;
        u32 bits = 0;
        for (i64 i = bias_of(low); i < bias_count && biased[i] < low + 32; ++i)
          if (biased[i] >= low) bits |= 1u << (biased[i] - low);
        shared.biased[word] = bits;
      }
    // All blocks have started: their shared memory may be written.
    wait_for_all();
  }

  SINTER_DEVICE static i64 clamped(i64 x, i64 high) { return x < 0 ? 0 : x > high ? high : x; }
  SINTER_DEVICE static const u32* set_of(const SamplingInputs& from, i64 number) {
    if (number < 0 || number >= from.set_count) return nullptr;
    return reinterpret_cast<const u32*>(from.sets) + number * kWords;
  }
  SINTER_DEVICE static bool has(const u32* set, int id) {
    return (set[id / 32] >> (id % 32) & 1) != 0;
  }
  /// Index of the first bias whose token is >= `id`.
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

  /// The logit of one of the block's tokens, with bias and penalty.
  SINTER_DEVICE float adjusted(float value, int id) const {
    if (bias_count > 0 && has(shared.biased, id - begin))
      for (i64 i = bias_of(id); i < bias_count && biased[i] == id; ++i) value += biases[i];
    if (seen != nullptr && has(seen, id))
      value = value > 0.0f ? quotient_to_nearest(value, penalty) : value * penalty;
    return value;
  }
  SINTER_DEVICE bool allows(int id) const { return allowed == nullptr || has(allowed, id); }
  SINTER_DEVICE double score_of(float value) const {
    return value == most ? 0.0
                         : (static_cast<double>(value) - static_cast<double>(most)) / temperature;
  }
  SINTER_DEVICE float near_score_of(float value) const {
    return value == most ? 0.0f : (value - most) * rate;
  }
  SINTER_DEVICE u64 weight_of(float value) const {
    return static_cast<u64>(exponential(near_score_of(value)) * 0x1p40f);
  }

  /// Sums the first kSums values over all threads of the row; takes the maximum of the others.
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
      u64* const slot = &shared.blocks[turn][rank][thread];
      if constexpr (kBlocks > 1)
        for (int block = 0; block < kBlocks; ++block)
          *of_block(slot, static_cast<u32>(block)) = all;
      else
        *slot = all;
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

  /// Calls `take` with each of the thread's tokens (id and value) and whether it may be drawn. Ids
  /// are ascending.
  template <class Take>
  SINTER_DEVICE void visit(const Take& take) const {
    constexpr int kStep = kThreads * kVector;
    int first = begin + static_cast<int>(threadIdx.x) * kVector;
    if (first >= end) return;
    Vec<T, kVector> next = load<kVector>(logits + first);
    while (first < end) {
      const Vec<T, kVector> own = next;
      const int id = first;
      first += kStep;
      // Loads ahead while this vector is processed.
      if (first < end) next = load<kVector>(logits + first);
      if (plain) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) take(id + i, widen(own.v[i]), true);
      } else {
#pragma unroll 1
        for (int i = 0; i < kVector; ++i)
          take(id + i, adjusted(widen(own.v[i]), id + i), allows(id + i));
      }
    }
  }
  /// Visits only tokens that may be drawn.
  template <class Take>
  SINTER_DEVICE void each(const Take& take) const {
    visit([&](int id, float value, bool may) {
      if (may) take(id, value);
    });
  }

  /// The smallest cut, most likely tokens first, whose total measure is at least `bound`. `all` is
  /// the current cut, with a measure of `bound` or more.
  template <class Measure>
  SINTER_DEVICE TokenCut cut_at(u64 bound, const TokenCut& all, const Measure& measure) {
    u32 low = all.key, high = key_of_number(most) + 1;  // the cut's key is in [low, high)
    u64 above = 0;
    while (high - low > 1) {
      u32 pivots[kPivots], top = 0, inverse = 0;
      decltype(measure(0.0f)) sums[kPivots] = {};
#pragma unroll
      for (int i = 0; i < kPivots; ++i) {
        const u32 step = high - low < 8 ? u32(i) + 1 : (high - low) / 8 * (u32(i) + 1);
        pivots[i] = step < high - low ? low + step : high;
      }
      each([&](int id, float value) {
        const u32 key = key_of_number(value);
        if (key < low || key >= high || !all.keeps(key, id)) return;
        const auto own = measure(value);
#pragma unroll
        for (int i = 0; i < kPivots; ++i) sums[i] += key >= pivots[i] ? own : 0;
        top = key > top ? key : top;
        inverse = ~key > inverse ? ~key : inverse;
      });
      u64 x[kPivots + 2];
#pragma unroll
      for (int i = 0; i < kPivots; ++i) x[i] = sums[i];
      x[kPivots] = top;
      x[kPivots + 1] = inverse;
      combine<kPivots>(x);
      top = static_cast<u32>(x[kPivots]);
      const u32 bottom = ~static_cast<u32>(x[kPivots + 1]);
      if (top == bottom) {  // one key remains
        low = top;
        break;
      }
      u32 next_low = low, next_high = pivots[0];
      u64 behind = x[0];
#pragma unroll
      for (int i = 0; i < kPivots; ++i)
        if (above + x[i] >= bound) {
          next_low = pivots[i];
          next_high = i + 1 < kPivots ? pivots[i + 1 < kPivots ? i + 1 : i] : high;
          behind = i + 1 < kPivots ? x[i + 1 < kPivots ? i + 1 : i] : 0;
        }
      above += behind;
      low = next_low > bottom ? next_low : bottom;
      high = next_high < top + 1 ? next_high : top + 1;
    }
    // Takes as many tokens with that key as needed.
    u64 x[2] = {0, 0};  // count in the block; measure of one
    each([&](int, float value) {
      if (key_of_number(value) != low) return;
      x[0] += 1;
      x[1] = measure(value);
    });
    return {low, limit_of(low, x, bound - above)};
  }

  /// The id limit among tokens with key `key` that reaches measure `missing`: x[0] is the thread's
  /// count of them, x[1] the measure of each.
  SINTER_DEVICE int limit_of(u32 key, u64 (&x)[2], u64 missing) {
    u64 all[kBlocks + 1];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) all[block] = block == rank ? x[0] : 0;
    all[kBlocks] = x[1];
    combine<kBlocks>(all);
    const u64 one = all[kBlocks], count = (missing + one - 1) / one;
    u64 before = 0, total = 0, own = 0;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      before += block < rank ? all[block] : 0;
      own += block == rank ? all[block] : 0;
      total += all[block];
    }
    if (count >= total) return kVocabulary;
    u64 limit[1] = {0};
    if (count > before && count <= before + own) {
      const int thread = static_cast<int>(threadIdx.x);
      u64 left = count - before;
      for (int tile = begin; tile < end; tile += kThreads) {
        const int id = tile + thread;
        const bool hit =
            id < end && allows(id) && key_of_number(adjusted(widen(logits[id]), id)) == key;
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
    return static_cast<int>(limit[0]);
  }

  /// Draws the row's token.
  SINTER_DEVICE i32 draw(double top_p, double least_score, i64 top_k, u64 seed) {
    u64 x[3] = {0, 0, 0};  // allowed tokens; NaNs; key of the most likely token above its id
    float largest = 0.0f;
    int likeliest = -1;
    visit([&](int id, float value, bool may) {
      x[1] += value != value ? 1 : 0;
      x[0] += may ? 1 : 0;
      if (may && (likeliest < 0 || value > largest)) {
        largest = value;
        likeliest = id;
      }
    });
    if (likeliest >= 0) x[2] = u64(key_of(largest)) << 32 | ~static_cast<u32>(likeliest);
    combine<2>(x);
    if (x[1] != 0) return kVocabulary;
    if (x[0] == 0) return -1;
    likeliest = static_cast<int>(~static_cast<u32>(x[2]));
    if (!(temperature > 0.0 && temperature < static_cast<double>(infinity()))) return likeliest;
    most = float_of_key(static_cast<u32>(x[2] >> 32));
    rate = static_cast<float>(1.0 / temperature);
    TokenCut cut = {0, kVocabulary};
    if (top_k > 0 && static_cast<u64>(top_k) < x[0])
      cut = cut_at(static_cast<u64>(top_k), cut, [](float) { return u32(1); });
    if (top_p < 1.0) {
      u64 total[1] = {0};
      each([&](int id, float value) {
        if (cut.keeps(key_of_number(value), id)) total[0] += weight_of(value);
      });
      combine<1>(total);
      const double share = round_up(top_p * static_cast<double>(total[0]));
      const u64 bound = share > 1.0 ? static_cast<u64>(share) : 1;
      cut = cut_at(bound < total[0] ? bound : total[0], cut,
                   [this](float value) { return weight_of(value); });
    }
    return most_likely_sum(cut, seed, least_score, likeliest);
  }

  /// The sum of score and noise in float32, accurate to slack_of(score). If u rounds to 1, the
  /// largest float below 1 is used.
  SINTER_DEVICE static float near_sum(float score, u64 bits) {
    // Splits u into parts that floats represent exactly.
    const float u = (static_cast<float>(static_cast<u32>(bits >> 32)) +
                     (static_cast<float>(static_cast<u32>(bits) >> 12) + 0.5f) * 0x1p-20f) *
                    0x1p-32f;
    return score - logarithm(-logarithm_of_one_plus(-(u < 1.0f ? u : 0x0.ffffffp0f)));
  }
  SINTER_DEVICE static float slack_of(float sum) { return 1e-3f + 1e-5f * absolute(sum); }

  SINTER_DEVICE static u64 bits_of_noise(u64 seed, int id) {
    return mixed(seed + static_cast<u64>(id + 1) * 0x9E3779B97F4A7C15ull);
  }
  SINTER_DEVICE double sum_of(float value, u64 bits) const {
    const double u = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
    return score_of(value) - logarithm(-logarithm_of_one_plus(-u));
  }

  /// The kept token with the largest sum; `likeliest` if none is kept. Compares in float32 first;
  /// float64 decides among the few sums within the error of the largest.
  SINTER_DEVICE i32 most_likely_sum(const TokenCut& cut, u64 seed, double least_score,
                                    int likeliest) {
    float first = -infinity(), second = -infinity(), first_value = 0.0f;  // the thread's two
                                                                          // largest
    int first_id = -1;
    each([&](int id, float value) {
      if (!cut.keeps(key_of_number(value), id)) return;
      if (score_of(value) < least_score) return;
      const float sum = near_sum(near_score_of(value), bits_of_noise(seed, id));
      if (sum > first) {
        second = first;
        first = sum;
        first_id = id;
        first_value = value;
      } else if (sum > second) {
        second = sum;
      }
    });
    u64 x[1] = {first_id < 0 ? 0 : key_of_number(first)};
    combine<0>(x);
    if (x[0] == 0) return likeliest;
    const float largest = float_of_key(static_cast<u32>(x[0]));
    const float enough = largest - slack_of(largest);
    u64 best = 0;
    int best_id = first_id;
    if (first >= enough && first_id >= 0)
      best = key_of(sum_of(first_value, bits_of_noise(seed, first_id)));
    u64 close[1] = {second >= enough ? u64(1) : u64(0)};
    combine<0>(close);
    if (close[0] != 0) {  // rare: a thread has two candidates
      each([&](int id, float value) {
        if (!cut.keeps(key_of_number(value), id) || score_of(value) < least_score) return;
        const u64 bits = bits_of_noise(seed, id);
        if (near_sum(near_score_of(value), bits) < enough) return;
        const u64 own = key_of(sum_of(value, bits));
        if (own > best) {
          best = own;
          best_id = id;
        }
      });
    }
    u64 key[1] = {best};
    combine<0>(key);
    u64 id[1] = {best == key[0] ? static_cast<u32>(~static_cast<u32>(best_id)) : 0u};
    combine<0>(id);
    return static_cast<i32>(~static_cast<u32>(id[0]));
  }

  /// Maps an address to the first block's shared memory.
  template <class X>
  SINTER_DEVICE static X* in_first(X* mine) {
    if constexpr (kBlocks > 1)
      return of_block(mine, 0);
    else
      return mine;
  }

  /// From now on values are the unmodified logits of all tokens, at temperature 1.
  SINTER_DEVICE void take_plain_logits() {
    allowed = seen = nullptr;
    bias_count = 0;
    plain = true;
    temperature = 1.0;
    rate = 1.0f;
    u64 x[1] = {0};
    each([&](int, float value) {
      const u64 key = key_of_number(value);
      x[0] = key > x[0] ? key : x[0];
    });
    combine<0>(x);
    most = float_of_key(static_cast<u32>(x[0]));
  }

  /// Stores the log probabilities of `token` and of the `count` likeliest tokens, at most
  /// kLikeliest. Must be the last call for the row.
  SINTER_DEVICE void tell(i32 token, int count, i32* ids, float* logprobs) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread == 0) shared.likeliest_count = 0;
    take_plain_logits();
    u64 total[1] = {0};
    each([&](int, float value) { total[0] += weight_of(value); });
    combine<1>(total);
    count = count < kLikeliest ? count : kLikeliest;
    count = count < kVocabulary ? count : kVocabulary;
    if (count > 0) {
      TokenCut cut = {0, kVocabulary};
      if (count < kVocabulary)
        cut = cut_at(static_cast<u64>(count), cut, [](float) { return u32(1); });
      each([&](int id, float value) {
        const u32 key = key_of_number(value);
        if (!cut.keeps(key, id)) return;
        const u32 slot = atomicAdd(in_first(&shared.likeliest_count), 1u);
        *in_first(&shared.likeliest[slot]) = u64(key) << 32 | ~static_cast<u32>(id);
      });
    }
    wait_for_all();
    if (rank != 0) return;
    const double log_total = logarithm(static_cast<double>(total[0]) * 0x1p-40);
    const auto logprob_of = [&](float value) {
      return static_cast<float>(score_of(value) - log_total);
    };
    if (thread == 0) logprobs[0] = logprob_of(widen(logits[token]));
    if (thread >= kLikeliest) return;
    if (thread >= count) {
      ids[thread] = -1;
      logprobs[1 + thread] = 0.0f;
      return;
    }
    const u64 own = shared.likeliest[thread];
    int position = 0;
    for (int i = 0; i < count; ++i) position += shared.likeliest[i] > own ? 1 : 0;
    ids[position] = static_cast<i32>(~static_cast<u32>(own));
    logprobs[1 + position] = logprob_of(float_of_key(static_cast<u32>(own >> 32)));
  }

  SINTER_DEVICE static u64 mixed(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
  }
};

/// Draws the token of row `row` and stores log probabilities, by a cluster of kBlocks blocks of
/// kThreads threads; this block is number `rank`.
template <class T, int kVocabulary, int kThreads, int kBlocks, int kLikeliest>
SINTER_DEVICE void sample_row(const T* logits, const SamplingInputs& from, const SampledOutputs& to,
                              i64 row, int rank) {
  typedef TokenSampler<T, kVocabulary, kThreads, kBlocks, kLikeliest> Sampler;
  SINTER_DYNAMIC_SHARED(memory);
  Sampler sampler(*reinterpret_cast<typename Sampler::Memory*>(memory), logits, from, row, rank);
  const double* const reals = from.reals + row * 4;
  const i64* const integers = from.integers + row * 6;
  int wanted = -1;
  if constexpr (kLikeliest > 0) wanted = from.wanted[row];  // loads while the token is drawn
  const i32 token = sampler.draw(reals[1], reals[2], integers[1], static_cast<u64>(integers[0]));
  const int thread = static_cast<int>(threadIdx.x);
  if (rank == 0 && thread == 0) to.tokens[row] = token;
  if constexpr (kLikeliest > 0) {
    i32* const ids = to.likeliest + row * kLikeliest;
    float* const logprobs = to.logprobs + row * (1 + kLikeliest);
    if (wanted >= 0 && token >= 0 && token < kVocabulary) {
      sampler.tell(token, wanted, ids, logprobs);
    } else if (rank == 0) {
      if (thread <= kLikeliest) logprobs[thread] = 0.0f;
      if (thread < kLikeliest) ids[thread] = -1;
    }
  }
}
