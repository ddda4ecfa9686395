// SPDX-License-Identifier: Apache-2.0
// The work of each kind of step.
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

/// True for arena memory that no other step can see.
bool lives_in_step_alone(const Checker& check, std::uint32_t index) {
  const fb::BufferT& buffer = check.buffer(index, "a buffer it writes");
  return buffer.kind == fb::BufferKind::Arena && buffer.first_step == buffer.last_step;
}

void verify_sort(const Checker& check, const fb::SortStepT& work, Uses& uses) {
  const fb::BufferT& input = check.buffer(work.input, "its input");
  const fb::BufferT& output = check.buffer(work.output, "its output");
  const DType type = check.dtype(input.dtype, "its input");
  if (type == DType::kBool || is_float8(type)) check.fail("it sorts {} elements", to_string(type));
  if (static_cast<DType>(output.dtype) != DType::kInt64)
    check.fail("its output is not of type i64");
  for (const std::uint32_t size : {work.outer, work.length, work.inner, work.count})
    check.expression(size, "a size");
  uses.reads.insert(work.input);
  uses.writes.insert(work.output);
}

/// What the tables hold is checked where they are packed.
void verify_trees(const Checker& check, const fb::TreeStepT& work, Uses& uses) {
  constexpr std::uint32_t kMost = 1U << 30;
  const auto type = static_cast<DType>(check.buffer(work.rows_of, "its rows").dtype);
  if (type != DType::kFloat32 && type != DType::kFloat64) check.fail("its rows are not f32 or f64");
  const auto is = [&](std::uint32_t buffer, DType wanted, bool weight, const char* what) {
    const fb::BufferT& of = check.buffer(buffer, what);
    if (static_cast<DType>(of.dtype) != wanted)
      check.fail("{} are not of type {}", what, to_string(wanted));
    if (weight && of.kind != fb::BufferKind::Weight) check.fail("{} are no weights", what);
  };
  is(work.result, type, false, "its results");
  is(work.thresholds, type, true, "its thresholds");
  is(work.weights, type, true, "its leaves' weights");
  is(work.nodes, DType::kInt32, true, "its nodes");
  is(work.trees, DType::kInt32, true, "its trees");
  check.expression(work.rows, "the number of rows");
  if (work.columns > kMost || work.targets > kMost || work.width == 0 || work.width > work.targets)
    check.fail("it has {} columns, {} targets and {} weights of a leaf", work.columns, work.targets,
               work.width);
  if (work.combine != static_cast<std::uint8_t>(Combine::kSum) &&
      work.combine != static_cast<std::uint8_t>(Combine::kMax) &&
      work.combine != static_cast<std::uint8_t>(Combine::kMin))
    check.fail("it combines trees in way {}, which there is not", work.combine);
  if (work.result == work.rows_of) check.fail("its results lie where its rows do");
  uses.reads.insert({work.rows_of, work.thresholds, work.weights, work.nodes, work.trees});
  uses.writes.insert(work.result);
}

DType type_of(const Checker& check, std::uint32_t buffer, const char* what) {
  return check.dtype(check.buffer(buffer, what).dtype, what);
}

void require_type(const Checker& check, std::uint32_t buffer, DType type, const char* what) {
  if (type_of(check, buffer, what) != type)
    check.fail("{} are not of type {}", what, to_string(type));
}

void require_logits(const Checker& check, std::uint32_t buffer) {
  const DType type = type_of(check, buffer, "its logits");
  if (!is_float(type) || !is_narrow(type) || is_float8(type))
    check.fail("its logits are of type {}", to_string(type));
}

void verify_suppression(const Checker& check, const fb::SuppressionStepT& work, Uses& uses) {
  require_type(check, work.boxes, DType::kFloat32, "its boxes");
  require_type(check, work.valid, DType::kBool, "its flags");
  require_type(check, work.kept, DType::kBool, "its results");
  if (work.kept == work.valid) check.fail("its results lie where its flags do");
  for (const std::uint32_t size : {work.rows, work.length}) check.expression(size, "a size");
  uses.reads.insert({work.boxes, work.valid});
  uses.writes.insert(work.kept);
}

void verify_sampling(const Checker& check, const fb::SamplingStepT& work, Uses& uses) {
  require_logits(check, work.logits);
  require_type(check, work.reals, DType::kFloat64, "its real parameters");
  require_type(check, work.integers, DType::kInt64, "its integer parameters");
  require_type(check, work.sets, DType::kInt32, "its sets of tokens");
  require_type(check, work.biased, DType::kInt32, "its tokens with a bias");
  require_type(check, work.biases, DType::kFloat32, "its biases");
  require_type(check, work.tokens, DType::kInt32, "its results");
  for (const std::uint32_t size : {work.rows, work.vocabulary, work.sets_rows, work.biases_count})
    check.expression(size, "a size");
  uses.reads.insert({work.logits, work.reals, work.integers, work.sets, work.biased, work.biases});
  uses.writes.insert(work.tokens);
  if (uses.reads.contains(work.tokens)) check.fail("its results lie where its inputs do");
}

void verify_logprobs(const Checker& check, const fb::LogprobsStepT& work, Uses& uses) {
  constexpr std::uint32_t kMost = 32;
  require_logits(check, work.logits);
  require_type(check, work.tokens, DType::kInt32, "its tokens");
  require_type(check, work.wanted, DType::kInt32, "its counts of likeliest tokens");
  require_type(check, work.likeliest, DType::kInt32, "its likeliest tokens");
  require_type(check, work.logprobs, DType::kFloat32, "its log probabilities");
  if (work.most < 1 || work.most > kMost)
    check.fail("it tells {} of the likeliest tokens, 1 to {} are", work.most, kMost);
  for (const std::uint32_t size : {work.rows, work.vocabulary}) check.expression(size, "a size");
  uses.reads.insert({work.logits, work.tokens, work.wanted});
  uses.writes.insert({work.likeliest, work.logprobs});
  if (uses.reads.contains(work.likeliest) || uses.reads.contains(work.logprobs))
    check.fail("its results lie where its inputs do");
}

void verify_host(const Checker& check, const fb::HostStepT& work, Uses& uses) {
  // What a loader is told of the plan's code is all of it.
  if (std::ranges::none_of(check.plan.custom_code, [&](const auto& code) {
        return code->kind == fb::CodeKind::Host && code->name == work.operator_name;
      }))
    check.fail("operator '{}' is not among the plan's custom code", work.operator_name);
  const auto add = [&](const fb::HostTensorT& tensor, const char* what, Buffers& to) {
    check.dtype(check.buffer(tensor.buffer, what).dtype, what);
    check.rank(tensor.shape.size(), what);
    check.expressions(tensor.shape, "a size");
    return to.insert(tensor.buffer).second;
  };
  for (const auto& input : work.inputs) add(*input, "its input", uses.reads);
  for (const auto& output : work.outputs)
    if (!add(*output, "its output", uses.writes) || uses.reads.contains(output->buffer))
      check.fail("its output lies in buffer {}, where another of its tensors does", output->buffer);
  if (work.outputs.empty()) check.fail("it has no outputs");
  for (const auto& attribute : work.attributes)
    if (attribute->name.empty()) check.fail("it has an attribute without a name");
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
      // What an earlier part has written is the step's own.
      for (const std::uint32_t buffer : part_uses.reads)
        if (!written.contains(buffer)) uses.reads.insert(buffer);
      written.insert(part_uses.writes.begin(), part_uses.writes.end());
    }
    // Later steps read what this one declares, whichever way it was done; scratch may differ.
    for (const std::uint32_t buffer : step.writes)
      if (!written.contains(buffer) && !lives_in_step_alone(check, buffer))
        check.fail("its tactic '{}' does not write buffer {}", tactic->name, buffer);
    uses.writes.insert(written.begin(), written.end());
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
    case fb::Work::SortStep:
      if (cuda) check.fail("a sort cannot run on target '{}'", check.plan.target);
      verify_sort(check, *work.AsSortStep(), uses);
      break;
    case fb::Work::AttentionStep:
      if (cuda) check.fail("an attention step cannot run on target '{}'", check.plan.target);
      verify_attention(check, *work.AsAttentionStep(), uses);
      break;
    case fb::Work::SamplingStep:
      if (cuda) check.fail("a sampling step cannot run on target '{}'", check.plan.target);
      verify_sampling(check, *work.AsSamplingStep(), uses);
      break;
    case fb::Work::LogprobsStep:
      if (cuda)
        check.fail("a step of log probabilities cannot run on target '{}'", check.plan.target);
      verify_logprobs(check, *work.AsLogprobsStep(), uses);
      break;
    case fb::Work::SuppressionStep:
      if (cuda) check.fail("a suppression step cannot run on target '{}'", check.plan.target);
      verify_suppression(check, *work.AsSuppressionStep(), uses);
      break;
    case fb::Work::TreeStep:
      if (cuda) check.fail("a tree step cannot run on target '{}'", check.plan.target);
      verify_trees(check, *work.AsTreeStep(), uses);
      break;
    case fb::Work::HostStep: verify_host(check, *work.AsHostStep(), uses); break;
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
