// SPDX-License-Identifier: Apache-2.0
// Blocks of the paged cache: who holds which, and what equal prefixes share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <sinter/engine.h>

namespace sinter::engine {

using BlockId = std::int32_t;
/// Names the tokens of a full block and of all before it; 0: of none. Never used again.
using ContentId = std::uint64_t;

/// The blocks of one sequence, in the order of positions.
struct BlockTable {
  std::vector<BlockId> blocks;
  int committed = 0;      // full blocks in front that commit() has seen
  ContentId content = 0;  // of these
};

/// The keys and values of a whole block.
struct BlockCopy {
  BlockId from = 0, to = 0;
};

/// Reference-counted blocks of a fixed number of positions. A block with no reference is free; with
/// a prefix cache, a full block that was committed keeps its content while it is free, until it is
/// the one that was freed longest ago and another is wanted. Equality is that of tokens, never of
/// hashes. The manager holds no keys and values: it says which block they are in.
class BlockManager {
 public:
  /// Throws Error(kUsage) unless both are above 0.
  BlockManager(int block_count, int block_size, bool caches_prefixes);

  int block_size() const { return block_size_; }
  int block_count() const { return static_cast<int>(blocks_.size()); }
  /// Blocks that can be taken now, cached ones among them.
  int available() const { return static_cast<int>(free_.size()) + cached_count_; }
  int cached() const { return cached_count_; }
  int blocks_for(std::int64_t positions) const {
    return static_cast<int>((positions + block_size_ - 1) / block_size_);
  }

  /// Starts a table with the longest cached prefix of `tokens` whose last token is left to compute.
  /// `table` is empty.
  void take_prefix(std::span<const TokenId> tokens, BlockTable& table);
  /// The blocks of that prefix, and those of them that are free now; nothing is taken.
  struct Prefix {
    int blocks = 0, free_blocks = 0;
  };
  Prefix find_prefix(std::span<const TokenId> tokens) const;

  /// Adds blocks until `table` holds `positions`; false, changing nothing, if there are too few.
  bool extend(BlockTable& table, std::int64_t positions);

  /// Makes the blocks of positions [first, end) the table's own: shared ones are replaced, with
  /// what to copy added to `copies`. False if there are too few blocks; then some may be replaced.
  bool make_writable(BlockTable& table, std::int64_t first, std::int64_t end,
                     std::vector<BlockCopy>& copies);

  /// A table that shares all blocks.
  BlockTable fork(const BlockTable& table);

  /// Tells the prefix cache of the full blocks among the first `computed` positions, which hold
  /// `tokens`, and whose keys and values are written.
  void commit(BlockTable& table, std::span<const TokenId> tokens, std::int64_t computed);

  /// Gives all blocks back; `table` is empty then.
  void release(BlockTable& table);
  /// How many blocks release would free.
  int releasable(const BlockTable& table) const;

  /// Throws Error(kInternal) naming the first block whose references are not those of `tables`,
  /// which are all there are, or that is lost.
  void check(std::span<const BlockTable* const> tables) const;

 private:
  struct Block {
    std::int32_t references = 0;
    // Of a cached block: its content and that of the block in front.
    ContentId content = 0, parent = 0;
    std::uint64_t hash = 0;
    // Neighbours among the free cached blocks; -1: none.
    BlockId before = -1, behind = -1;
  };

  Block& at(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  const Block& at(BlockId id) const { return blocks_[static_cast<std::size_t>(id)]; }
  std::span<const TokenId> tokens_of(std::span<const TokenId> tokens, int index) const;
  std::uint64_t hash_of(ContentId parent, std::span<const TokenId> tokens) const;
  BlockId find(ContentId parent, std::span<const TokenId> tokens, std::uint64_t hash) const;
  BlockId take();  // -1: none
  void unlink(BlockId id);
  void forget(BlockId id);
  void release(BlockId id);

  int block_size_;
  bool caches_prefixes_;
  std::vector<Block> blocks_;
  std::vector<BlockId> free_;          // without content
  BlockId oldest_ = -1, newest_ = -1;  // of the free cached ones
  int cached_count_ = 0;               // free cached ones
  ContentId last_content_ = 0;
  std::vector<TokenId> tokens_;                            // of cached blocks
  std::unordered_multimap<std::uint64_t, BlockId> index_;  // cached blocks by hash
};

}  // namespace sinter::engine
