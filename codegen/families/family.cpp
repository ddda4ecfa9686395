// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/family.h"

#include <algorithm>

namespace sinter::codegen {
namespace {

std::vector<std::uint32_t> each_once(const std::vector<std::uint32_t>& values) {
  std::vector<std::uint32_t> result;
  for (const std::uint32_t value : values)
    if (std::ranges::find(result, value) == result.end()) result.push_back(value);
  return result;
}

}  // namespace

StepT step_of(const Region& region) {
  StepT step;
  step.name = region.name;
  step.origins = region.node.origins;
  step.reads = each_once(region.inputs);
  step.writes = each_once(region.outputs);
  return step;
}

void set_cost(StepT& step, const StepCost& cost, ExprTable& exprs) {
  step.bytes_read = exprs.intern(cost.bytes_read);
  step.bytes_written = exprs.intern(cost.bytes_written);
  step.flops = exprs.intern(cost.flops);
  step.arithmetic = cost.arithmetic;
}

Tactic only(std::string kernel, std::shared_ptr<const KernelProgram> program) {
  Tactic tactic;
  TacticPart& part = tactic.parts.emplace_back();
  part.kernel = std::move(kernel);
  part.program = std::move(program);
  return tactic;
}

std::string asked_schedule(const KernelFamily& family, const CompileOptions& options) {
  const std::string word = options.schedule.substr(0, options.schedule.find(' '));
  for (const std::string_view own : family.schedules())
    if (word == own) return options.schedule;
  return "";
}

}  // namespace sinter::codegen
