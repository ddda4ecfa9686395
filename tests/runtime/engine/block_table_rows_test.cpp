// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/executors/block_table_rows.h"

#include <gmock/gmock.h>

namespace sinter::testing {
namespace {

using engine::BlockId;
using engine::BlockTableChanges;
using engine::BlockTableRows;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

engine::StepPlan step_of(const std::vector<std::vector<BlockId>>& tables) {
  engine::StepPlan plan;
  for (const auto& table : tables) {
    engine::SequenceStep& step = plan.sequences.emplace_back();
    step.first_block = static_cast<int>(plan.block_tables.size());
    step.blocks = static_cast<int>(table.size());
    plan.block_tables.insert(plan.block_tables.end(), table.begin(), table.end());
  }
  return plan;
}

class BlockTableRowsTest : public ::testing::Test {
 protected:
  void run(const std::vector<std::vector<BlockId>>& tables) {
    tables_.take(step_of(tables), changes_);
    changes_.write_to(rows_);
  }

  BlockTableRows tables_{3, 4};
  BlockTableChanges changes_;
  std::vector<BlockId> rows_ = std::vector<BlockId>(12, 0);
};

TEST_F(BlockTableRowsTest, WritesWhatSequencesAdd) {
  run({{7, 5}, {3}});
  EXPECT_THAT(rows_, ElementsAre(7, 5, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0));
  run({{7, 5}, {3}});
  EXPECT_THAT(changes_.ranges, IsEmpty());
  run({{7, 5, 2}, {3}});
  EXPECT_THAT(changes_.blocks, ElementsAre(2));
  EXPECT_THAT(rows_, ElementsAre(7, 5, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0));
}

// A block that was shared has a copy in its place; the blocks behind it are the same.
TEST_F(BlockTableRowsTest, WritesABlockInTheMiddle) {
  run({{7, 5, 2}});
  run({{7, 6, 2}});
  EXPECT_THAT(rows_, ElementsAre(7, 6, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(BlockTableRowsTest, RowsMoveUpWhereASequenceHasEnded) {
  run({{7, 5, 1}, {3, 4}, {8, 9}});
  run({{3, 4}, {8, 9}});
  EXPECT_THAT(rows_, ElementsAre(3, 4, 1, 0, 8, 9, 0, 0, 8, 9, 0, 0));
  // What a longer table left counts as written.
  run({{3, 4, 1}, {8, 9}, {8, 6}});
  EXPECT_THAT(rows_, ElementsAre(3, 4, 1, 0, 8, 9, 0, 0, 8, 6, 0, 0));
}

// The changes of a step are its own: another may be prepared before they are written.
TEST_F(BlockTableRowsTest, AStepIsTakenBeforeTheOneInFrontIsWritten) {
  BlockTableChanges first, second;
  tables_.take(step_of({{7, 5}}), first);
  tables_.take(step_of({{3, 5}}), second);
  first.write_to(rows_);
  EXPECT_THAT(std::span(rows_).first(2), ElementsAre(7, 5));
  second.write_to(rows_);
  EXPECT_THAT(std::span(rows_).first(2), ElementsAre(3, 5));
}

}  // namespace
}  // namespace sinter::testing
