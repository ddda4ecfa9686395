// SPDX-License-Identifier: Apache-2.0
// Differences of `block_tables` from step to step. Most sequences keep their row for many steps,
// and their tables rarely grow.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/engine/step.h"

namespace sinter::engine {

/// Elements to overwrite in the rows [sequences, blocks of a sequence].
struct BlockTableChanges {
  struct Range {
    std::size_t first = 0, count = 0;
  };
  std::vector<Range> ranges;
  std::vector<BlockId> blocks;  // of all ranges, concatenated

  void write_to(std::span<BlockId> rows) const;
};

/// Tracks the contents of the block table rows after the steps taken so far. Row i is the table of
/// sequence i of a step. Entries beyond a row's blocks, and rows beyond the step's sequences, are
/// stale; attention does not read them.
class BlockTableRows {
 public:
  /// Starts with zeros.
  BlockTableRows(int rows, int row_blocks);

  std::size_t size() const { return held_.size(); }

  /// The difference between the rows that `plan` needs and those of the steps before. Call in the
  /// order in which steps run.
  void take(const StepPlan& plan, BlockTableChanges& changes);

 private:
  std::size_t row_blocks_;
  std::vector<BlockId> held_;
};

}  // namespace sinter::engine
