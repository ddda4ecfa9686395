// SPDX-License-Identifier: Apache-2.0
// Regions of one SampleTokens.
#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/family.h"
#include "codegen/families/sampling/emit_sampling.h"

namespace sinter::codegen {
namespace {

SamplingProblem problem_of(const Region& region) {
  const Graph& body = *region.node.body;
  const Node* sample = body.producer(body.outputs()[0]);
  if (sample == nullptr || sample->op->name != "SampleTokens" || body.nodes().size() != 1 ||
      body.outputs() != sample->outputs)
    throw Error(ErrorCode::kUnsupported,
                "a region of kind 'sampling' must be one SampleTokens of values in memory, all "
                "results of which are used");
  const auto buffer = [&](std::size_t input) {
    return region.inputs[*body.input_number(sample->inputs[input])];
  };
  const auto shape = [&](std::size_t input) { return body.type(sample->inputs[input]).shape; };
  SamplingProblem problem;
  problem.logits = buffer(0);
  problem.reals = buffer(1);
  problem.integers = buffer(2);
  problem.sets = buffer(3);
  problem.biased = buffer(4);
  problem.biases = buffer(5);
  problem.tokens = region.outputs[0];
  problem.most_likeliest = static_cast<int>(sample->attrs.get_int("likeliest"));
  if (problem.most_likeliest > 0) {
    problem.wanted = buffer(6);
    problem.likeliest = region.outputs[1];
    problem.logprobs = region.outputs[2];
  }
  problem.dtype = body.type(sample->inputs[0]).dtype;
  problem.rows = shape(0)[0];
  problem.vocabulary = shape(0)[1].value();
  problem.set_count = shape(3)[0];
  problem.bias_count = shape(4)[0];
  if (size_of(problem.dtype) > 4)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("no token is drawn from logits of type {}, only of floats of 16 and 32 "
                            "bits",
                            to_string(problem.dtype)));
  return problem;
}

class SamplingKernel final : public KernelProgram {
 public:
  explicit SamplingKernel(SamplingProblem problem) : p_(std::move(problem)) {}

  std::string signature(const ExprTable&) const override {
    return fmt::format("sampling {} {} {} {} {}", p_.vocabulary, p_.rows.to_string(),
                       p_.set_count.to_string(), p_.bias_count.to_string(), p_.most_likeliest);
  }
  std::vector<std::uint32_t> buffers() const override {
    std::vector<std::uint32_t> all = {p_.logits, p_.reals,  p_.integers, p_.sets,
                                      p_.biased, p_.biases, p_.tokens};
    if (p_.most_likeliest > 0) all.insert(all.end(), {p_.wanted, p_.likeliest, p_.logprobs});
    return all;
  }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_sampling(p_, request, exprs);
  }

 private:
  SamplingProblem p_;
};

class SamplingFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "sampling"; }

  std::string takes(const Region& region, const ir::TargetTraits&) const override {
    return region.kind() == "sampling" ? "" : "it draws no tokens";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const SamplingProblem problem = problem_of(region);
    if (!plan.generates_kernels()) return interpreted(region, problem, plan);
    StepTactics result{step_of(region), {}};
    set_cost(result.step, cost_of(problem), plan.exprs);
    result.tactics.push_back(only(region.name, std::make_shared<SamplingKernel>(problem)));
    std::vector<StepTactics> steps;
    steps.push_back(std::move(result));
    return steps;
  }

 private:
  /// Cost of a greedy draw: reads the row once. Most rows want no log probabilities.
  static StepCost cost_of(const SamplingProblem& problem) {
    const Dim logits = problem.rows * Dim(problem.vocabulary);
    const std::int64_t told = problem.most_likeliest > 0 ? 2 * problem.most_likeliest + 1 : 0;
    return {logits * Dim(static_cast<std::int64_t>(size_of(problem.dtype))),
            problem.rows * Dim(4 * (1 + told)), logits * Dim(4)};
  }

  static std::vector<StepTactics> interpreted(const Region& region, const SamplingProblem& problem,
                                              PlanContext& plan) {
    std::vector<StepTactics> steps;
    plan::fb::SamplingStepT step;
    step.logits = problem.logits;
    step.reals = problem.reals;
    step.integers = problem.integers;
    step.sets = problem.sets;
    step.biased = problem.biased;
    step.biases = problem.biases;
    step.tokens = problem.tokens;
    step.rows = plan.exprs.intern(problem.rows);
    step.vocabulary = plan.exprs.intern(Dim(problem.vocabulary));
    step.sets_rows = plan.exprs.intern(problem.set_count);
    step.biases_count = plan.exprs.intern(problem.bias_count);
    StepTactics& draws = steps.emplace_back(StepTactics{step_of(region), {}});
    draws.step.writes = {step.tokens};
    set_cost(draws.step, cost_of(problem), plan.exprs);
    draws.tactics.push_back(only(step));
    if (problem.most_likeliest == 0) return steps;
    plan::fb::LogprobsStepT told;
    told.logits = problem.logits;
    told.tokens = problem.tokens;
    told.wanted = problem.wanted;
    told.likeliest = problem.likeliest;
    told.logprobs = problem.logprobs;
    told.rows = step.rows;
    told.vocabulary = step.vocabulary;
    told.most = static_cast<std::uint32_t>(problem.most_likeliest);
    StepTactics& tells = steps.emplace_back(StepTactics{step_of(region), {}});
    tells.step.name = region.name + "_logprobs";
    tells.step.reads = {told.logits, told.tokens, told.wanted};
    tells.step.writes = {told.likeliest, told.logprobs};
    const std::int64_t bytes = 4 * (2 * std::int64_t{problem.most_likeliest} + 1);
    set_cost(tells.step, {problem.rows * Dim(8), problem.rows * Dim(bytes), problem.rows},
             plan.exprs);
    tells.tactics.push_back(only(told));
    return steps;
  }
};

}  // namespace

const KernelFamily& sampling_family() {
  static const SamplingFamily family;
  return family;
}

}  // namespace sinter::codegen
