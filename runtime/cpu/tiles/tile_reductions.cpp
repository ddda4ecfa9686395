// SPDX-License-Identifier: Apache-2.0
// Cheaper ways to compute some reductions of a tile program.
#include <algorithm>

#include "runtime/cpu/tiles/tile_compiler.h"

namespace sinter::runtime::cpu {

namespace {

using plan::fb::InstrKind;

}  // namespace

/// Replaces min(select(flag, index, other)), where `other` is at least the extent, by a search in
/// the flags. This avoids a row of indices.
void TileCompiler::find_firsts() {
  std::vector<std::size_t> elements;
  for (std::size_t a = 0; a < loops_.extents.size(); ++a)
    if (is_element_axis(a)) elements.push_back(a);
  if (elements.size() != 1) return;
  std::vector<int> readers(count_, 0);
  for (const Stage& stage : out_.stages_)
    for (const auto* part : {&stage.row, &stage.body})
      for (const TileInstr& instr : *part)
        for (const std::uint32_t arg : operands_of(instr)) ++readers[arg];
  for (Stage& stage : out_.stages_) {
    std::vector<bool> is_replaced(count_, false);
    const auto find = [&](std::uint32_t value, TileInstr::Kind kind) -> const TileInstr* {
      for (const TileInstr& instr : stage.body)
        if (instr.value == value && instr.kind == kind) return &instr;
      return nullptr;
    };
    const auto is_only_read_here = [&](const TileInstr& instr) {
      return !instr.kept && readers[instr.value] == 1;
    };
    for (TileInstr& reduce : stage.body) {
      if (reduce.kind != TileInstr::Kind::kReduce ||
          out_.reductions_[reduce.reduction].kernels.flagged_rows == nullptr)
        continue;
      const TileInstr* select = find(reduce.args[0], TileInstr::Kind::kOp);
      if (select == nullptr || select->table != nullptr || !is_only_read_here(*select) ||
          static_cast<ScalarOp>(program_.instrs[select->value]->op) != ScalarOp::kSelect ||
          class_[select->args[0]] != ValueClass::kElement)
        continue;
      // A 32-bit index is a cast of one.
      const TileInstr* cast = find(select->args[1], TileInstr::Kind::kOp);
      if (cast != nullptr &&
          static_cast<ScalarOp>(program_.instrs[cast->value]->op) != ScalarOp::kCast)
        continue;
      const TileInstr* index =
          find(cast == nullptr ? select->args[1] : cast->args[0], TileInstr::Kind::kIndex);
      const plan::fb::InstrT& other = *program_.instrs[select->args[2]];
      const std::int64_t number = other.kind == InstrKind::Constant ? other.constant_int
                                  : other.kind == InstrKind::Size   ? expressions_[other.expression]
                                                                    : -1;
      if (index == nullptr || index->axis != static_cast<int>(elements[0]) ||
          number < loops_.extents[elements[0]])
        continue;
      is_replaced[select->value] = true;
      const bool drops_cast = cast != nullptr && is_only_read_here(*cast);
      if (drops_cast) is_replaced[cast->value] = true;
      if ((cast == nullptr || drops_cast) && is_only_read_here(*index))
        is_replaced[index->value] = true;
      reduce.kind = TileInstr::Kind::kFirst;
      reduce.args[0] = select->args[0];
      reduce.args[1] = select->args[2];
      reduce.arg_count = 2;
    }
    std::erase_if(stage.body, [&](const TileInstr& instr) { return is_replaced[instr.value]; });
  }
}

/// Whether the reduction is over loaded, overlapping windows.
bool TileCompiler::may_slide(const TileInstr& reduce) const {
  const Combine combine = out_.reductions_[reduce.reduction].combine;
  const plan::fb::InstrT& load = *program_.instrs[reduce.args[0]];
  return combine != Combine::kProd && load.kind == InstrKind::Load &&
         class_[reduce.args[0]] == ValueClass::kElement &&
         out_.accesses_[load.access].slides(combine);
}

/// Chooses tiles of whole windows and rows, for sliding reductions.
void TileCompiler::slide() {
  TileSchedule& s = out_.schedule_;
  constexpr std::int64_t kTilesOfThread = 4;
  const std::int64_t share =
      ceil_div(s.x_count * s.z_count, kTilesOfThread * static_cast<std::int64_t>(threads_));
  for (Stage& stage : out_.stages_)
    for (TileInstr& reduce : stage.body) {
      const Combine combine = out_.reductions_[reduce.reduction].combine;
      reduce.slides = out_.reductions_[reduce.reduction].slides = true;
      reduce.kernel = find_op_kernel(combine == Combine::kSum   ? ScalarOp::kAdd
                                     : combine == Combine::kMax ? ScalarOp::kMax
                                                                : ScalarOp::kMin,
                                     reduce.type, reduce.type);
      s.tile_cols =
          std::min(s.x_count, out_.accesses_[reduce.access].sliding_columns(std::min(
                                  kTileElements, std::max<std::int64_t>(share, kAcrossColumns))));
    }
  s.tile_rows = s.y_count;
}

/// Sums of widened 8-bit integers read these where they lie.
void TileCompiler::join_byte_sums(Stage& stage, const std::vector<int>& readers) {
  std::vector<bool> is_joined(count_, false);
  for (TileInstr& reduce : stage.body) {
    if (reduce.kind != TileInstr::Kind::kReduce || reduce.access != TileInstr::kNone ||
        reduce.type != DType::kInt32 || out_.reductions_[reduce.reduction].combine != Combine::kSum)
      continue;
    const auto cast = std::ranges::find_if(stage.body, [&](const TileInstr& instr) {
      return instr.value == reduce.args[0] && instr.kind == TileInstr::Kind::kOp;
    });
    if (cast == stage.body.end() || cast->kept || cast->steady || cast->table != nullptr ||
        readers[cast->value] != 1 || cast->value_class != ValueClass::kElement ||
        static_cast<ScalarOp>(program_.instrs[cast->value]->op) != ScalarOp::kCast)
      continue;
    const DType type = out_.types_[cast->args[0]];
    if (type != DType::kInt8 && type != DType::kUInt8) continue;
    out_.reductions_[reduce.reduction].kernels.along_columns = find_byte_sums(type);
    reduce.args[0] = cast->args[0];
    is_joined[cast->value] = true;
  }
  std::erase_if(stage.body, [&](const TileInstr& instr) {
    return instr.kind == TileInstr::Kind::kOp && is_joined[instr.value];
  });
}

/// Reduces windows in place: a load that only a reduction reads is not copied first.
void TileCompiler::join_reductions() {
  TileSchedule& s = out_.schedule_;
  if (!s.across) return;
  std::vector<int> readers(count_, 0);
  for (const Stage& stage : out_.stages_)
    for (const auto* part : {&stage.row, &stage.body})
      for (const TileInstr& instr : *part)
        for (const std::uint32_t arg : operands_of(instr)) ++readers[arg];
  std::vector<bool> is_joined(count_, false);
  bool all = true;
  const bool slides =
      !out_.reductions_.empty() && std::ranges::all_of(out_.stages_, [&](const Stage& stage) {
        return std::ranges::all_of(stage.body, [&](const TileInstr& instr) {
          return instr.kind == TileInstr::Kind::kLoad
                     ? readers[instr.value] == 1
                     : instr.kind == TileInstr::Kind::kReduce && may_slide(instr);
        });
      });
  for (Stage& stage : out_.stages_) {
    for (TileInstr& reduce : stage.body) {
      if (reduce.kind != TileInstr::Kind::kReduce ||
          out_.reductions_[reduce.reduction].kernels.rows_anywhere == nullptr)
        continue;
      const auto load = std::ranges::find_if(stage.body, [&](const TileInstr& instr) {
        return instr.value == reduce.args[0] && instr.kind == TileInstr::Kind::kLoad;
      });
      if (load == stage.body.end() || load->kept || readers[load->value] != 1 ||
          load->value_class != ValueClass::kElement)
        continue;
      const TileAccess& access = out_.accesses_[load->access];
      if (!slides && !access.can_reduce(out_.reductions_[reduce.reduction].combine)) continue;
      reduce.access = load->access;
      is_joined[load->value] = true;
    }
    std::erase_if(stage.body, [&](const TileInstr& instr) {
      return instr.kind == TileInstr::Kind::kLoad && is_joined[instr.value];
    });
    join_byte_sums(stage, readers);
    all = all && std::ranges::all_of(stage.body, [&](const TileInstr& instr) {
            if (instr.kind == TileInstr::Kind::kLoad)
              return !instr.kept && instr.value_class == ValueClass::kElement &&
                     out_.accesses_[instr.access].is_used_in_place();
            return instr.kind == TileInstr::Kind::kReduce;
          });
  }
  if (slides) return slide();
  // Only accumulators need room, so tiles can be wide.
  constexpr std::int64_t kTilesOfThread = 4;
  const std::int64_t wide = std::min(s.x_count, kTileElements);
  if (!out_.reductions_.empty() && all &&
      ceil_div(s.x_count, wide) * s.z_count >= kTilesOfThread * threads_)
    s.tile_cols = std::max(s.tile_cols, wide);
}

}  // namespace sinter::runtime::cpu
