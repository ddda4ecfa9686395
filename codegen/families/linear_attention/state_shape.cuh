// SPDX-License-Identifier: Apache-2.0
// What the kernels of LinearAttention (ir/ops/linear_attention.cpp) share: sizes and heads.
#pragma once

#include "approximate.cuh"
#include "cluster.cuh"
#include "mma.cuh"
#include "vector.cuh"

enum StateRule { kLinear, kDelta, kGeneralDelta };
enum StateGate { kUngated, kGatedByHead, kGatedByChannel };

/// A layer with kStates states of kKeySize x kValueSize for each sequence. Heads of operands that
/// are fewer than the states are each shared by neighbouring states; of queries there may be more,
/// kReads for each state.
template <StateRule kRule_, StateGate kGate_, int kKeySize_, int kValueSize_, int kStates_,
          int kQueryHeads_, int kKeyHeads_, int kValueHeads_>
struct StateShape {
  static constexpr StateRule kRule = kRule_;
  static constexpr StateGate kGate = kGate_;
  static constexpr int kKeySize = kKeySize_, kValueSize = kValueSize_, kStates = kStates_;
  static constexpr int kQueryHeads = kQueryHeads_, kKeyHeads = kKeyHeads_;
  static constexpr int kValueHeads = kValueHeads_;
  static constexpr int kReads = kQueryHeads > kStates ? kQueryHeads / kStates : 1;
  static constexpr int kOutHeads = kStates * kReads;
  static constexpr bool kErases = kRule != kLinear;
  static_assert(kStates % kKeyHeads == 0 && kStates % kValueHeads == 0, "shared by whole groups");
  static_assert(kOutHeads % kQueryHeads == 0, "likewise");

  SINTER_DEVICE static i64 query_row(i64 token, int state, int read) {
    constexpr int kShare = kReads > 1 ? 1 : kStates / kQueryHeads;
    return (token * kQueryHeads + (state * kReads + read) / kShare) * kKeySize;
  }
  SINTER_DEVICE static i64 key_row(i64 token, int state) {
    return (token * kKeyHeads + state / (kStates / kKeyHeads)) * kKeySize;
  }
  SINTER_DEVICE static i64 value_row(i64 token, int state) {
    return (token * kValueHeads + state / (kStates / kValueHeads)) * kValueSize;
  }
  SINTER_DEVICE static i64 out_row(i64 token, int state, int read) {
    return (token * kOutHeads + state * kReads + read) * kValueSize;
  }
};

/// Operands and results in memory, of sequences of `length` tokens each. `state` may be null:
/// zeros; it may be `new_state`. A ragged batch has `length` tokens of all sequences, and its
/// states, which are `new_state`, in slots.
template <class T, class Decay, class Beta, class Erase, class State, bool kIsRagged_ = false>
struct StateLayer {
  static constexpr bool kIsRagged = kIsRagged_;
  typedef T Element;
  typedef State StateElement;
  const T *query, *key, *value;
  const Decay* decay;  // logarithms
  const Beta* beta;
  const Erase* erase;  // (what is erased, what is added for it) of each token and state
  const State* state;
  T* out;
  State* new_state;
  i64 length;
  float scale;
  const int *starts, *sources, *slots;  // of a ragged batch
};
