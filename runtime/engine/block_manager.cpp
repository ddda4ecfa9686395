// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/block_manager.h"

#include <algorithm>

#include "runtime/format_error.h"
#include "runtime/plan/hash.h"
#include "runtime/sampling/random.h"

namespace sinter::engine {

BlockManager::BlockManager(int block_count, int block_size, bool caches_prefixes)
    : block_size_(block_size), caches_prefixes_(caches_prefixes) {
  if (block_count < 1 || block_size < 1)
    throw usage_error("a cache needs 1 or more blocks of 1 or more positions, not {} of {}",
                      block_count, block_size);
  blocks_.resize(static_cast<std::size_t>(block_count));
  for (BlockId id = block_count - 1; id >= 0; --id) free_.push_back(id);
  if (caches_prefixes)
    tokens_.resize(static_cast<std::size_t>(block_count) * static_cast<std::size_t>(block_size));
}

std::span<const TokenId> BlockManager::tokens_of(std::span<const TokenId> tokens, int index) const {
  const auto size = static_cast<std::size_t>(block_size_);
  return tokens.subspan(static_cast<std::size_t>(index) * size, size);
}

std::uint64_t BlockManager::hash_of(ContentId parent, std::span<const TokenId> tokens) const {
  return plan::hash64(std::as_bytes(tokens)) ^ sampling::mix(parent);
}

BlockId BlockManager::find(ContentId parent, std::span<const TokenId> tokens,
                           std::uint64_t hash) const {
  const auto [first, last] = index_.equal_range(hash);
  for (auto found = first; found != last; ++found)
    if (at(found->second).parent == parent &&
        std::ranges::equal(tokens_of(tokens_, found->second), tokens))
      return found->second;
  return -1;
}

BlockManager::Prefix BlockManager::find_prefix(std::span<const TokenId> tokens) const {
  Prefix prefix;
  if (!caches_prefixes_ || tokens.empty()) return prefix;
  const int most = static_cast<int>((tokens.size() - 1) / static_cast<std::size_t>(block_size_));
  ContentId content = 0;
  int free_blocks = 0;
  for (; prefix.known < most; ++prefix.known) {
    const auto part = tokens_of(tokens, prefix.known);
    const BlockId id = find(content, part, hash_of(content, part));
    if (id < 0) break;
    content = at(id).content;
    if (at(id).references == 0) ++free_blocks;
    if (ends_ && !ends_(content)) continue;
    prefix.blocks = prefix.known + 1;
    prefix.free_blocks = free_blocks;
  }
  return prefix;
}

void BlockManager::take_prefix(std::span<const TokenId> tokens, BlockTable& table) {
  const int count = find_prefix(tokens).blocks;
  while (table.committed() < count) {
    const auto part = tokens_of(tokens, table.committed());
    const BlockId id = find(table.content(), part, hash_of(table.content(), part));
    Block& block = at(id);
    if (block.references++ == 0) unlink(id);
    table.contents.push_back(block.content);
    table.blocks.push_back(id);
  }
}

bool BlockManager::extend(BlockTable& table, std::int64_t positions) {
  const int wanted = blocks_for(positions) - static_cast<int>(table.blocks.size());
  if (wanted > available()) return false;
  for (int i = 0; i < wanted; ++i) table.blocks.push_back(take());
  return true;
}

bool BlockManager::make_writable(BlockTable& table, std::int64_t first, std::int64_t end,
                                 std::vector<BlockCopy>& copies) {
  for (std::int64_t i = first / block_size_; i < blocks_for(end); ++i) {
    BlockId& id = table.blocks[static_cast<std::size_t>(i)];
    if (at(id).references == 1) continue;
    const BlockId own = take();
    if (own < 0) return false;
    copies.push_back({id, own});
    release(id);
    id = own;
  }
  return true;
}

BlockTable BlockManager::fork(const BlockTable& table) {
  for (const BlockId id : table.blocks) ++at(id).references;
  return table;
}

void BlockManager::commit(BlockTable& table, std::span<const TokenId> tokens,
                          std::int64_t computed) {
  if (!caches_prefixes_) return;
  while (std::int64_t{table.committed() + 1} * block_size_ <= computed) {
    const BlockId id = table.blocks[table.contents.size()];
    Block& block = at(id);
    if (block.content != 0) {  // committed by a table that shares it
      table.contents.push_back(block.content);
      continue;
    }
    const auto part = tokens_of(tokens, table.committed());
    const std::uint64_t hash = hash_of(table.content(), part);
    const BlockId known = find(table.content(), part, hash);
    if (known >= 0) {  // another block has that content: this one stays out of the cache
      table.contents.push_back(at(known).content);
      continue;
    }
    block.content = ++last_content_, block.parent = table.content(), block.hash = hash;
    std::ranges::copy(part, tokens_.begin() + std::ptrdiff_t{id} * block_size_);
    index_.emplace(hash, id);
    table.contents.push_back(block.content);
  }
}

BlockId BlockManager::take() {
  BlockId id = oldest_;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (id >= 0) {
    unlink(id);
    forget(id);
  } else {
    return -1;
  }
  at(id).references = 1;
  return id;
}

void BlockManager::unlink(BlockId id) {
  Block& block = at(id);
  (block.before < 0 ? oldest_ : at(block.before).behind) = block.behind;
  (block.behind < 0 ? newest_ : at(block.behind).before) = block.before;
  block.before = block.behind = -1;
  --cached_count_;
}

void BlockManager::forget(BlockId id) {
  Block& block = at(id);
  const auto [first, last] = index_.equal_range(block.hash);
  index_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == id; }));
  if (forget_) forget_(block.content);
  block.content = block.parent = 0;
}

void BlockManager::release(BlockId id) {
  Block& block = at(id);
  if (--block.references > 0) return;
  if (block.content == 0) {
    free_.push_back(id);
    return;
  }
  block.before = newest_;
  (newest_ < 0 ? oldest_ : at(newest_).behind) = id;
  newest_ = id;
  ++cached_count_;
}

void BlockManager::release(BlockTable& table) {
  // Last block first, so that a prefix is evicted after its continuations.
  while (!table.blocks.empty()) {
    release(table.blocks.back());
    table.blocks.pop_back();
  }
  table = {};
}

int BlockManager::releasable(const BlockTable& table) const {
  return static_cast<int>(
      std::ranges::count_if(table.blocks, [&](BlockId id) { return at(id).references == 1; }));
}

void BlockManager::check(std::span<const BlockTable* const> tables) const {
  std::vector<std::int32_t> references(blocks_.size());
  for (const BlockTable* table : tables)
    for (const BlockId id : table->blocks) ++references[static_cast<std::size_t>(id)];
  std::vector<int> free(blocks_.size());
  for (const BlockId id : free_) ++free[static_cast<std::size_t>(id)];
  int listed = 0;
  for (BlockId id = oldest_; id >= 0; id = at(id).behind) {
    ++free[static_cast<std::size_t>(id)];
    if (++listed > cached_count_) break;
  }
  std::size_t indexed = 0;
  for (BlockId id = 0; id < block_count(); ++id) {
    const Block& block = at(id);
    const std::int32_t held = references[static_cast<std::size_t>(id)];
    if (block.references != held)
      throw internal_error("block {} counts {} references, but {} tables hold it", id,
                           block.references, held);
    if (free[static_cast<std::size_t>(id)] != (held == 0 ? 1 : 0))
      throw internal_error("block {} with {} references is {} times free", id, held,
                           free[static_cast<std::size_t>(id)]);
    if (block.content != 0 && find(block.parent, tokens_of(tokens_, id), block.hash) != id)
      throw internal_error("cached block {} is not found by its content", id);
    indexed += block.content != 0;
  }
  if (listed != cached_count_ || indexed != index_.size())
    throw internal_error("{} of {} free cached blocks are listed, {} of {} cached ones known",
                         listed, cached_count_, indexed, index_.size());
}

}  // namespace sinter::engine
