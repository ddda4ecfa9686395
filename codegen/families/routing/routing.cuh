// SPDX-License-Identifier: Apache-2.0
// Routing of a mixture of experts: each token's experts and their shares (ir/ops/mixture.cpp), and
// the choices of all tokens sorted by expert, stable by token. Counts alone decide each position.
#pragma once

#include "cluster.cuh"
#include "lanes.cuh"
#include "order.cuh"
#include "vector.cuh"

enum RouteScores { kNoScores, kSoftmax, kSigmoid, kSparsemixer };

/// Numbers of a Route.
struct RouteNumbers {
  float epsilon, scale, jitter;
};

/// Routes a token by a warp: kChosen of kExperts, whose kGroups equal groups compete by the sums of
/// their kBest greatest scores for kKept places; experts of others have rank 0 with kZeroOutside.
template <int kExperts, int kChosen, RouteScores kScores, bool kNormalises, bool kHasBias,
          int kGroups, int kKept, int kBest, bool kZeroOutside = false>
struct Router {
  static constexpr int kEach = (kExperts + 31) / 32;
  static constexpr int kGroupSize = kExperts / kGroups;
  static constexpr bool kByScores = kHasBias || kGroups > 1;  // else by logits, in the same order
  static constexpr int kShares = kChosen;
  /// Floats of a warp.
  static constexpr int kScratch = kShares + (kGroups > 1 ? kExperts + kGroups : 0);

  SINTER_DEVICE static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// Expert c of this lane.
  SINTER_DEVICE static int expert(int c) { return lane() + 32 * c; }
  SINTER_DEVICE static bool exists(int c) {
    return kExperts % 32 == 0 || c + 1 < kEach || expert(c) < kExperts;
  }

  /// Scores of softmax or sigmoid.
  SINTER_DEVICE static void score(const float (&logits)[kEach], float (&scores)[kEach]) {
    if constexpr (kScores == kSoftmax) {
      float most = -infinity(), sum = 0;
#pragma unroll
      for (int c = 0; c < kEach; ++c)
        if (exists(c)) most = maximum(most, logits[c]);
      most = reduce_lanes<Max, 32>(most);
#pragma unroll
      for (int c = 0; c < kEach; ++c) {
        scores[c] = exists(c) ? exponential(logits[c] - most) : 0.0f;
        sum += scores[c];
      }
      sum = reduce_lanes<Sum, 32>(sum);
#pragma unroll
      for (int c = 0; c < kEach; ++c) scores[c] = quotient_to_nearest(scores[c], sum);
    } else {
#pragma unroll
      for (int c = 0; c < kEach; ++c)
        scores[c] = kScores == kSigmoid ? quotient_to_nearest(1.0f, 1.0f + exponential(-logits[c]))
                                        : logits[c];
    }
  }

  /// The sum of the greatest of a group's numbers, in their order.
  SINTER_DEVICE static float total_of(const float* numbers) {
    u32 last = ~0u;
    int last_at = -1;
    float total = 0;
    for (int i = 0; i < kBest; ++i) {
      u32 best = 0;
      int at = 0;
      for (int j = 0; j < kGroupSize; ++j) {
        const u32 key = key_of(numbers[j]);
        const bool is_left = key < last || (key == last && j > last_at);
        if (is_left && key > best) best = key, at = j;
      }
      total += numbers[at];
      last = best;
      last_at = at;
    }
    return total;
  }
  /// Experts of groups that are not kept cannot be chosen, or as if their scores were 0.
  SINTER_DEVICE static void mask_groups(float (&choice)[kEach], float* scratch) {
    float* const totals = scratch + kExperts;
    __syncwarp();
#pragma unroll
    for (int c = 0; c < kEach; ++c)
      if (exists(c)) scratch[expert(c)] = choice[c];
    __syncwarp();
    for (int g = lane(); g < kGroups; g += 32) totals[g] = total_of(scratch + g * kGroupSize);
    __syncwarp();
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      if (!exists(c)) continue;
      const int own = expert(c) / kGroupSize;
      const u32 key = key_of(totals[own]);
      int before = 0;
      for (int g = 0; g < kGroups; ++g) {
        const u32 other = key_of(totals[g]);
        before += other > key || (other == key && g < own);
      }
      if (before >= kKept) choice[c] = kZeroOutside ? 0.0f : -infinity();
    }
  }

  /// Sparsemixer's share of a choice whose logit is `greatest`, of what `keys` have left.
  SINTER_DEVICE static float mixed(const float (&logits)[kEach], const u32 (&keys)[kEach],
                                   float greatest, float jitter) {
    float sum = 0;
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const float size = maximum(absolute(logits[c]), greatest);
      const bool is_far = quotient_to_nearest(greatest - logits[c], size) > 2 * jitter;
      if (exists(c) && keys[c] != 0 && !is_far) sum += exponential(logits[c] - greatest);
    }
    return quotient_to_nearest(1.0f, reduce_lanes<Sum, 32>(sum));
  }

  /// Writes a token's experts, greatest first (all `none` if `is_padding`), and shares if wanted.
  template <class T, class Bias>
  SINTER_DEVICE static void route(const T* x, const Bias* bias, const RouteNumbers& numbers,
                                  bool is_padding, i32 none, float* scratch, i32* choices,
                                  float* shares) {
    float logits[kEach], scores[kEach], choice[kEach];
    u32 keys[kEach];
#pragma unroll
    for (int c = 0; c < kEach; ++c) logits[c] = exists(c) ? widen(x[expert(c)]) : -infinity();
    score(logits, scores);
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      choice[c] = kByScores ? scores[c] : logits[c];
      if constexpr (kHasBias) {
        if (exists(c)) choice[c] += widen(bias[expert(c)]);
      }
    }
    if constexpr (kGroups > 1) mask_groups(choice, scratch + kShares);
#pragma unroll
    for (int c = 0; c < kEach; ++c) keys[c] = exists(c) ? key_of(choice[c]) : 0;  // 0: taken
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < kChosen; ++i) {
      u32 best = 0;
      int at = kExperts;
#pragma unroll
      for (int c = 0; c < kEach; ++c)
        if (keys[c] > best) best = keys[c], at = expert(c);
      const u32 greatest = greatest_of_lanes(best);
      at = static_cast<int>(least_of_lanes(static_cast<u32>(best == greatest ? at : kExperts)));
      float own = 0;
#pragma unroll
      for (int c = 0; c < kEach; ++c)
        if (expert(c) == at) own = kScores == kSparsemixer ? logits[c] : scores[c];
      float share = from_lane(own, at % 32);
      if constexpr (kScores == kSparsemixer) share = mixed(logits, keys, share, numbers.jitter);
#pragma unroll
      for (int c = 0; c < kEach; ++c)
        if (expert(c) == at) keys[c] = 0;
      sum += share;
      if (lane() == 0) {
        choices[i] = is_padding ? none : at;
        scratch[i] = share;
      }
    }
    __syncwarp();
    for (int i = lane(); shares != nullptr && i < kChosen; i += 32) {
      float share = scratch[i];
      if constexpr (kNormalises) share = quotient_to_nearest(share, sum + numbers.epsilon);
      shares[i] = share * numbers.scale;
    }
    __syncwarp();
  }
};

/// Logits of few tokens x [tokens, kDepth]: products with weights [kExperts, kDepth], by a cluster
/// of kBlocks blocks. A warp adds up an expert's, in an order that the other tokens do not change.
/// Warps beyond the experts take other tokens.
template <class T, int kExperts, int kDepth, int kBlocks, int kWarps>
struct RouterProduct {
  static_assert(kDepth % 8 == 0, "lanes load vectors");
  static constexpr int kLoads = (kDepth + 255) / 256;
  static constexpr int kAll = kBlocks * kWarps, kEach = (kExperts + kAll - 1) / kAll;
  static constexpr int kParts = kAll / kExperts > 1 ? kAll / kExperts : 1;  // of the tokens
  static constexpr bool kHolds = kEach * kLoads <= 16;                      // in registers
  static constexpr int kTokens = 4;                                         // at once
  typedef Vec<T, 8> Vector;

  Vector held[kHolds ? kEach * kLoads : 1];

  SINTER_DEVICE static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  SINTER_DEVICE static u32 rank() { return blockIdx.x % kBlocks; }
  SINTER_DEVICE static int warp() {  // of the cluster
    return static_cast<int>(rank()) + kBlocks * (static_cast<int>(threadIdx.x) / 32);
  }
  /// Expert e of this warp.
  SINTER_DEVICE static int expert(int e) {
    return kParts == 1 ? warp() + kAll * e : warp() % kExperts;
  }
  SINTER_DEVICE static int part() { return kParts == 1 ? 0 : warp() / kExperts; }
  SINTER_DEVICE static bool exists(int load) {
    return kDepth % 256 == 0 || load * 256 + lane() * 8 < kDepth;
  }
  SINTER_DEVICE static const T* at(const T* weights, int e, int load) {
    return weights + (static_cast<i64>(expert(e)) * kDepth + load * 256 + lane() * 8);
  }

  /// Reads weights, or fetches them into the L2: the preceding kernel does not write them.
  SINTER_DEVICE void begin(const T* weights) {
#pragma unroll
    for (int e = 0; e < kEach; ++e)
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if constexpr (kHolds) held[e * kLoads + i] = Vector{};
        if (expert(e) >= kExperts || part() >= kParts || !exists(i)) continue;
        if constexpr (kHolds)
          held[e * kLoads + i] = load<8>(at(weights, e, i));
        else if (lane() % 8 == 0)
          fetch_line(at(weights, e, i));
      }
  }

  /// Writes logits [tokens, kExperts], plus `added` if there is such, to the first block's shared
  /// memory; `logits` is their address in this block's. All blocks have started.
  template <class Added>
  SINTER_DEVICE void multiply(const T* weights, const T* x, const Added* added, int tokens,
                              float* logits) const {
    for (int first = part() * kTokens; part() < kParts && first < tokens;
         first += kParts * kTokens) {
      float sums[kEach][kTokens] = {};
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (!exists(i)) continue;
        Vector own[kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          own[e] = Vector{};
          if constexpr (kHolds)
            own[e] = held[e * kLoads + i];
          else if (expert(e) < kExperts)
            own[e] = load<8>(at(weights, e, i));
        }
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          if (first + t >= tokens) break;
          const Vector row =
              load<8>(x + (static_cast<i64>(first + t) * kDepth + i * 256 + lane() * 8));
#pragma unroll
          for (int e = 0; e < kEach; ++e)
#pragma unroll
            for (int v = 0; v < 8; ++v) sums[e][t] += widen(row.v[v]) * widen(own[e].v[v]);
        }
      }
#pragma unroll
      for (int e = 0; e < kEach; ++e)
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          if (first + t >= tokens) break;
          float sum = reduce_lanes<Sum, 32>(sums[e][t]);
          if (lane() != 0 || expert(e) >= kExperts) continue;
          if (added != nullptr) sum += widen(added[expert(e)]);
          float* const to = logits + (first + t) * kExperts + expert(e);
          *(kBlocks > 1 ? of_block(to, 0) : to) = sum;
        }
    }
    if (kBlocks > 1)
      cluster_barrier();
    else
      __syncthreads();
  }
};

/// Nothing is routed: choices are there.
struct NoRouter {
  static constexpr int kScratch = 1;
};

/// Where results go; null: nobody asks.
struct SortedChoices {
  i32 *order, *offsets;          // of rows, by expert
  i32 *tokens, *experts, *rows;  // of each row; of each row; the row of each choice
  i32 last_expert;               // greater ones are this
};

/// Memory and steps of a block. Choices are of kRows experts; others are sorted behind. kHeld:
/// choices that the block keeps; kEachToken: choices of a token.
template <class Form, int kWarps, int kRows, int kHeld, int kEachToken>
struct ChoiceSorter {
  static constexpr int kBins = kRows + 1, kThreads = 32 * kWarps;
  static constexpr int kEach = 2048 / kThreads, kChunk = kThreads * kEach;
  static constexpr int kBinsOfThread = (kBins + kThreads - 1) / kThreads;
  static constexpr int kFew = 64;  // choices that are compared with each other

  u32 seen[kWarps][kBins];
  u32 next[kBins];  // counts, then where the next choice of a row goes
  u32 sums[kWarps];
  float scratch[kWarps][Form::kScratch];
  i32 held[kHeld];

  SINTER_DEVICE static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  SINTER_DEVICE static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  SINTER_DEVICE static int bin_of(i32 choice) {
    const i32 row = choice < 0 ? choice + kRows : choice;
    return row >= 0 && row < kRows ? row : kRows;
  }

  SINTER_DEVICE void clear() {
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) next[bin] = 0;
    __syncthreads();
  }
  /// Counts choices; all threads of the block take part.
  SINTER_DEVICE void count(const i32* choices, i64 number) {
    for (i64 i = threadIdx.x; i < number; i += kThreads) atomicAdd(&next[bin_of(choices[i])], 1u);
    __syncthreads();
  }
  /// Counts become the numbers of choices in front.
  SINTER_DEVICE void add_up() {
    const int first = static_cast<int>(threadIdx.x) * kBinsOfThread;
    u32 own = 0;
    for (int b = 0; b < kBinsOfThread; ++b)
      if (first + b < kBins) own += next[first + b];
    u32 before = running_sum(own, sums) - own;
    for (int b = 0; b < kBinsOfThread; ++b) {
      if (first + b >= kBins) break;
      const u32 here = next[first + b];
      next[first + b] = before;
      before += here;
    }
    __syncthreads();
  }
  SINTER_DEVICE void write_offsets(i32* offsets) const {
    for (int bin = static_cast<int>(threadIdx.x); offsets != nullptr && bin < kBins;
         bin += kThreads)
      offsets[bin] = static_cast<i32>(next[bin]);
    __syncthreads();
  }

  /// Places choices, which are `first` and the following ones of all.
  SINTER_DEVICE void place(const i32* choices, i64 number, i64 first, const SortedChoices& to) {
    for (i64 base = 0; base < number; base += kChunk) {
      i32 own[kEach];
      u32 ranks[kEach];
      const i64 begin = base + warp() * (32 * kEach) + lane();
      u32* const of_warp = seen[warp()];
      __syncwarp();
      for (int bin = lane(); bin < kBins; bin += 32) of_warp[bin] = 0;
      __syncwarp();
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        if (begin - lane() + e * 32 >= number) break;
        const bool is_live = begin + e * 32 < number;
        own[e] = is_live ? choices[begin + e * 32] : 0;
        const int bin = bin_of(own[e]);
        const u32 peers = lanes_alike(static_cast<u32>(is_live ? bin : kBins));
        const u32 before = peers & ((1u << lane()) - 1);
        const u32 known = of_warp[bin];
        __syncwarp();
        if (is_live && before == 0) of_warp[bin] = known + __popc(peers);
        __syncwarp();
        ranks[e] = known + __popc(before);
      }
      __syncthreads();
      for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) {
        u32 before = next[bin];
        for (int w = 0; w < kWarps; ++w) {
          const u32 here = seen[w][bin];
          seen[w][bin] = before;
          before += here;
        }
        next[bin] = before;
      }
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        if (begin + e * 32 >= number) break;
        const u32 row = of_warp[bin_of(own[e])] + ranks[e];
        const i32 choice = static_cast<i32>(first + begin + e * 32);
        if (to.order != nullptr) to.order[row] = choice;
        if (to.tokens != nullptr) to.tokens[row] = choice / kEachToken;
        if (to.experts != nullptr) to.experts[row] = minimum(own[e], to.last_expert);
        if (to.rows != nullptr) to.rows[choice] = static_cast<i32>(row);
      }
    }
  }

  /// Few choices, each compared with all.
  SINTER_DEVICE static void sort_few(const i32* choices, int number, const SortedChoices& to) {
    for (int i = static_cast<int>(threadIdx.x); i < number; i += kThreads) {
      const i32 own = choices[i];
      int row = 0;
      for (int j = 0; j < number; ++j) {
        const int other = bin_of(choices[j]);
        row += other < bin_of(own) || (other == bin_of(own) && j < i);
      }
      if (to.order != nullptr) to.order[row] = i;
      if (to.tokens != nullptr) to.tokens[row] = i / kEachToken;
      if (to.experts != nullptr) to.experts[row] = minimum(own, to.last_expert);
      if (to.rows != nullptr) to.rows[i] = row;
    }
    for (int bin = static_cast<int>(threadIdx.x); to.offsets != nullptr && bin < kBins;
         bin += kThreads) {
      int before = 0;
      for (int j = 0; j < number; ++j) before += bin_of(choices[j]) < bin;
      to.offsets[bin] = before;
    }
  }

  /// One block sorts all choices, which `choices` has.
  SINTER_DEVICE void sort(const i32* choices, i64 number, const SortedChoices& to) {
    if (number <= kFew) return sort_few(choices, static_cast<int>(number), to);
    clear();
    count(choices, number);
    add_up();
    write_offsets(to.offsets);
    place(choices, number, 0, to);
  }

  /// A block's counts of its choices, for place_tile().
  SINTER_DEVICE void count_tile(const i32* choices, i64 number, u32* counts) {
    clear();
    count(choices, number);
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads)
      counts[i64(blockIdx.x) * kBins + bin] = next[bin];
  }
  /// Places the choices of a block, given the counts of all `blocks`. Several threads add up a bin.
  SINTER_DEVICE void place_tile(const i32* choices, i64 number, i64 first, const u32* counts,
                                int blocks, const SortedChoices& to) {
    constexpr int kParts = kThreads / kBins > 1 ? kThreads / kBins : 1;
    u32* const before = &seen[0][0];  // of each bin, choices of blocks in front
    clear();
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) before[bin] = 0;
    __syncthreads();
    const int block = static_cast<int>(blockIdx.x);
    for (int i = static_cast<int>(threadIdx.x); i < kBins * kParts; i += kThreads) {
      const int bin = i % kBins;
      u32 all = 0, in_front = 0;
#pragma unroll 8
      for (int b = i / kBins; b < blocks; b += kParts) {
        const u32 here = counts[i64(b) * kBins + bin];
        all += here;
        if (b < block) in_front += here;
      }
      atomicAdd(&next[bin], all);
      atomicAdd(&before[bin], in_front);
    }
    __syncthreads();
    add_up();
    if (block == 0) write_offsets(to.offsets);
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads)
      next[bin] += before[bin];
    __syncthreads();
    place(choices, number, first, to);
  }
};
