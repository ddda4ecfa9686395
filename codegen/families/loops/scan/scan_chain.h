// SPDX-License-Identifier: Apache-2.0
// Few long rows: a block scans a tile of a row, and tiles meet through memory (scan_tiles.cuh).
#pragma once

#include <optional>

#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Elements of the smallest tile of any schedule, and tiles that meet in one group.
constexpr std::int64_t kLeastScanTile = 2048, kScanGroup = 32;

/// Records of a row of `tiles` tiles.
Dim scan_records(const Dim& tiles, const ExprTable& exprs);
/// 64-bit words of the memory that the scans of `program` need, which is cleared before; nothing if
/// a block or less walks each row.
std::optional<Dim> scan_chain_words(const plan::fb::LoopProgramT& program, const ExprTable& exprs);

}  // namespace sinter::codegen
