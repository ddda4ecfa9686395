// SPDX-License-Identifier: Apache-2.0
// Last steps of compiling a tile program: workspace layout and constant evaluation.
#include <algorithm>
#include <map>

#include "runtime/cpu/tiles/tile_compiler.h"
#include "runtime/cpu/tiles/tile_runs.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

using plan::fb::InstrKind;

/// Elements times instructions in a nanosecond of one thread, about.
constexpr double kWorkPerNanosecond = 15;

std::size_t align64(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

/// Lets operations and loads of elements write directly to the memory of a later store in the same
/// stage.
void TileCompiler::forward_stores() {
  for (Stage& stage : out_.stages_) {
    for (TileInstr& store : stage.body) {
      if (store.kind != TileInstr::Kind::kStore) continue;
      for (TileInstr& instr : stage.body) {
        const bool is_move =
            instr.kind == TileInstr::Kind::kLoad && instr.value_class == ValueClass::kElement &&
            store.value_class == ValueClass::kElement && out_.accesses_[instr.access].period() == 0;
        const bool is_computed =
            instr.kind == TileInstr::Kind::kOp || instr.kind == TileInstr::Kind::kScan;
        if ((is_computed || is_move) && instr.value == store.args[0] && !instr.kept &&
            !instr.steady && instr.target == TileInstr::kNone) {
          instr.target = store.access;
          store.target = store.access;  // skipped if forwarding succeeds
        }
      }
    }
  }
}

void TileCompiler::widen_streams() {
  constexpr std::int64_t kMostWider = 8;
  TileSchedule& s = out_.schedule_;
  if (s.across || s.ordered || s.repeats > 1 || out_.stages_.size() != 1) return;
  const auto is_streamed = [&](const TileInstr& instr) {
    switch (instr.kind) {
      case TileInstr::Kind::kLoad:
        if (out_.accesses_[instr.access].is_used_in_place()) return true;
        [[fallthrough]];
      case TileInstr::Kind::kOp:
      case TileInstr::Kind::kChain:
      case TileInstr::Kind::kStore:
        return instr.target != TileInstr::kNone && out_.accesses_[instr.target].is_used_in_place();
      default: return false;
    }
  };
  if (!std::ranges::all_of(out_.stages_[0].body, is_streamed)) return;
  const std::int64_t tile = s.tile_rows * s.tile_cols,
                     parts = std::max<std::int64_t>(threads::parts_of(threads_), 1);
  const std::int64_t wider = std::clamp<std::int64_t>(
      s.y_count * s.x_count / std::max<std::int64_t>(tile * parts, 1), 1, kMostWider);
  if (wider == 1) return;
  is_wide_ = true;
  if (s.whole_rows)
    s.tile_rows = std::min(s.y_count, s.tile_rows * wider);
  else
    s.tile_cols = std::min(s.x_count, s.tile_cols * wider);
}

/// Assigns workspace offsets. Row values and accumulators get their own; element values share as
/// few tiles as their lifetimes allow, so that tiles stay in the cache.
void TileCompiler::lay_out() {
  const TileSchedule& s = out_.schedule_;
  std::size_t end = 0;
  const auto take = [&](std::int64_t count, std::size_t size) {
    const std::size_t offset = end;
    end += align64(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * size);
    return offset;
  };
  const std::int64_t row_values = s.across ? s.tile_cols : s.tile_rows;
  for (Stage& stage : out_.stages_)
    for (TileInstr& instr : stage.row)
      if (instr.kind != TileInstr::Kind::kStore)
        instr.offset = take(row_values, size_of(instr.type));
  for (Reduction& reduction : out_.reductions_) {
    reduction.accumulators = take(row_values, kAccumulatorBytes);
    reduction.result = take(row_values, size_of(out_.types_[reduction.value]));
  }

  for (RunningScan& scan : out_.scans_) scan.carries = take(row_values, kAccumulatorBytes);

  std::vector<bool> periodic(count_, false);
  for (Stage& stage : out_.stages_)
    for (TileInstr& instr : stage.body) {
      if (instr.kept || s.across || instr.value_class != ValueClass::kElement) continue;
      if (instr.kind == TileInstr::Kind::kLoad)
        instr.period = out_.accesses_[instr.access].period();
      // Indices of columns are the same in each tile that has all of them.
      if (instr.kind == TileInstr::Kind::kIndex && s.whole_rows && !instr.steady &&
          out_.axis_role_[static_cast<std::size_t>(instr.axis)] == 'x')
        instr.period = s.x_count;
      // Nor do operators of these compute them anew.
      const auto is_same = [&](std::uint32_t operand) {
        return class_[operand] == ValueClass::kUniform || periodic[operand];
      };
      if ((instr.kind == TileInstr::Kind::kOp || instr.kind == TileInstr::Kind::kChain) &&
          s.whole_rows && !instr.steady && instr.target == TileInstr::kNone &&
          std::ranges::all_of(operands_of(instr), is_same))
        instr.period = s.x_count;
      periodic[instr.value] = instr.period > 0;
    }
  std::vector<TileInstr*> order;
  for (Stage& stage : out_.stages_)
    for (TileInstr& instr : stage.body) order.push_back(&instr);
  for (TileInstr* instr : order)
    if (instr->slides) instr->offset = take(1, out_.accesses_[instr->access].sliding_bytes());
  // Steady values that later repetitions read, and offsets, get their own memory.
  std::vector<bool> is_held(count_, false);
  for (const TileInstr* instr : order)
    if (!instr->steady)
      for (const std::uint32_t arg : operands_of(*instr)) is_held[arg] = true;
  for (TileInstr* instr : order) instr->held = instr->steady && is_held[instr->value];
  for (TileInstr* instr : order) {
    if (instr->kind != TileInstr::Kind::kLoad) continue;
    instr->of_columns = gathers_of_columns(instr->value);
    if (instr->of_columns != 0)
      instr->column_offsets = take(offset_count(s.tile_cols), sizeof(std::int32_t));
  }
  for (TileInstr* instr : order)
    if (instr->kind == TileInstr::Kind::kLoad && !instr->steady && has_steady_offsets(instr->value))
      instr->offsets = take(offset_count(s.tile_rows * s.tile_cols), sizeof(std::int32_t));
  std::vector<std::size_t> definition(count_, SIZE_MAX), last_use(order.size(), 0);
  for (std::size_t p = 0; p < order.size(); ++p) {
    for (const std::uint32_t arg : operands_of(*order[p]))
      if (definition[arg] != SIZE_MAX && order[p]->kind != TileInstr::Kind::kResume)
        last_use[definition[arg]] = p;
    definition[order[p]->value] = p;
    last_use[p] = p;
  }
  const std::int64_t elements = s.tile_rows * s.tile_cols;
  std::map<std::size_t, std::vector<std::size_t>> free;  // free tiles by element size
  std::map<std::uint32_t, std::size_t> kept;
  std::vector<std::vector<std::size_t>> dying(order.size());
  for (std::size_t p = 0; p < order.size(); ++p)
    if (last_use[p] > p) dying[last_use[p]].push_back(p);
  for (std::size_t p = 0; p < order.size(); ++p) {
    TileInstr& instr = *order[p];
    const std::size_t size = size_of(instr.type);
    // The result reuses the tile of an operand whose lifetime ends here, since all kernels work in
    // place. Loads do not: they may still read indices while they write.
    const auto release = [&] {
      for (const std::size_t d : dying[p])
        if (!order[d]->kept && !order[d]->held && order[d]->period == 0 &&
            order[d]->kind != TileInstr::Kind::kReduce && order[d]->kind != TileInstr::Kind::kFirst)
          free[size_of(order[d]->type)].push_back(order[d]->offset);
    };
    const bool in_place =
        instr.kind == TileInstr::Kind::kOp || instr.kind == TileInstr::Kind::kChain;
    if (in_place) release();
    if (instr.period > 0 || instr.held) {
      instr.offset = take(elements, size);  // not shared: persists from tile to tile
    } else if (instr.kept) {
      const auto [it, added] = kept.try_emplace(instr.value, 0);
      if (added) it->second = take(s.across ? s.y_count * s.tile_cols : s.x_count, size);
      instr.offset = it->second;
    } else if (instr.kind != TileInstr::Kind::kStore && instr.kind != TileInstr::Kind::kScatter &&
               instr.kind != TileInstr::Kind::kReduce && instr.kind != TileInstr::Kind::kFirst) {
      auto& available = free[size];
      if (available.empty()) {
        instr.offset = take(elements, size);
      } else {
        instr.offset = available.back();
        available.pop_back();
      }
      if (last_use[p] == p) available.push_back(instr.offset);
    }
    if (!in_place) release();
  }
  out_.views_offset_ = take(static_cast<std::int64_t>(count_), sizeof(View));
  out_.forwarded_offset_ = take(static_cast<std::int64_t>(count_), 1);
  out_.loaded_offset_ = take(static_cast<std::int64_t>(count_), sizeof(LoadedColumns));
  out_.workspace_bytes_ = end;

  // For a single operation, and for long rows, the hardware prefetcher suffices.
  if (operations_ > 1 && !is_wide_) choose_streams(order.size());

  // An element that is looked up by itself takes as long as many that lie side by side.
  constexpr double kLookUp = 12;
  const auto lookups = std::ranges::count_if(order, [&](const TileInstr* instr) {
    return instr->kind == TileInstr::Kind::kLoad && instr->value_class == ValueClass::kElement &&
           !instr->steady && !out_.accesses_[instr->access].access().gathers.empty();
  });
  const double instructions =
      static_cast<double>(order.size()) + kLookUp * static_cast<double>(lookups) + work_;
  const double work = static_cast<double>(s.z_count) * static_cast<double>(s.y_count) *
                      static_cast<double>(s.x_count) * instructions;
  out_.threads_ = threads::team_for(work / kWorkPerNanosecond, threads_);
}

void TileCompiler::choose_streams(std::size_t instrs) {
  const TileSchedule& s = out_.schedule_;
  if (s.across || s.repeats > 1 || instrs == 0) return;
  std::vector<bool> is_past_cache(out_.accesses_.size(), false);
  for (const Stage& stage : out_.stages_)
    for (const TileInstr& instr : stage.body)
      if (instr.past_cache) is_past_cache[instr.target] = true;
  for (std::uint32_t a = 0; a < out_.accesses_.size(); ++a)
    if (!is_past_cache[a] && out_.accesses_[a].streams_rows(s.x_count)) out_.streams_.push_back(a);
  const std::int64_t tiles = !out_.reductions_.empty() && s.tile_cols > 0
                                 ? (s.x_count + s.tile_cols - 1) / s.tile_cols
                                 : 1;
  out_.unit_instrs_ = std::max<std::int64_t>(1, tiles * static_cast<std::int64_t>(instrs));
}

void TileCompiler::evaluate_uniforms() {
  out_.uniforms_.assign(count_, {});
  out_.uniform_values_.assign(count_, 0);
  for (std::size_t i = 0; i < count_; ++i) {
    if (class_[i] != ValueClass::kUniform || !(needed_[i] || in_table_[i])) continue;
    const plan::fb::InstrT& instr = *program_.instrs[i];
    const DType type = out_.types_[i];
    auto* value = reinterpret_cast<std::byte*>(&out_.uniform_values_[i]);
    switch (instr.kind) {
      case InstrKind::Constant:
        if (is_float(type))
          fill_run(type, instr.constant_float, value, 1);
        else
          index_run(type, instr.constant_int, 0, value, 1);
        break;
      case InstrKind::Size:
        if (is_float(type))
          fill_run(type, static_cast<double>(expressions_[instr.expression]), value, 1);
        else
          index_run(type, expressions_[instr.expression], 0, value, 1);
        break;
      case InstrKind::Op: {
        const TileInstr op = translate(i);
        OpArgs args{1, 1, value, 1, {}};
        for (std::uint32_t k = 0; k < op.arg_count; ++k) args.args[k] = out_.uniforms_[op.args[k]];
        op.kernel(args);
        break;
      }
      default: break;  // index along a dimension of size 1: zero
    }
    out_.uniforms_[i] = {value, 0, false};
  }
}

}  // namespace sinter::runtime::cpu
