// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/executors/block_table_rows.h"

#include <algorithm>

namespace sinter::engine {

void BlockTableChanges::write_to(std::span<BlockId> rows) const {
  auto from = blocks.begin();
  for (const Range& range : ranges) {
    const auto count = static_cast<std::ptrdiff_t>(range.count);
    std::copy_n(from, count, rows.begin() + static_cast<std::ptrdiff_t>(range.first));
    from += count;
  }
}

BlockTableRows::BlockTableRows(int rows, int row_blocks)
    : row_blocks_(static_cast<std::size_t>(row_blocks)),
      held_(static_cast<std::size_t>(rows) * row_blocks_) {}

void BlockTableRows::take(const StepPlan& plan, BlockTableChanges& changes) {
  changes.ranges.clear();
  changes.blocks.clear();
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
    const SequenceStep& sequence = plan.sequences[s];
    const auto table = std::span(plan.block_tables)
                           .subspan(static_cast<std::size_t>(sequence.first_block),
                                    static_cast<std::size_t>(sequence.blocks));
    const auto row = std::span(held_).subspan(s * row_blocks_, table.size());
    const auto differs = std::ranges::mismatch(table, row).in1;
    if (differs == table.end()) continue;
    const auto first = static_cast<std::size_t>(differs - table.begin());
    changes.ranges.push_back({s * row_blocks_ + first, table.size() - first});
    changes.blocks.insert(changes.blocks.end(), differs, table.end());
    std::ranges::copy(differs, table.end(), row.begin() + static_cast<std::ptrdiff_t>(first));
  }
}

}  // namespace sinter::engine
