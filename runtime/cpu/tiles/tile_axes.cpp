// SPDX-License-Identifier: Apache-2.0
// Compiling a tile program: which loops are a tile's rows and columns.
#include <algorithm>

#include "runtime/cpu/tiles/tile_compiler.h"
#include "runtime/plan/loop_values.h"

namespace sinter::runtime::cpu {

using plan::fb::InstrKind;

void TileCompiler::choose_axes() {
  const std::size_t rank = loops_.extents.size();
  std::optional<std::size_t> repeated;
  TileAxes& axes = out_.axes_;
  TileSchedule& schedule = out_.schedule_;
  schedule.ordered = loops_.ordered || loops_.scans;
  if (!loops_.has_rows()) {
    // Columns are the last axis, and those before it while there are few columns.
    constexpr std::int64_t kFewColumns = 64, kWholeVector = 16;
    const auto above = [&](std::size_t a) { return a > 0 ? loops_.extents[a - 1] : 1; };
    std::size_t first = rank;
    for (std::int64_t columns = 1; first > 0 && columns < kFewColumns;) {
      if (columns >= kWholeVector && breaks_runs(first - 1)) break;
      if (columns >= kWholeVector && repeats_columns(first - 1)) break;
      columns *= loops_.extents[--first];
      if (gathers_rows() || (shares_offsets() && columns * above(first) > kTileElements)) break;
    }
    repeated = repeated_axis(first);
    for (std::size_t a = 0; a < rank; ++a)
      if (a != repeated) (a >= first ? axes.x : axes.y).push_back(a);
  } else {
    const std::size_t rows = loops_.row_axes;
    // "Across" pays off if memory is contiguous along rows' starts and not along their elements, or
    // if rows have few elements, as pooling windows do.
    constexpr std::int64_t kFewElements = 8;
    constexpr std::int64_t kWindowStep = 4;
    int along = 0, across = 0;
    bool has_windows = false;
    for (const auto& instr : program_.instrs) {
      if (!plan::is_memory(instr->kind)) continue;
      const auto& steps = loops_.accesses[instr->access].address.coefficients;
      // Windows advance by no more than a window, and past its elements: channels between these do
      // not.
      for (std::size_t a = 0; a < rows && rank > rows; ++a)
        has_windows |= steps[a] > 0 && steps[a] <= kWindowStep * steps[rank - 1] &&
                       steps[a] <= loops_.extents[rank - 1] * steps[rank - 1] &&
                       steps[a] * loops_.extents[a] > steps[rank - 1];
      if (rank > rows && steps[rank - 1] == 1)
        ++along;
      else if (rank > rows && rows > 0 && steps[rows - 1] == 1 &&
               (steps[rank - 1] != 0 || !loops_.accesses[instr->access].gathers.empty()))
        ++across;
    }
    const bool short_rows = rank > rows && loops_.extents[rank - 1] < kFewElements;
    // Short rows share a tile even if they are not adjacent.
    constexpr std::int64_t kManyElements = 64, kLine = 32;
    std::int64_t length = 1;
    for (std::size_t a = rows; a < rank; ++a) length *= loops_.extents[a];
    const std::int64_t wanted = has_windows              ? kTileElements / 2
                                : length < kManyElements ? kAcrossColumns
                                                         : kLine;
    if (length <= kAcrossRows) repeated = repeated_axis(rows);
    std::size_t first = rows;
    std::int64_t columns = 1;
    while (first > 0 && columns < wanted)
      if (--first != repeated) columns *= loops_.extents[first];
    schedule.across = !loops_.ordered &&
                      (across > along || short_rows || has_windows || repeated) && columns >= 8;
    if (!schedule.across) repeated.reset();
    for (std::size_t a = 0; a < rank; ++a) {
      if (a == repeated) continue;
      if (schedule.across)
        (a >= rows ? axes.y : a >= first ? axes.x : axes.z).push_back(a);
      else
        (a >= rows ? axes.x : axes.y).push_back(a);
    }
  }
  if (repeated) {
    axes.z.push_back(*repeated);
    schedule.repeats = loops_.extents[*repeated];
  }
  steady_.assign(count_, false);
  for (std::size_t i = 0; repeated && i < count_; ++i)
    steady_[i] = (depends_[i] >> *repeated & 1) == 0;
  const auto place = [&](const std::vector<std::size_t>& which, char role, std::int64_t& count) {
    for (std::size_t d = 0; d < which.size(); ++d) {
      out_.axis_role_[which[d]] = role;
      out_.axis_position_[which[d]] = static_cast<int>(d);
      count *= loops_.extents[which[d]];
    }
  };
  out_.axis_role_.assign(rank, 'z');
  out_.axis_position_.assign(rank, 0);
  place(axes.z, 'z', schedule.z_count);
  place(axes.y, 'y', schedule.y_count);
  place(axes.x, 'x', schedule.x_count);
  for (const std::size_t a : axes.z) schedule.z_extents.push_back(loops_.extents[a]);
  out_.extents_ = loops_.extents;
  for (const BoundAccess& access : loops_.accesses)
    out_.accesses_.emplace_back(loops_, access, axes);
}

std::vector<bool> TileCompiler::varying_along(std::size_t axis) const {
  std::vector<bool> varies(count_, false);
  for (std::size_t i = 0; i < count_; ++i) {
    const plan::fb::InstrT& instr = *program_.instrs[i];
    for (const std::uint32_t arg : operands_of(i)) varies[i] = varies[i] || varies[arg];
    if (instr.kind == InstrKind::Index)
      varies[i] = loops_.axis_of[instr.dim] == static_cast<int>(axis);
    if (!plan::is_memory(instr.kind)) continue;
    const BoundAccess& access = loops_.accesses[instr.access];
    varies[i] = varies[i] || !access.is_plain() || access.address.coefficients[axis] != 0;
  }
  return varies;
}

bool TileCompiler::gathers_rows() const {
  constexpr std::int64_t kLeastElements = 4;
  const std::size_t rank = loops_.extents.size();
  if (rank < 2 || loops_.extents[rank - 1] < kLeastElements) return false;
  const std::vector<bool> along = varying_along(rank - 1);
  return std::ranges::any_of(program_.instrs, [&](const auto& instr) {
    if (instr->kind != InstrKind::Load) return false;
    const BoundAccess& access = loops_.accesses[instr->access];
    return access.is_plain() && !access.gathers.empty() &&
           access.address.coefficients[rank - 1] == 1 &&
           std::ranges::none_of(access.gathers,
                                [&](const BoundGather& gather) { return along[gather.value]; });
  });
}

bool TileCompiler::shares_offsets() const {
  constexpr std::int64_t kManyElements = 16;
  const std::size_t rank = loops_.extents.size();
  if (rank < 2 || loops_.extents[rank - 1] < kManyElements) return false;
  const std::vector<bool> along = varying_along(rank - 1), above = varying_along(rank - 2);
  return std::ranges::any_of(program_.instrs, [&](const auto& instr) {
    if (instr->kind != InstrKind::Load) return false;
    const BoundAccess& access = loops_.accesses[instr->access];
    const auto is_along = [&](const BoundGather& gather) -> bool { return along[gather.value]; };
    return access.is_plain() && std::ranges::any_of(access.gathers, is_along) &&
           std::ranges::any_of(access.gathers, [&](const BoundGather& gather) {
             return along[gather.value] != above[gather.value];
           });
  });
}

bool TileCompiler::breaks_runs(std::size_t axis) const {
  const std::size_t last = loops_.extents.size() - 1;
  std::int64_t columns = 1;
  for (std::size_t a = axis + 1; a <= last; ++a) columns *= loops_.extents[a];
  return std::ranges::any_of(program_.instrs, [&](const auto& instr) {
    if (!plan::is_memory(instr->kind)) return false;
    const std::vector<std::int64_t>& steps = loops_.accesses[instr->access].address.coefficients;
    return steps[last] == 1 && steps[axis] != 0 && steps[axis] != columns;
  });
}

bool TileCompiler::repeats_columns(std::size_t axis) const {
  // Each operator then starts anew for each row. Copies cost less than more of them.
  constexpr int kFewOperators = 3;
  int operators = 0;
  for (std::size_t i = 0; i < count_; ++i)
    if (program_.instrs[i]->kind == InstrKind::Op && depends_[i] >> (axis + 1) != 0) ++operators;
  if (operators > kFewOperators) return false;
  return std::ranges::any_of(program_.instrs, [&](const auto& instr) {
    if (instr->kind != InstrKind::Load) return false;
    const BoundAccess& access = loops_.accesses[instr->access];
    const std::vector<std::int64_t>& steps = access.address.coefficients;
    return access.is_plain() && access.gathers.empty() && steps[axis] != 0 &&
           std::all_of(steps.begin() + static_cast<std::ptrdiff_t>(axis) + 1, steps.end(),
                       [](std::int64_t step) { return step == 0; });
  });
}

/// Computes the axes that each value depends on.
void TileCompiler::find_axes_of_values() {
  const auto bit = [](std::size_t axis) { return std::uint64_t{1} << axis; };
  std::vector<std::uint64_t>& of_node = node_depends_;
  of_node.assign(loops_.nodes.size(), 0);
  for (std::size_t i = 0; i < loops_.nodes.size(); ++i) {
    const BoundNode& node = loops_.nodes[i];
    if (node.op == plan::fb::ExprOp::Symbol)
      of_node[i] = bit(node.a);
    else if (node.op != plan::fb::ExprOp::Constant)
      of_node[i] = of_node[node.a] | of_node[node.b];
  }
  const auto of_form = [&](const LinearIndex& linear) {
    std::uint64_t result = 0;
    for (std::size_t a = 0; a < linear.coefficients.size(); ++a)
      if (linear.coefficients[a] != 0) result |= bit(a);
    return result;
  };
  depends_.assign(count_, 0);
  for (std::size_t i = 0; i < count_; ++i) {
    const plan::fb::InstrT& instr = *program_.instrs[i];
    std::uint64_t& depends = depends_[i];
    for (const std::uint32_t arg : operands_of(i)) depends |= depends_[arg];
    if (plan::is_memory(instr.kind)) {
      const BoundAccess& access = loops_.accesses[instr.access];
      depends |= of_form(access.address);
      for (const std::uint32_t node : access.nonlinear) depends |= of_node[node];
      for (const BoundGuard& guard : access.guards)
        depends |= guard.linear ? of_form(*guard.linear) : of_node[guard.node];
    } else if (instr.kind == InstrKind::Index && loops_.axis_of[instr.dim] >= 0) {
      depends |= bit(static_cast<std::size_t>(loops_.axis_of[instr.dim]));
    } else if (instr.kind == InstrKind::Reduce) {
      depends &= bit(loops_.row_axes) - 1;
    }
  }
}

/// Of the first `end` axes, the one along which most work repeats. Nullopt if the saved work does
/// not outweigh the changed memory order.
std::optional<std::size_t> TileCompiler::repeated_axis(std::size_t end) const {
  constexpr std::int64_t kFewRepeats = 2, kManyValues = 64;
  constexpr int kLeastSaved = 6, kGathered = 4, kComputedAddress = 12;
  if (loops_.ordered || loops_.scans) return std::nullopt;
  const auto is_many = [&](std::uint64_t depends) {
    std::int64_t values = 1;
    for (std::size_t a = 0; a < loops_.extents.size() && values < kManyValues; ++a)
      if (depends >> a & 1) values *= loops_.extents[a];
    return values >= kManyValues;
  };
  std::optional<std::size_t> best;
  int most = 0;
  for (std::size_t a = 0; a < end; ++a) {
    if (loops_.extents[a] < kFewRepeats) continue;
    int saved = 0, all = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const plan::fb::InstrT& instr = *program_.instrs[i];
      const bool is_steady = (depends_[i] >> a & 1) == 0;
      if (!is_many(depends_[i])) continue;
      int work = instr.kind == InstrKind::Op ? work_of(static_cast<ScalarOp>(instr.op)) : 1;
      if (plan::is_memory(instr.kind)) {
        const BoundAccess& access = loops_.accesses[instr.access];
        if (!access.is_plain()) {
          work += kComputedAddress;
          if (!is_steady && is_computed(access) && (depends_of_nodes(access) >> a & 1) == 0)
            saved += kComputedAddress;
        }
        for (const BoundGather& gather : access.gathers) {
          work += kGathered;
          if (!is_steady && is_many(depends_[gather.value]) &&
              (depends_[gather.value] >> a & 1) == 0)
            saved += kGathered;
        }
      }
      all += work;
      if (is_steady && instr.kind != InstrKind::Reduce && !plan::is_store(instr.kind))
        saved += work;
    }
    if (saved < kLeastSaved || saved * 3 < all || saved <= most) continue;
    most = saved;
    best = a;
  }
  return best;
}

}  // namespace sinter::runtime::cpu
