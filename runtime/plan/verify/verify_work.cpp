// SPDX-License-Identifier: Apache-2.0
// Verifies the work of each kind of step.
#include "runtime/plan/verify/verify_work.h"

#include <algorithm>

#include <sinter/scalar_op.h>

#include "runtime/plan/loop_values.h"
#include "runtime/plan/verify/verify_kinds.h"

namespace sinter::plan {
namespace {

void verify_loop(const Checker& check, const fb::LoopProgramT& program, Uses& uses) {
  for (const std::uint32_t buffer : program.buffers) check.buffer(buffer, "a buffer");
  verify_loop_program(check, program);
  for (const auto& instr : program.instrs) {
    if (!is_memory(instr->kind)) continue;
    const std::uint32_t buffer = program.buffers[program.accesses[instr->access]->buffer];
    (instr->kind == fb::InstrKind::Load ? uses.reads : uses.writes).insert(buffer);
  }
}

/// True for arena memory that only this step uses.
bool lives_in_step_alone(const Checker& check, std::uint32_t index) {
  const fb::BufferT& buffer = check.buffer(index, "a buffer it writes");
  return buffer.kind == fb::BufferKind::Arena && buffer.first_step == buffer.last_step;
}

void verify_copy(const Checker& check, const fb::CopyStepT& work, Uses& uses) {
  check.buffer(work.source, "its source");
  check.buffer(work.target, "its target");
  if (work.source == work.target) check.fail("it copies buffer {} to itself", work.source);
  check.expression(work.bytes, "its size");
  uses.reads.insert(work.source);
  uses.writes.insert(work.target);
}

void verify_while(const Checker& check, const fb::WhileStepT& work, Uses& uses) {
  const auto one = [&](std::uint32_t buffer, DType type, const char* what) {
    if (static_cast<DType>(check.buffer(buffer, what).dtype) != type)
      check.fail("{} is not of type {}", what, to_string(type));
  };
  if (work.trips < -1 || work.condition < -1)
    check.fail("it has expression {} for its trips and buffer {} for its condition", work.trips,
               work.condition);
  if (work.trips >= 0)
    check.expression(static_cast<std::uint32_t>(work.trips), "the number of its iterations");
  if (work.condition >= 0) {
    const auto condition = static_cast<std::uint32_t>(work.condition);
    one(condition, DType::kBool, "its condition");
    uses.reads.insert(condition);
  } else if (work.trips < 0) {
    check.fail("nothing ends it: it has neither a number of iterations nor a condition");
  }
  one(work.counter, DType::kInt64, "the number of the iteration");
  uses.writes.insert(work.counter);
}

void verify_if(const Checker& check, const fb::IfStepT& work, Uses& uses) {
  if (static_cast<DType>(check.buffer(work.condition, "its condition").dtype) != DType::kBool)
    check.fail("its condition is not of type bool");
  uses.reads.insert(work.condition);
}

void verify_choice(const Checker& check, const fb::StepT& step, const fb::TacticStepT& choice,
                   Uses& uses) {
  if (choice.tactics.empty()) check.fail("it has no tactic");
  if (!choice.tactics.back()->conditions.empty())
    check.fail("its last tactic '{}' has conditions: some sizes would be left without any",
               choice.tactics.back()->name);
  for (const auto& tactic : choice.tactics) {
    verify_conditions(check, tactic->conditions);
    if (tactic->parts.empty()) check.fail("its tactic '{}' is empty", tactic->name);
    Buffers written;
    for (const auto& part : tactic->parts) {
      const fb::Work kind = part->work.type;
      if (kind != fb::Work::KernelStep && kind != fb::Work::MatmulStep &&
          kind != fb::Work::ConvStep && kind != fb::Work::CopyStep)
        check.fail("its tactic '{}' has a part of kind {}, which cannot be one", tactic->name,
                   static_cast<int>(kind));
      if (kind == fb::Work::ConvStep && &tactic == &choice.tactics.back())
        check.fail("its last tactic '{}' needs a library of convolutions, which may be missing",
                   tactic->name);
      const Uses part_uses = verify_work(check, step, part->work);
      // A part may read what an earlier part of the tactic wrote.
      for (const std::uint32_t buffer : part_uses.reads)
        if (!written.contains(buffer)) uses.reads.insert(buffer);
      written.insert(part_uses.writes.begin(), part_uses.writes.end());
    }
    // Every tactic must write the outputs that the step declares, except scratch buffers.
    for (const std::uint32_t buffer : step.writes)
      if (!written.contains(buffer) && !lives_in_step_alone(check, buffer))
        check.fail("its tactic '{}' does not write buffer {}", tactic->name, buffer);
    uses.writes.insert(written.begin(), written.end());
  }
  for (const fb::IndexSample& sample : choice.samples) {
    const auto type = static_cast<DType>(check.buffer(sample.buffer(), "its indices").dtype);
    check.expression(sample.last(), "the greatest of its indices");
    if ((type != DType::kInt32 && type != DType::kInt64) || !uses.reads.contains(sample.buffer()))
      check.fail("its sample of indices is in buffer {}, which it does not read as integers",
                 sample.buffer());
  }
}

}  // namespace

Uses verify_work(const Checker& check, const fb::StepT& step, const fb::WorkUnion& work) {
  Uses uses;
  const bool cuda = check.plan.target == "cuda";
  if (work.type != fb::Work::NONE && !work.value) check.fail("its work is missing");
  switch (work.type) {
    case fb::Work::KernelStep:
      if (!cuda) check.fail("a kernel cannot run on target '{}'", check.plan.target);
      verify_kernel(check, *work.AsKernelStep(), step, uses);
      break;
    case fb::Work::LoopStep:
      if (cuda) check.fail("a loop program cannot run on target '{}'", check.plan.target);
      verify_loop(check, *work.AsLoopStep()->program, uses);
      break;
    case fb::Work::MatmulStep: verify_matmul(check, *work.AsMatmulStep(), uses); break;
    case fb::Work::ConvStep: verify_conv(check, *work.AsConvStep(), uses); break;
    case fb::Work::CopyStep: verify_copy(check, *work.AsCopyStep(), uses); break;
    case fb::Work::AttentionStep:
      if (cuda) check.fail("an attention step cannot run on target '{}'", check.plan.target);
      verify_attention(check, *work.AsAttentionStep(), uses);
      break;
    case fb::Work::HostStep: verify_host(check, *work.AsHostStep(), uses); break;
    case fb::Work::OperatorStep: verify_operator(check, *work.AsOperatorStep(), uses); break;
    case fb::Work::TacticStep:
      if (!cuda) check.fail("a choice cannot run on target '{}'", check.plan.target);
      verify_choice(check, step, *work.AsTacticStep(), uses);
      break;
    case fb::Work::WhileStep: verify_while(check, *work.AsWhileStep(), uses); break;
    case fb::Work::IfStep: verify_if(check, *work.AsIfStep(), uses); break;
    case fb::Work::ExtentStep:
      if (check.buffer(work.AsExtentStep()->extent, "its extent").kind != fb::BufferKind::Extent)
        check.fail("buffer {} is no extent", work.AsExtentStep()->extent);
      uses.reads.insert(work.AsExtentStep()->extent);
      break;
    default: check.fail("its work has the unknown kind {}", static_cast<int>(work.type));
  }
  return uses;
}

}  // namespace sinter::plan
