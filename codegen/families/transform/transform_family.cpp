// SPDX-License-Identifier: Apache-2.0
// Regions of one Dft.
#include <cmath>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/operator_family.h"
#include "codegen/families/transform/emit_transform.h"

namespace sinter::codegen {
namespace {

TransformProblem problem_of(const OperatorRegion& region) {
  TransformProblem problem{.transform = ir::Dft(region.node.attrs)};
  const ir::Dft& t = problem.transform;
  problem.x = region.buffer(0);
  problem.roots = region.buffer(1);
  if (region.node.inputs.size() > 2) problem.window = region.buffer(2);
  problem.y = region.region.outputs[0];
  problem.type = region.type(0).dtype;
  const Shape& x = region.shape(0);
  problem.pitch = x[x.size() - (t.complex ? 2 : 1)];
  const Shape& y = region.body.type(region.node.outputs[0]).shape;
  for (std::size_t d = 0; d + 2 < y.size(); ++d) problem.rows *= y[d];
  if (t.step > 0) problem.frames = y[y.size() - 3];
  return problem;
}

class TransformFamily final : public OperatorFamily {
 public:
  TransformFamily() : OperatorFamily("transform", "Dft") {}

 private:
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    const TransformProblem p = problem_of(region);
    const auto size = static_cast<std::int64_t>(size_of(p.type));
    const std::int64_t length = p.transform.length;
    const auto operations = static_cast<std::int64_t>(
        std::ceil(5 * static_cast<double>(length) * std::log2(static_cast<double>(length))));
    return {element_count(region.shape(0)) * Dim(size),
            element_count(region.body.type(region.node.outputs[0]).shape) * Dim(size),
            p.rows * Dim(p.transform.complex ? operations : operations / 2)};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext&, StepT&) const override {
    const TransformProblem p = problem_of(region);
    std::vector<std::uint32_t> buffers = {p.x, p.roots};
    if (p.window) buffers.push_back(*p.window);
    buffers.push_back(p.y);
    return emitted(region, p.text(), std::move(buffers),
                   [p](const KernelRequest& request, ExprTable& exprs) {
                     return emit_transform(p, request, exprs);
                   });
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable&) const override {
    throw Error(ErrorCode::kInternal,
                fmt::format("'{}': a Dft is a matmul without kernels", region.region.name));
  }
};

}  // namespace

const KernelFamily& transform_family() {
  static const TransformFamily family;
  return family;
}

}  // namespace sinter::codegen
