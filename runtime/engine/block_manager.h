// SPDX-License-Identifier: Apache-2.0
// Blocks of the paged cache: ownership, and sharing of equal prefixes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <sinter/engine.h>

namespace sinter::engine {

using BlockId = std::int32_t;
/// Identifies the tokens of a full block and of all blocks before it; 0: the empty prefix. Ids are
/// never reused.
using ContentId = std::uint64_t;

/// The blocks of one sequence, in order of position.
struct BlockTable {
  std::vector<BlockId> blocks;
  std::vector<ContentId> contents;  // of the leading full blocks that commit() has processed: of
                                    // all up to each

  int committed() const { return static_cast<int>(contents.size()); }
  ContentId content() const { return contents.empty() ? 0 : contents.back(); }
};

/// Copies the keys and values of a whole block.
struct BlockCopy {
  BlockId from = 0, to = 0;
};

/// Reference-counted blocks with a fixed number of positions. A block without references is free.
/// With a prefix cache, a committed full block keeps its content while it is free, and the least
/// recently freed is evicted first. Compares tokens, never only hashes. The manager stores no keys
/// or values: it only says which block they are in.
class BlockManager {
 public:
  /// Throws Error(kUsage) unless both are above 0.
  BlockManager(int block_count, int block_size, bool caches_prefixes);

  int block_size() const { return block_size_; }
  int block_count() const { return static_cast<int>(blocks_.size()); }
  /// Blocks that can be taken now, free cached ones included.
  int available() const { return static_cast<int>(free_.size()) + cached_count_; }
  int cached() const { return cached_count_; }
  int blocks_for(std::int64_t positions) const {
    return static_cast<int>((positions + block_size_ - 1) / block_size_);
  }

  /// For models with states beside the caches: prefixes end only where `ends` holds, and `forget`
  /// hears of contents that leave the cache.
  void set_states(std::function<bool(ContentId)> ends, std::function<void(ContentId)> forget) {
    ends_ = std::move(ends);
    forget_ = std::move(forget);
  }

  /// Fills the empty `table` with the longest cached prefix of `tokens`, leaving at least the last
  /// token to compute.
  void take_prefix(std::span<const TokenId> tokens, BlockTable& table);
  /// The number of blocks in that prefix, and how many of them are free now; takes nothing.
  struct Prefix {
    int blocks = 0, free_blocks = 0;
    int known = 0;  // blocks that are cached, if prefixes could end anywhere
  };
  Prefix find_prefix(std::span<const TokenId> tokens) const;

  /// Adds blocks until `table` covers `positions`. False, without a change, if too few are
  /// available.
  bool extend(BlockTable& table, std::int64_t positions);

  /// Copy on write: replaces shared blocks of positions [first, end) by the table's own and adds
  /// the copies to `copies`. False if too few blocks are available; some may be replaced then.
  bool make_writable(BlockTable& table, std::int64_t first, std::int64_t end,
                     std::vector<BlockCopy>& copies);

  /// A table that shares all blocks of `table`.
  BlockTable fork(const BlockTable& table);

  /// Adds full blocks to the prefix cache. `tokens` are the table's tokens, and the keys and values
  /// of the first `computed` positions are written.
  void commit(BlockTable& table, std::span<const TokenId> tokens, std::int64_t computed);

  /// Releases all blocks and empties `table`.
  void release(BlockTable& table);
  /// Number of blocks that release() would free.
  int releasable(const BlockTable& table) const;

  /// Throws Error(kInternal) naming the first lost block, or the first whose reference count
  /// differs from that in `tables`. `tables` must be all tables.
  void check(std::span<const BlockTable* const> tables) const;

 private:
  struct Block {
    std::int32_t references = 0;
    // Of a cached block: its content and that of its parent, the block before it.
    ContentId content = 0, parent = 0;
    std::uint64_t hash = 0;
    // Links of the LRU list of free cached blocks; -1: none.
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
  std::function<bool(ContentId)> ends_;
  std::function<void(ContentId)> forget_;
  bool caches_prefixes_;
  std::vector<Block> blocks_;
  std::vector<BlockId> free_;          // free blocks without content
  BlockId oldest_ = -1, newest_ = -1;  // ends of the LRU list of free cached blocks
  int cached_count_ = 0;               // free cached ones
  ContentId last_content_ = 0;
  std::vector<TokenId> tokens_;                            // of cached blocks
  std::unordered_multimap<std::uint64_t, BlockId> index_;  // cached blocks by hash
};

}  // namespace sinter::engine
