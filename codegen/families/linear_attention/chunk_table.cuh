// SPDX-License-Identifier: Apache-2.0
// The chunks of a ragged batch, which its sequences' lengths and slots give: a chunk ends behind 64
// tokens, a sequence, or a token whose state a slot keeps.
#pragma once

#include "chunk_record.cuh"

/// `store`: the slot of the last token, or -1.
struct Chunk {
  int first, tokens, sequence, store;
};

/// In memory: `most` chunks, then for each sequence the number of its first chunk, and all chunks'
/// number. A sequence without chunks goes token by token.
struct ChunkTable {
  // A sequence has a chunk for each such number of tokens at most: what is shorter, or whose states
  // are kept more often, has none.
  static constexpr int kLeastTokens = 32;

  int* memory;
  int most;

  SINTER_DEVICE ChunkTable(int* memory_, i64 length)
      : memory(memory_), most(static_cast<int>((length + kLeastTokens - 1) / kLeastTokens)) {}
  SINTER_DEVICE int* firsts() const { return memory + most * 4; }
  SINTER_DEVICE Chunk chunk(int i) const {
    const auto words = load<4>(memory + i * 4);
    return {words.v[0], words.v[1], words.v[2], words.v[3]};
  }
  SINTER_DEVICE void set_chunk(int i, const Chunk& chunk) const {
    const int words[4] = {chunk.first, chunk.tokens, chunk.sequence, chunk.store};
    store(memory + i * 4, words);
  }
};

/// Writes the table: one block, a thread for each sequence.
template <class Shape, class Layer>
struct ChunkTableWriter {
  static constexpr int kThreads = 256, kWord = 32;
  static constexpr int kMostTokens = 65536;  // of the batch (no_chunks)
  static constexpr int kTokens = ChunkRecord<Shape>::kTokens;

  struct Memory {
    u32 kept[kMostTokens / kWord];  // a bit for each token
    int sums[2][kThreads];
  };

  const Layer& layer;
  Memory& memory;
  ChunkTable table;
  int sequences, thread;

  SINTER_DEVICE ChunkTableWriter(const Layer& layer_, Memory& memory_, int* table_, i64 sequences_)
      : layer(layer_),
        memory(memory_),
        table(table_, layer.length),
        sequences(static_cast<int>(sequences_)),
        thread(static_cast<int>(threadIdx.x)) {}

  SINTER_DEVICE void find_kept() const {
    const int length = static_cast<int>(layer.length);
    for (int first = thread / kWord * kWord; first < length; first += kThreads) {
      const int token = first + thread % kWord;
      const bool is_kept = token < length && layer.slots[token] >= 0;
      const u32 bits = __ballot_sync(0xffffffffu, is_kept);
      if (thread % kWord == 0) memory.kept[first / kWord] = bits;
    }
    __syncthreads();
  }
  /// Behind the chunk that begins at `first`, of a sequence that ends before `end`.
  SINTER_DEVICE int end_of_chunk(int first, int end) const {
    const int limit = end - first < kTokens ? end : first + kTokens;
    for (int word = first / kWord; word * kWord < limit; ++word) {
      u32 bits = memory.kept[word];
      if (word == first / kWord) bits &= ~0u << first % kWord;
      if (bits == 0) continue;
      const int behind = word * kWord + __popc((bits & (0u - bits)) - 1) + 1;
      return behind < limit ? behind : limit;
    }
    return limit;
  }
  SINTER_DEVICE int count(int first, int end) const {
    const int most = (end - first) / ChunkTable::kLeastTokens;
    int chunks = 0;
    for (int at = first; at < end && chunks <= most; at = end_of_chunk(at, end)) ++chunks;
    return chunks <= most ? chunks : 0;
  }
  /// The sum of `own` of all threads up to this one and with it.
  SINTER_DEVICE int add_up(int own) const {
    int sum = own, buffer = 0;
    memory.sums[0][thread] = sum;
    __syncthreads();
    for (int distance = 1; distance < kThreads; distance *= 2, buffer = 1 - buffer) {
      if (thread >= distance) sum += memory.sums[buffer][thread - distance];
      memory.sums[1 - buffer][thread] = sum;
      __syncthreads();
    }
    return sum;
  }

  SINTER_DEVICE void run() const {
    find_kept();
    int before = 0;
    for (int tile = 0; tile < sequences; tile += kThreads) {
      const int sequence = tile + thread;
      const bool exists = sequence < sequences;
      const int first = exists ? layer.starts[sequence] : 0;
      const int end = exists ? layer.starts[sequence + 1] : 0;
      const int chunks = count(first, end), sum = add_up(chunks);
      int next = before + sum - chunks;
      if (exists) table.firsts()[sequence] = next;
      if (chunks > 0) {
        for (int at = first; at < end; ++next) {
          const int behind = end_of_chunk(at, end);
          table.set_chunk(next, {at, behind - at, sequence, layer.slots[behind - 1]});
          at = behind;
        }
      }
      before += memory.sums[0][kThreads - 1];
      __syncthreads();
    }
    if (thread == 0) table.firsts()[sequences] = before;
  }
};
