// SPDX-License-Identifier: Apache-2.0
// What steps change of the rows of `block_tables`: most sequences stay in their row for many steps,
// and their tables grow by a block now and then.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/engine/step.h"

namespace sinter::engine {

/// Elements of the rows [sequences, blocks of a sequence] to overwrite.
struct BlockTableChanges {
  struct Range {
    std::size_t first = 0, count = 0;
  };
  std::vector<Range> ranges;
  std::vector<BlockId> blocks;  // of all ranges, end to end

  void write_to(std::span<BlockId> rows) const;
};

/// Knows what the rows hold once the steps that were taken have begun. Row i of a step is the table
/// of its sequence number i. Behind a row's own blocks, and in rows behind the step's, is what
/// steps before have left: nothing of it is attended to.
class BlockTableRows {
 public:
  /// Zeros.
  BlockTableRows(int rows, int row_blocks);

  std::size_t size() const { return held_.size(); }

  /// What `plan` changes of what the steps taken before have left; steps come in the order in which
  /// they run.
  void take(const StepPlan& plan, BlockTableChanges& changes);

 private:
  std::size_t row_blocks_;
  std::vector<BlockId> held_;
};

}  // namespace sinter::engine
