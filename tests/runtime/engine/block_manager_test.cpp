// SPDX-License-Identifier: Apache-2.0
// Blocks: references, prefixes, what is forgotten first.
#include "runtime/engine/block_manager.h"

#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <sinter/error.h>

namespace sinter::testing {
namespace {

using engine::BlockCopy;
using engine::BlockManager;
using engine::BlockTable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<TokenId> counting(int count, TokenId first = 0) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// A sequence that has run `tokens`.
BlockTable computed(BlockManager& blocks, const std::vector<TokenId>& tokens) {
  BlockTable table;
  blocks.take_prefix(tokens, table);
  EXPECT_TRUE(blocks.extend(table, std::ssize(tokens)));
  blocks.commit(table, tokens, std::ssize(tokens));
  return table;
}

TEST(BlockManager, ATableGrowsByWholeBlocksOrNotAtAll) {
  BlockManager blocks(4, 16, true);
  BlockTable table;
  EXPECT_TRUE(blocks.extend(table, 17));
  EXPECT_EQ(table.blocks.size(), 2U);
  EXPECT_TRUE(blocks.extend(table, 32));
  EXPECT_EQ(table.blocks.size(), 2U);
  EXPECT_FALSE(blocks.extend(table, 65));
  EXPECT_EQ(table.blocks.size(), 2U);
  EXPECT_EQ(blocks.available(), 2);
  blocks.release(table);
  EXPECT_EQ(blocks.available(), 4);
  blocks.check({});
}

// Two tables share blocks; the first one's begin behind a block of somebody else that is forgotten
// before the second commits them.
TEST(BlockManager, ABlockThatTwoTablesCommitIsKnownOnce) {
  BlockManager blocks(4, 2, true);
  const auto tokens = counting(4);
  BlockTable other;
  EXPECT_TRUE(blocks.extend(other, 2));
  BlockTable first;
  EXPECT_TRUE(blocks.extend(first, 4));
  BlockTable second = blocks.fork(first);
  blocks.commit(other, tokens, 2);
  blocks.commit(first, tokens, 2);
  blocks.release(other);
  BlockTable all;
  EXPECT_TRUE(blocks.extend(all, 4));
  blocks.commit(second, tokens, 2);
  blocks.commit(first, tokens, 4);
  blocks.commit(second, tokens, 4);
  blocks.check(std::vector<const BlockTable*>{&first, &second, &all});
}

TEST(BlockManager, APrefixIsSharedByWholeBlocksAndLeavesAToken) {
  BlockManager blocks(8, 4, true);
  const auto tokens = counting(8);
  BlockTable first = computed(blocks, tokens);
  // Of 8 equal tokens the last is computed: one block of the two.
  EXPECT_EQ(blocks.find_prefix(tokens).blocks, 1);
  EXPECT_EQ(blocks.find_prefix(counting(9)).blocks, 2);
  EXPECT_EQ(blocks.find_prefix(counting(9, 1)).blocks, 0);
  BlockTable second;
  blocks.take_prefix(counting(11), second);
  EXPECT_EQ(second.blocks, first.blocks);
  EXPECT_EQ(blocks.available(), 6);
  blocks.release(first);
  EXPECT_EQ(blocks.available(), 6);  // the second one still reads them
  const BlockTable* tables[] = {&second};
  blocks.check(tables);
}

TEST(BlockManager, EqualTokensBehindOthersAreAnotherContent) {
  BlockManager blocks(8, 2, true);
  std::vector<TokenId> tokens = {1, 2, 7, 8}, others = {3, 4, 7, 8, 9};
  BlockTable first = computed(blocks, tokens), second = computed(blocks, others);
  EXPECT_EQ(blocks.find_prefix(others).blocks, 2);
  EXPECT_NE(first.blocks[1], second.blocks[1]);
  blocks.release(first);
  blocks.release(second);
  BlockTable third;
  blocks.take_prefix(std::vector<TokenId>{3, 4, 7, 8, 5}, third);
  EXPECT_EQ(third.blocks.size(), 2U);
  EXPECT_EQ(blocks.cached(), 2);
}

TEST(BlockManager, ContentComputedTwiceIsKeptOnce) {
  BlockManager blocks(8, 2, true);
  const auto tokens = counting(4);
  BlockTable first, second;
  ASSERT_TRUE(blocks.extend(first, 4) && blocks.extend(second, 4));
  blocks.commit(first, tokens, 4);
  blocks.commit(second, tokens, 4);
  EXPECT_EQ(first.contents, second.contents);
  blocks.release(second);
  EXPECT_EQ(blocks.cached(), 0);
  blocks.release(first);
  EXPECT_EQ(blocks.cached(), 2);
}

TEST(BlockManager, TheLongestFreeIsForgottenFirstAndEndsBeforeBeginnings) {
  BlockManager blocks(4, 2, true);
  BlockTable old = computed(blocks, counting(4)), young = computed(blocks, counting(4, 50));
  blocks.release(old);
  blocks.release(young);
  EXPECT_EQ(blocks.cached(), 4);
  BlockTable other;
  ASSERT_TRUE(blocks.extend(other, 2));
  EXPECT_EQ(blocks.find_prefix(counting(5)).blocks, 1);
  EXPECT_EQ(blocks.find_prefix(counting(5, 50)).blocks, 2);
  ASSERT_TRUE(blocks.extend(other, 4));
  EXPECT_EQ(blocks.find_prefix(counting(5)).blocks, 0);
  EXPECT_EQ(blocks.find_prefix(counting(5, 50)).blocks, 2);
}

TEST(BlockManager, ASharedBlockIsCopiedBeforeItIsWritten) {
  BlockManager blocks(4, 4, true);
  BlockTable first = computed(blocks, counting(6));
  BlockTable second = blocks.fork(first);
  EXPECT_EQ(second.blocks, first.blocks);
  EXPECT_EQ(blocks.available(), 2);
  EXPECT_EQ(blocks.releasable(second), 0);
  std::vector<BlockCopy> copies;
  const auto shared = first.blocks[1];
  ASSERT_TRUE(blocks.make_writable(second, 6, 7, copies));
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].from, shared);
  EXPECT_EQ(copies[0].to, second.blocks[1]);
  EXPECT_EQ(second.blocks[0], first.blocks[0]);
  // The other one has its block for itself now.
  ASSERT_TRUE(blocks.make_writable(first, 6, 7, copies));
  EXPECT_EQ(copies.size(), 1U);
  const BlockTable* tables[] = {&first, &second};
  blocks.check(tables);
}

TEST(BlockManager, WithoutAPrefixCacheNothingIsKept) {
  BlockManager blocks(4, 2, false);
  BlockTable table = computed(blocks, counting(4));
  blocks.release(table);
  EXPECT_EQ(blocks.cached(), 0);
  EXPECT_EQ(blocks.find_prefix(counting(5)).blocks, 0);
}

TEST(BlockManager, TheCheckFindsWhatIsLost) {
  const auto message = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  BlockManager blocks(4, 2, true);
  BlockTable table = computed(blocks, counting(4));
  EXPECT_THAT(message([&] { blocks.check({}); }), HasSubstr("counts 1 references, but 0 tables"));
  const BlockTable* twice[] = {&table, &table};
  EXPECT_THAT(message([&] { blocks.check(twice); }), HasSubstr("but 2 tables hold it"));
  EXPECT_THAT(message([] { BlockManager(0, 16, true); }), HasSubstr("not 0 of 16"));
}

}  // namespace
}  // namespace sinter::testing
