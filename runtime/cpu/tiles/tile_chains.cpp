// SPDX-License-Identifier: Apache-2.0
// Compiling a tile program: chains of operators that are computed in registers.
#include <algorithm>

#include "runtime/cpu/tiles/tile_compiler.h"

namespace sinter::runtime::cpu {
namespace {

/// A chain computes a row's last block as a whole. That pays off from kLeastColumns columns, for
/// multiples of kBlockColumns, or for chains of at least kLongChain operators.
constexpr std::int64_t kLeastColumns = 128, kBlockColumns = 64, kLongChain = 4;

/// Results of this size or more leave the last-level cache before they are read. Non-temporal
/// stores then reduce memory traffic to two thirds.
constexpr std::int64_t kLeastPastCache = std::int64_t{16} << 20;

bool is_store(const TileInstr& instr) {
  return instr.kind == TileInstr::Kind::kStore || instr.kind == TileInstr::Kind::kScatter;
}

}  // namespace

std::vector<std::uint32_t> TileCompiler::operands_of(const TileInstr& instr) const {
  if (instr.kind == TileInstr::Kind::kFirst) return {instr.args[0], instr.args[1]};
  // A reduction may read what its operand was widened from.
  if (instr.kind == TileInstr::Kind::kReduce) return {instr.args[0]};
  if (instr.kind != TileInstr::Kind::kChain) return operands_of(instr.value);
  const Chain& chain = out_.chains_[instr.chain];
  std::vector<std::uint32_t> result = {chain.start};
  for (const Chain::Step& step : chain.steps)
    for (const std::uint32_t operand : {step.other, step.second})
      if (operand != TileInstr::kNone) result.push_back(operand);
  return result;
}

bool TileCompiler::is_past_cache(std::uint32_t access) const {
  const TileSchedule& s = out_.schedule_;
  const BoundAccess& store = out_.accesses_[access].access();
  const auto touches = [&](const TileAccess& other) {
    return other.access().buffer == store.buffer;
  };
  // With reductions, computation dominates, not memory.
  if (s.across || s.repeats > 1 || !out_.reductions_.empty() ||
      !out_.accesses_[access].is_stream(s.x_count) ||
      std::ranges::count_if(out_.accesses_, touches) != 1)
    return false;
  const auto size = static_cast<std::int64_t>(size_of(store.storage));
  return s.y_count * s.x_count >= kLeastPastCache / size;
}

void TileCompiler::join_chains() {
  for (const Stage& stage : out_.stages_)
    for (const TileInstr& instr : stage.body)
      if (instr.kind == TileInstr::Kind::kOp) {
        ++operations_;
        work_ += work_of(static_cast<ScalarOp>(program_.instrs[instr.value]->op)) - 1;
      }
  if (out_.schedule_.tile_cols < kBlockColumns && !has_narrow_rows()) return;
  // Number of instructions that read a value. If values persist between stages, later stages count
  // too; otherwise each stage recomputes or keeps its own.
  std::vector<int> readers(count_, 0);
  const auto count = [&](const Stage& stage) {
    for (const TileInstr& instr : stage.body) {
      if (instr.kind == TileInstr::Kind::kResume) continue;
      std::vector<std::uint32_t> operands = operands_of(instr);
      std::ranges::sort(operands);
      operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
      for (const std::uint32_t operand : operands) ++readers[operand];
    }
  };
  if (keep_between_stages_)
    for (const Stage& stage : out_.stages_) count(stage);
  for (Stage& stage : out_.stages_) {
    if (!keep_between_stages_) {
      std::ranges::fill(readers, 0);
      count(stage);
    }
    join_chains(stage, readers);
  }
}

bool TileCompiler::has_narrow_rows() const {
  constexpr std::int64_t kLeastNarrow = 16, kLeastRows = 8;
  const TileSchedule& s = out_.schedule_;
  return s.tile_cols >= kLeastNarrow && s.tile_cols < kBlockColumns &&
         kBlockColumns % s.tile_cols == 0 && s.tile_rows >= kLeastRows;
}

/// Whether a chain begins with 8-bit integers that are widened, lessened and made float32.
bool TileCompiler::is_dequantized(const Stage& stage, std::span<const std::size_t> members) const {
  if (members.size() < 3) return false;
  const auto is = [&](std::size_t member, ScalarOp op, DType type) {
    const TileInstr& instr = stage.body[members[member]];
    return static_cast<ScalarOp>(program_.instrs[instr.value]->op) == op && instr.type == type;
  };
  const TileInstr &first = stage.body[members[0]], &second = stage.body[members[1]];
  return size_of(out_.types_[first.args[0]]) == 1 && is(0, ScalarOp::kCast, DType::kInt32) &&
         is(1, ScalarOp::kSub, DType::kInt32) && second.args[0] == first.value &&
         second.args[1] != first.value && is(2, ScalarOp::kCast, DType::kFloat32);
}

/// Replaces sequences of links by single ones that compute the same bits.
void TileCompiler::shorten(const Stage& stage, std::span<const std::size_t> members,
                           std::vector<Chain::Step>& steps) const {
  const auto is = [&](std::size_t member, ScalarOp op) {
    return member < members.size() &&
           static_cast<ScalarOp>(program_.instrs[stage.body[members[member]].value]->op) == op;
  };
  const auto has_row_value = [&](const Chain::Step& step) {
    if (step.other == TileInstr::kNone) return false;
    const ValueClass of = class_[step.other];
    return of == ValueClass::kUniform || (of == ValueClass::kRow && !out_.schedule_.across);
  };
  std::vector<Chain::Step> result;
  for (std::size_t i = 0; i < members.size();) {
    if (i == 0 && is_dequantized(stage, members)) {
      const bool is_scaled =
          is(3, ScalarOp::kMul) && has_row_value(steps[1]) && has_row_value(steps[3]);
      result.push_back(is_scaled
                           ? Chain::Step{find_chain_dequantize(), steps[1].other, steps[3].other}
                           : Chain::Step{find_chain_difference(), steps[1].other});
      i = is_scaled ? 4 : 3;
      continue;
    }
    const DType end = i + 2 < members.size() ? stage.body[members[i + 2]].type : DType::kBool;
    if (is(i, ScalarOp::kRound) && is(i + 1, ScalarOp::kAdd) && is(i + 2, ScalarOp::kCast) &&
        (end == DType::kInt8 || end == DType::kUInt8) && has_row_value(steps[i + 1])) {
      result.push_back({find_chain_quantize(end), steps[i + 1].other});
      i += 3;
      continue;
    }
    result.push_back(steps[i++]);
  }
  steps = std::move(result);
}

/// A chain replaces its last operator. No instruction between its operators may change their
/// operands; stores could, because views of loads refer to the buffers.
void TileCompiler::join_chains(Stage& stage, const std::vector<int>& readers) {
  const auto link_of = [&](const TileInstr& instr, std::uint32_t value,
                           bool after_test) -> Chain::Step {
    Chain::Step step;
    if (instr.kind != TileInstr::Kind::kOp || instr.value_class != ValueClass::kElement ||
        instr.table != nullptr)
      return step;
    const plan::fb::InstrT& source = *program_.instrs[instr.value];
    const auto op = static_cast<ScalarOp>(source.op);
    if (op == ScalarOp::kSelect) {
      // By a test in the chain: choices read its flags, which are no bools in memory.
      if (after_test && instr.args[0] == value && size_of(instr.type) == sizeof(float))
        step = {find_chain_choice(), instr.args[1], instr.args[2]};
      return step;
    }
    if (after_test || instr.arg_count > 2) return step;
    if (op == ScalarOp::kCast) {
      if (source.precision == plan::fb::Precision::Full)
        step.kernels = find_chain_cast(out_.types_[value], instr.type);
      return step;
    }
    const bool tests = instr.type == DType::kBool;
    const DType type = tests ? DType::kFloat32 : instr.type;
    for (std::uint32_t k = 0; k < instr.arg_count; ++k)
      if (out_.types_[instr.args[k]] != type) return step;
    const bool left = instr.args[0] == value;
    ChainSide side = ChainSide::kOnly;
    if (instr.arg_count == 2)
      side = instr.args[0] == instr.args[1] ? ChainSide::kBoth
             : left                         ? ChainSide::kLeft
                                            : ChainSide::kRight;
    if (side == ChainSide::kLeft || side == ChainSide::kRight)
      step.other = instr.args[left ? 1 : 0];
    if (!tests)
      step.kernels = find_chain_kernels(op, type, side, is_small(instr.args[0]));
    else if (instr.arg_count == 2)
      step.kernels = find_chain_test(op, side);
    return step;
  };
  const auto is_of_row = [&](std::uint32_t value) {
    return value != TileInstr::kNone && class_[value] == ValueClass::kRow;
  };
  std::vector<bool> joined(stage.body.size(), false);
  for (std::size_t first = 0; first < stage.body.size(); ++first) {
    const TileInstr& head = stage.body[first];
    if (joined[first] || head.arg_count == 0) continue;
    // The chain starts with the operand that varies along rows.
    const std::uint32_t start = head.arg_count == 2 && class_[head.args[0]] != ValueClass::kElement
                                    ? head.args[1]
                                    : head.args[0];
    Chain chain{start, {link_of(head, start, false)}};
    if (chain.steps[0].kernels.columns == nullptr) continue;
    std::vector<std::size_t> members = {first};
    for (std::size_t i = first + 1; i < stage.body.size() && chain.steps.size() < kMaxChain; ++i) {
      const TileInstr& last = stage.body[members.back()];
      if (last.kept || last.target != TileInstr::kNone || readers[last.value] != 1) break;
      const TileInstr& instr = stage.body[i];
      const bool reads = std::find(instr.args, instr.args + instr.arg_count, last.value) !=
                         instr.args + instr.arg_count;
      if (reads) {
        const Chain::Step step = link_of(instr, last.value, chain.steps.back().kernels.tests);
        if (joined[i] || step.kernels.columns == nullptr || instr.steady != last.steady) break;
        chain.steps.push_back(step);
        members.push_back(i);
      } else if (is_store(instr) || instr.target != TileInstr::kNone) {
        break;
      }
    }
    if (chain.steps.back().kernels.tests) {
      chain.steps.pop_back();
      members.pop_back();
      if (members.empty()) continue;
    }
    const TileInstr& tail = stage.body[members.back()];
    const bool past_cache = size_of(tail.type) == sizeof(float) &&
                            tail.target != TileInstr::kNone && readers[tail.value] == 1 &&
                            is_past_cache(tail.target);
    const std::int64_t columns = out_.schedule_.tile_cols;
    const bool is_short =
        std::ssize(members) < kLongChain && columns < kLeastColumns && columns % kBlockColumns != 0;
    if (has_narrow_rows()) {
      if (members.size() == 1 || std::ranges::any_of(chain.steps, [&](const Chain::Step& step) {
            return is_of_row(step.other) || is_of_row(step.second);
          }))
        continue;
    } else if ((members.size() == 1 || is_short) && !past_cache) {
      continue;
    }
    shorten(stage, members, chain.steps);
    for (const std::size_t i : members) joined[i] = i != members.back();
    TileInstr& result = stage.body[members.back()];
    result.kind = TileInstr::Kind::kChain;
    result.chain = static_cast<std::uint32_t>(out_.chains_.size());
    result.past_cache = past_cache;
    out_.chains_.push_back(std::move(chain));
  }
  std::vector<TileInstr> left;
  for (std::size_t i = 0; i < stage.body.size(); ++i)
    if (!joined[i]) left.push_back(stage.body[i]);
  stage.body = std::move(left);
}

}  // namespace sinter::runtime::cpu
