// SPDX-License-Identifier: Apache-2.0
// Regions of one SampleTokens.
#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/operator_family.h"
#include "codegen/families/sampling/emit_sampling.h"

namespace sinter::codegen {
namespace {

SamplingProblem problem_of(const OperatorRegion& region) {
  const std::vector<std::uint32_t>& outputs = region.region.outputs;
  SamplingProblem problem;
  problem.logits = region.buffer(0);
  problem.reals = region.buffer(1);
  problem.integers = region.buffer(2);
  problem.sets = region.buffer(3);
  problem.biased = region.buffer(4);
  problem.biases = region.buffer(5);
  problem.tokens = outputs[0];
  problem.most_likeliest = static_cast<int>(region.node.attrs.get_int("likeliest"));
  if (problem.most_likeliest > 0) {
    problem.wanted = region.buffer(6);
    problem.likeliest = outputs[1];
    problem.logprobs = outputs[2];
  }
  problem.dtype = region.type(0).dtype;
  problem.rows = region.shape(0)[0];
  problem.vocabulary = region.shape(0)[1].value();
  problem.set_count = region.shape(3)[0];
  problem.bias_count = region.shape(4)[0];
  if (size_of(problem.dtype) > 4)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("no token is drawn from logits of type {}, only of floats of 16 and 32 "
                            "bits",
                            to_string(problem.dtype)));
  return problem;
}

class SamplingFamily final : public OperatorFamily {
 public:
  SamplingFamily() : OperatorFamily("sampling", "SampleTokens") {}

  /// The kernel of the CPU draws alone: a second step tells log probabilities.
  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    std::vector<StepTactics> steps = OperatorFamily::lower(region, plan);
    const OperatorRegion one = read(region);
    const std::int64_t most = one.node.attrs.get_int("likeliest");
    if (plan.generates_kernels() || most == 0) return steps;
    steps[0].step.writes = {region.outputs[0]};
    StepTactics& tells = steps.emplace_back(StepTactics{step_of(region), {}});
    tells.step.name = region.name + "_logprobs";
    tells.step.reads = {one.buffer(0), region.outputs[0], one.buffer(6)};
    tells.step.writes = {region.outputs[1], region.outputs[2]};
    const Dim& rows = one.shape(0)[0];
    set_cost(tells.step, {rows * Dim(8), rows * Dim(4 * (2 * most + 1)), rows}, plan.exprs);
    tells.tactics.push_back(
        only(operator_step("logprobs", plan.exprs, {one.input(0), one.output(0), one.input(6)},
                           {one.output(1), one.output(2)})));
    return steps;
  }

 private:
  /// Of a greedy draw: reads the row once. Most rows want no log probabilities.
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    const SamplingProblem p = problem_of(region);
    const Dim logits = p.rows * Dim(p.vocabulary);
    const std::int64_t told = p.most_likeliest > 0 ? 2 * p.most_likeliest + 1 : 0;
    return {logits * Dim(static_cast<std::int64_t>(size_of(p.dtype))), p.rows * Dim(4 * (1 + told)),
            logits * Dim(4)};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext&, StepT&) const override {
    const SamplingProblem p = problem_of(region);
    std::vector<std::uint32_t> buffers = {p.logits, p.reals,  p.integers, p.sets,
                                          p.biased, p.biases, p.tokens};
    if (p.most_likeliest > 0) buffers.insert(buffers.end(), {p.wanted, p.likeliest, p.logprobs});
    return emitted(region,
                   fmt::format("sampling {} {} {} {} {}", p.vocabulary, p.rows.to_string(),
                               p.set_count.to_string(), p.bias_count.to_string(), p.most_likeliest),
                   std::move(buffers), [p](const KernelRequest& request, ExprTable& exprs) {
                     return emit_sampling(p, request, exprs);
                   });
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    return operator_step("sampling", exprs,
                         {region.input(0), region.input(1), region.input(2), region.input(3),
                          region.input(4), region.input(5)},
                         {region.output(0)});
  }
};

}  // namespace

const KernelFamily& sampling_family() {
  static const SamplingFamily family;
  return family;
}

}  // namespace sinter::codegen
