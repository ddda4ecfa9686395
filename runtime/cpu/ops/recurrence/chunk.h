// SPDX-License-Identifier: Apache-2.0
// A state of LinearAttention and what tokens do to it, in float32: one token in one pass, or a
// chunk of tokens as products of matrices.
//
// Within a chunk, G_t is the sum of the decays of its tokens up to t, and M the one at its middle.
// What is read is scaled by exp(G_t - M), what is written by exp(M - G_t), so that the decay
// between two tokens is a factor of their product. What tokens write, u, solves a triangular system
// (the WY form of products of rank-one updates, arXiv:2406.06484):
//
//   delta          u_t = beta_t (v_t - k_t' S_(t-1)),  S_t = decay S_(t-1) + k_t u_t'
//   general_delta  u_t = a_t' S_(t-1),                 S_t = decay S_(t-1) + b_t u_t' + k_t v_t'
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cpu/ops/panel_ops.h"

namespace sinter::runtime::cpu {

enum class UpdateRule : std::uint8_t { kLinear, kDelta, kGeneralDelta };
enum class Decay : std::uint8_t { kNone, kByHead, kByChannel };

/// Most tokens of a chunk; a multiple of kPanelStep.
inline constexpr std::int64_t kChunk = 64;

struct StateSizes {
  UpdateRule rule = UpdateRule::kLinear;
  Decay decay = Decay::kNone;
  std::int64_t keys = 0, values = 0;
  std::int64_t queries = 1;  // that read one state

  /// Rows of states and values are whole vectors.
  std::int64_t pitch() const { return rounded_up_to(values, kPanelStep); }
  std::int64_t decays() const {
    return decay == Decay::kNone ? 0 : decay == Decay::kByHead ? 1 : keys;
  }
};

/// Rows of up to kChunk tokens, in memory of a thread. The caller fills the inputs.
struct TokenRows {
  // Inputs, which are overwritten.
  float* query;  // [queries, kChunk, keys], with the scale
  float* key;    // [kChunk, keys]
  float* value;  // [kChunk, pitch], zero behind the values
  float* decay;  // [kChunk, decays]: logarithms
  float* beta;   // [kChunk]
  float* erase;  // [kChunk, 2 keys]: a, then b
  float* state;  // [keys, pitch]
  // Results and intermediate values.
  float* out;      // [queries, kChunk, pitch]
  float* sums;     // [kChunk + 1, decays]: G
  float* key_t;    // [keys, kChunk]
  float* erase_t;  // [keys, kChunk]: b
  float* scores;   // [kChunk, kChunk]
  float* erased;   // [kChunk, pitch]

  TokenRows(const StateSizes& sizes, float* memory);
  static std::size_t floats(const StateSizes& sizes);
};

/// How many tokens from `first` on, at most `count`, are one chunk: the factors between its tokens
/// stay in the range of float32. At least 1. Writes the sums of their decays.
std::int64_t chunk_length(const StateSizes& sizes, TokenRows& rows, std::int64_t first,
                          std::int64_t count);

/// Takes `count` tokens from `first` on, for which chunk_length() has been called: one after the
/// other, or as one chunk.
void take_tokens(const StateSizes& sizes, TokenRows& rows, std::int64_t first, std::int64_t count);
void take_chunk(const StateSizes& sizes, TokenRows& rows, std::int64_t first, std::int64_t count);

}  // namespace sinter::runtime::cpu
