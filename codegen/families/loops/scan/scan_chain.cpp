// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/scan/scan_chain.h"

#include <algorithm>

#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

using plan::fb::InstrKind;
using plan::fb::LoopProgramT;

/// Rows from which on each keeps a block, or, where neighbouring rows are contiguous, a thread.
constexpr std::int64_t kManyRows = 256, kManyStridedRows = 2048;
constexpr std::int64_t kLeastTiles = 8;

/// Whether most accesses move along a row's elements one by one, not from row to row.
bool is_contiguous(const LoopProgramT& program, const ExprTable& exprs) {
  const std::size_t rank = program.extents.size(), first = rank - program.inner_dims;
  int along = 0;
  for (const auto& access : program.accesses) {
    const auto is_one = [&](std::size_t d) { return exprs.dim(access->strides[d]) == Dim(1); };
    along += is_one(rank - 1) ? 1 : first > 0 && is_one(first - 1) ? -1 : 0;
  }
  return along >= 0;
}

}  // namespace

Dim scan_records(const Dim& tiles, const ExprTable& exprs) {
  return tiles + ir::ceil_div(tiles, kScanGroup, exprs.ranges());
}

std::optional<Dim> scan_chain_words(const LoopProgramT& program, const ExprTable& exprs) {
  const auto scans = std::ranges::count_if(
      program.instrs, [](const auto& instr) { return instr->kind == InstrKind::Scan; });
  // What needs the whole row, or its elements in order, keeps a row together.
  const bool needs_row = std::ranges::any_of(program.instrs, [](const auto& instr) {
    return instr->kind == InstrKind::Reduce ||
           (instr->kind == InstrKind::Scatter && instr->op != plan::kScatterReplaces);
  });
  if (scans == 0 || needs_row || program.inner_dims == 0) return std::nullopt;
  Dim rows = 1, length = 1;
  for (std::size_t d = 0; d < program.extents.size(); ++d)
    (d + program.inner_dims < program.extents.size() ? rows : length) *=
        exprs.dim(program.extents[d]);
  const auto longest = ir::upper_bound(length, exprs.ranges());
  const auto fewest = ir::lower_bound(rows, exprs.ranges());
  const std::int64_t many = is_contiguous(program, exprs) ? kManyRows : kManyStridedRows;
  if ((longest && *longest < kLeastTiles * kLeastScanTile) || (fewest && *fewest >= many))
    return std::nullopt;
  const Dim tiles = ir::ceil_div(length, kLeastScanTile, exprs.ranges());
  return Dim(2 * scans) * rows * scan_records(tiles, exprs);
}

}  // namespace sinter::codegen
