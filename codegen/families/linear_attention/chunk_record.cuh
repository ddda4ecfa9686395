// SPDX-License-Identifier: Apache-2.0
// What chunk_operands.cuh leaves for chunk_states.cuh of each chunk of 64 tokens.
//
// Before a chunk the state is S; G are sums of the log gates from the chunk's start up to and with
// each token. The delta rule's updates u of all tokens of the chunk solve a unit lower triangular
// system (the WY form; Yang et al., "Parallelizing Linear Transformers with the Delta Rule over
// Sequence Length", 2024; with gates "Gated Delta Networks", 2024):
//   (I + A) u = beta (value - (key e^G) S),  A[i][j] = beta[i] sum_c key[i] key[j] e^(G[i] - G[j])
// for j < i, so that with T = (I + A)^-1
//   u = added - erased S,  added = T beta value,  erased = T beta (key e^G)
//   out = scale ((query e^G) S + scores u),  scores[i][j] = sum_c query[i] key[j] e^(G[i] - G[j])
//   S <- e^(G of the last token) S + (key e^(G of the last token - G))^T u
// Without the delta rule u = value. No exponent is positive where no gate is.
#pragma once

#include "state_shape.cuh"

/// Matrices lie as tiles of 16 x 16 that lanes load as fragments of an MMA's left operand
/// (mma.cuh), 16 bytes each. Registers 0 and 2, 1 and 3 of such a tile are also the right operands
/// of two instructions whose columns are the tile's rows; what changes a state lies in that order.
template <class Shape>
struct ChunkRecord {
  static constexpr int kTokens = 64, kTile = 16, kTiles = kTokens / kTile;
  static constexpr int kKeyTiles = Shape::kKeySize / kTile;
  static constexpr int kValueTiles = Shape::kValueSize / kTile;
  static constexpr int kLanes = 32;
  static_assert(Shape::kKeySize % 64 == 0 && Shape::kValueSize % kTile == 0, "whole tiles");
  static_assert(Shape::kReads == 1, "a query for each state");

  // What changes a state. First tiles of: -erased [token][key], key [key][token]; then, in units of
  // 16 bytes, the state's decays, a float for each key channel.
  static constexpr int kErased = 0;
  static constexpr int kKey = kErased + (Shape::kErases ? kTiles * kKeyTiles : 0);
  static constexpr int kDecays = (kKey + kTiles * kKeyTiles) * kLanes;
  static constexpr int kChanging =
      kDecays + (Shape::kGate != kUngated ? Shape::kKeySize * 4 / 16 : 0);
  // What reads it, likewise: query [token][key], the lower tiles of scores [token][token].
  static constexpr int kQuery = 0;
  static constexpr int kScores = kTiles * kKeyTiles;
  static constexpr int kReading = (kScores + kTiles * (kTiles + 1) / 2) * kLanes;
  // Tiles of added [value][token], in units as the others' sums are.
  static constexpr int kAdded = kChanging + kReading;
  static constexpr int kUnits = kAdded + kTiles * kValueTiles * kLanes;

  SINTER_DEVICE static constexpr int score_tile(int row, int column) {
    return kScores + row * (row + 1) / 2 + column;
  }
  SINTER_DEVICE static i64 chunks(i64 length) { return (length + kTokens - 1) / kTokens; }
};

/// Accumulators of two instructions, of neighbouring columns, as a left operand.
template <class T>
SINTER_DEVICE void round_sums(u32 (&x)[4], const float (&sums)[2][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    x[i] = pack_pair<T>(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
}
