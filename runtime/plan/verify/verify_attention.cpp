// SPDX-License-Identifier: Apache-2.0
// Verifies attention.
#include <cstdint>
#include <utility>

#include "runtime/plan/verify/verify_kinds.h"

namespace sinter::plan {
namespace {

/// A score program has one load of the scores, one store, and only instructions that a row can
/// evaluate.
void verify_scores(const Checker& check, const fb::AttentionStepT& work, Uses& uses) {
  const fb::LoopProgramT& program = *work.scores;
  for (const std::uint32_t buffer : program.buffers) {
    if (is_of_scores(buffer)) continue;
    check.buffer(buffer, "an operand of its scores");
    uses.reads.insert(buffer);
  }
  verify_loop_program(check, program);
  if (program.extents.size() != work.batch.size() + 2 || program.inner_dims != 0)
    check.fail("the loops of its scores are not its batch, rows and keys");
  std::size_t stores = 0, sinks = 0;
  for (const auto& instr : program.instrs) {
    if (instr->kind > fb::InstrKind::Size || instr->kind == fb::InstrKind::Reduce)
      check.fail("its scores are not pointwise");
    if (instr->kind != fb::InstrKind::Load && instr->kind != fb::InstrKind::Store) continue;
    const fb::AccessT& access = *program.accesses[instr->access];
    const std::uint32_t buffer = program.buffers[access.buffer];
    if (!access.gathers.empty() || !access.nonaffine.empty() || !access.guards.empty())
      check.fail("an operand of its scores is not strided");
    if (instr->kind == fb::InstrKind::Load) {
      if (buffer == kSinkBuffer) check.fail("its scores read their sinks");
    } else if (!is_of_scores(buffer) || ++(buffer == kScoreBuffer ? stores : sinks) > 1) {
      check.fail("its scores are stored elsewhere");
    }
  }
  if (stores == 0) check.fail("its program of scores makes none");
}

}  // namespace

void verify_attention(const Checker& check, const fb::AttentionStepT& work, Uses& uses) {
  constexpr std::uint64_t kMostHead = 4096;
  for (const std::uint64_t head : {work.head, work.value_head})
    if (head == 0 || head > kMostHead) check.fail("it has heads of {} columns", head);
  if (work.causal > 2) check.fail("its causal mask is of the unknown kind {}", work.causal);
  if (work.guard > 2) check.fail("its guard is of the unknown kind {}", work.guard);
  if (work.softcap != 0) check.fail("its soft cap is {}, not a program", work.softcap);
  check.expression(work.rows, "the number of rows");
  check.expression(work.keys, "the number of keys");
  check.rank(work.batch.size(), "the batch");
  check.expressions(work.batch, "a batch dimension");
  for (const auto& [matrix, what] : {std::pair(work.q.get(), "its queries"),
                                     {work.k.get(), "its keys"},
                                     {work.v.get(), "its values"},
                                     {work.y.get(), "its result"}}) {
    verify_strided(check, *matrix, work.batch.size(), what);
    const auto type = static_cast<DType>(matrix->dtype);
    const bool has_scales = work.key_scales && (matrix == work.k.get() || matrix == work.v.get());
    if (has_scales ? type != DType::kInt8 && type != DType::kFloat8E4M3FN
                   : !is_narrow(type) || is_float8(type) || matrix->dtype != work.q->dtype)
      check.fail("{} are of type {}{} beside queries of type {}", what, to_string(type),
                 has_scales ? " with scales" : "", to_string(static_cast<DType>(work.q->dtype)));
    if (!is_one(check, matrix->col_stride))
      check.fail("the columns of {} are not contiguous", what);
  }
  uses.reads.insert({work.q->buffer, work.k->buffer, work.v->buffer});
  uses.writes.insert(work.y->buffer);
  if (!work.key_scales != !work.value_scales || (work.key_scales && work.bounds && !work.tables))
    check.fail("its keys and values have no scales each, or are packed beside them");
  for (const plan::fb::MatrixT* scales : {work.key_scales.get(), work.value_scales.get()}) {
    if (scales == nullptr) continue;
    verify_strided(check, *scales, work.batch.size(), "scales of its keys or values");
    if (static_cast<DType>(scales->dtype) != DType::kFloat32)
      check.fail("scales of its keys or values are of type {}, not f32",
                 to_string(static_cast<DType>(scales->dtype)));
    uses.reads.insert(scales->buffer);
  }
  if (work.mask) {
    verify_strided(check, *work.mask, work.batch.size(), "its mask");
    const auto type = static_cast<DType>(work.mask->dtype);
    if (type != DType::kBool && !is_narrow(type))
      check.fail("its mask is of type {}", to_string(type));
    uses.reads.insert(work.mask->buffer);
  }
  if (work.limits) {
    verify_strided(check, *work.limits, work.batch.size(), "its limits");
    if (!is_integer(static_cast<DType>(work.limits->dtype)))
      check.fail("its limits are of type {}", to_string(static_cast<DType>(work.limits->dtype)));
    uses.reads.insert(work.limits->buffer);
  }
  if (work.scores) verify_scores(check, work, uses);
  if (work.bounds) {
    if (work.tables ? work.mask || !work.limits || work.causal != 0
                    : work.mask || work.limits || work.causal != 0)
      check.fail("its packed sequences have a mask, limits or a causal mask beside their bounds");
    check.expression(work.sequences, "the number of sequences");
    check.expression(work.longest, "the most rows of a sequence");
    verify_strided(check, *work.bounds, work.batch.size(), "its bounds");
    if (static_cast<DType>(work.bounds->dtype) != (work.tables ? DType::kInt32 : DType::kInt64))
      check.fail("its bounds are of type {}", to_string(static_cast<DType>(work.bounds->dtype)));
    uses.reads.insert(work.bounds->buffer);
  }
  if (!work.tables) return;
  if (!work.bounds) check.fail("it has block tables of no sequences");
  check.expression(work.table_blocks, "the blocks of a table");
  verify_strided(check, *work.tables, work.batch.size(), "its block tables");
  if (static_cast<DType>(work.tables->dtype) != DType::kInt32)
    check.fail("its block tables are of type {}",
               to_string(static_cast<DType>(work.tables->dtype)));
  constexpr std::uint32_t kMostKeys = 256;
  if (work.block < 1 || work.block > kMostKeys || (work.block & (work.block - 1)) != 0)
    check.fail("a block of its caches has {} keys", work.block);
  uses.reads.insert(work.tables->buffer);
}

}  // namespace sinter::plan
