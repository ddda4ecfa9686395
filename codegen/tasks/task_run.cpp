// SPDX-License-Identifier: Apache-2.0
#include "codegen/tasks/task_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "codegen/tasks/task_program.h"

namespace sinter::codegen {
namespace {

const TacticPart& kernel_of(const RunStep& member) {
  return member.step.tactics[member.tactic].parts[0];
}

/// Those of `listed` that the step's kernel uses: other tactics' scratch memory is not there.
std::vector<std::uint32_t> used(const RunStep& member, const std::vector<std::uint32_t>& listed) {
  const std::vector<std::uint32_t> all = kernel_of(member).program->buffers();
  std::vector<std::uint32_t> kept;
  for (const std::uint32_t buffer : listed)
    if (std::ranges::find(all, buffer) != all.end()) kept.push_back(buffer);
  return kept;
}

bool meet(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  return std::ranges::any_of(
      a, [&](std::uint32_t buffer) { return std::ranges::find(b, buffer) != b.end(); });
}

bool waits_for(const StepT& step, const StepT& earlier) {
  return meet(earlier.writes, step.reads) || meet(earlier.writes, step.writes) ||
         meet(earlier.reads, step.writes);
}

std::vector<TaskStep> task_steps(const std::vector<RunStep>& run) {
  std::vector<TaskStep> steps;
  for (std::size_t s = 0; s < run.size(); ++s) {
    TaskStep step{run[s].step.step.name, kernel_of(run[s]).program, 0};
    for (std::size_t e = 0; e < s; ++e)
      if (waits_for(run[s].step.step, run[e].step.step))
        step.level = std::max(step.level, steps[e].level + 1);
    steps.push_back(std::move(step));
  }
  return steps;
}

/// What the whole run reads and writes: what it reads behind a write of its own is written alone.
StepT merged_step(const std::vector<RunStep>& run, const std::string& name, ExprTable& exprs) {
  StepT whole;
  whole.name = name;
  std::set<std::uint32_t> reads, writes;
  std::set<std::string> origins;
  StepCost cost{ir::Dim(0), ir::Dim(0), ir::Dim(0)};
  for (const RunStep& member : run) {
    const StepT& step = member.step.step;
    for (const std::uint32_t buffer : used(member, step.reads))
      if (!writes.contains(buffer)) reads.insert(buffer);
    for (const std::uint32_t buffer : used(member, step.writes)) writes.insert(buffer);
    origins.insert(step.origins.begin(), step.origins.end());
    cost.bytes_read += exprs.dim(step.bytes_read);
    cost.bytes_written += exprs.dim(step.bytes_written);
    cost.flops += exprs.dim(step.flops);
    if (step.arithmetic != plan::fb::Arithmetic::Scalar) cost.arithmetic = step.arithmetic;
  }
  whole.reads.assign(reads.begin(), reads.end());
  whole.writes.assign(writes.begin(), writes.end());
  whole.origins.assign(origins.begin(), origins.end());
  set_cost(whole, cost, exprs);
  return whole;
}

}  // namespace

std::optional<std::size_t> task_tactic(const StepTactics& step, PlanContext& plan,
                                       std::string& why) {
  why = "it has no kernel of one launch";
  for (std::size_t t = 0; t < step.tactics.size(); ++t) {
    const Tactic& tactic = step.tactics[t];
    if (tactic.parts.size() != 1 || !tactic.parts[0].program || !tactic.conditions.empty())
      continue;
    const KernelProgram& program = *tactic.parts[0].program;
    KernelRequest request;
    request.name = "task";
    request.precise = plan.options.precise_math;
    for (const std::uint32_t buffer : program.buffers()) {
      request.buffer_types.push_back(plan.buffers.type(buffer));
      if (plan.buffers.is_given(buffer)) request.given.insert(buffer);
    }
    why.clear();
    for (const DeviceModel* device : plan.devices) {
      request.device = device;
      if (why.empty()) why = emit_task(program, request, plan.exprs).refusal;
    }
    if (why.empty()) return t;
  }
  return std::nullopt;
}

StepTactics merge_run(std::vector<RunStep> run, const std::string& name, PlanContext& plan) {
  StepTactics merged{merged_step(run, name, plan.exprs), {}};
  const std::vector<TaskStep> steps = task_steps(run);
  const std::uint32_t counters =
      plan.buffers.scratch({DType::kUInt64, {ir::Dim(TaskProgram::counter_words(steps))}});
  merged.step.writes.push_back(counters);
  Tactic& tasks = merged.tactics.emplace_back();
  tasks.name = "tasks";
  tasks.parts.emplace_back().kernel = name;
  tasks.parts[0].program = std::make_shared<TaskProgram>(steps, counters);
  tasks.parts.resize(2);  // its counters are cleared first
  Tactic kernels;
  kernels.name = "kernels";
  for (RunStep& member : run) {
    kernels.parts.push_back(kernel_of(member));
    merged.samples.insert(merged.samples.end(), member.step.samples.begin(),
                          member.step.samples.end());
  }
  merged.tactics.push_back(std::move(kernels));
  for (Tactic& tactic : merged.tactics)
    for (TacticPart& part : tactic.parts) part.tuned_by.reset();
  return merged;
}

}  // namespace sinter::codegen
