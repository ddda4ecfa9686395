// SPDX-License-Identifier: Apache-2.0
// Regions of one Determinant or Inverse.
#include <fmt/format.h>

#include "codegen/families/lu/emit_lu.h"
#include "codegen/families/operator_family.h"

namespace sinter::codegen {
namespace {

class OneLuFamily final : public OperatorFamily {
 public:
  OneLuFamily(std::string_view kind, std::string_view op, bool is_inverse)
      : OperatorFamily(kind, op), is_inverse_(is_inverse) {}

 private:
  LuProblem problem_of(const OperatorRegion& region) const {
    LuProblem problem;
    problem.x = region.buffer(0);
    problem.y = region.region.outputs[0];
    problem.type = region.type(0).dtype;
    const Shape& shape = region.shape(0);
    for (std::size_t d = 0; d + 2 < shape.size(); ++d) problem.count *= shape[d];
    problem.n = shape.back();
    problem.is_inverse = is_inverse_;
    return problem;
  }
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    const LuProblem p = problem_of(region);
    const Dim size(static_cast<std::int64_t>(size_of(p.type)));
    const Dim square = p.n * p.n, bytes = p.count * square * size;
    // 2/3 n^3 operations for the factors, 4/3 n^3 more for the inverse.
    const Dim operations = p.count * square * p.n;
    return {bytes, is_inverse_ ? bytes : p.count * size,
            is_inverse_ ? operations * Dim(2) : operations};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext& plan, StepT& step) const override {
    const LuProblem p = problem_of(region);
    std::vector<std::uint32_t> scratch, buffers = {p.x, p.y};
    for (const Dim& bytes : p.scratch_bytes(plan.exprs)) {
      scratch.push_back(plan.buffers.scratch({DType::kUInt8, {bytes}}));
      step.writes.push_back(scratch.back());
      buffers.push_back(scratch.back());
    }
    Tactic tactic = emitted(
        region,
        fmt::format("{} {} {} {}", name(), to_string(p.type), p.count.to_string(), p.n.to_string()),
        buffers, [p, scratch](const KernelRequest& request, ExprTable& exprs) {
          return emit_lu(p, scratch, request, exprs);
        });
    if (const std::size_t behind = p.kernels_behind(plan.exprs); behind > 0) {
      tactic.name = name();
      tactic.parts.resize(1 + behind);
    }
    return tactic;
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    const LuProblem p = problem_of(region);
    Shape results = {p.count};
    if (is_inverse_) results = {p.count, p.n, p.n};
    return operator_step(is_inverse_ ? "inverse" : "determinant", exprs,
                         {{p.x, {p.count, p.n, p.n}}}, {{p.y, results}});
  }

  bool is_inverse_;
};

class LuFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "lu"; }
  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    if (determinant_.takes(region, target).empty() || inverse_.takes(region, target).empty())
      return "";
    return "it is neither a Determinant nor an Inverse";
  }
  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    return (region.kind() == "inverse" ? inverse_ : determinant_).lower(region, plan);
  }

 private:
  OneLuFamily determinant_{"determinant", "Determinant", false};
  OneLuFamily inverse_{"inverse", "Inverse", true};
};

}  // namespace

const KernelFamily& lu_family() {
  static const LuFamily family;
  return family;
}

}  // namespace sinter::codegen
