// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/operator_step.h"

#include <algorithm>

#include "runtime/format_error.h"

namespace sinter::runtime::cpu {

OperatorStep::OperatorStep(const plan::fb::PlanT& plan, const plan::fb::OperatorStepT& step,
                           const BoundShape& shape, PackedWeights& weights, int threads,
                           const RankPlace& ranks)
    : step_(&step) {
  const auto all = operator_kernels();
  const auto found = std::ranges::find(all, step.operator_name, &OperatorKernel::name);
  const plan::OperatorDef* def = plan::find_operator(step.operator_name);
  if (found == all.end() || def == nullptr)
    throw internal_error("operator '{}' has no kernel", step.operator_name);
  const auto [sizes, wrong] = plan::bind_sizes(*def, step, shape.expressions);
  if (!wrong.empty()) throw internal_error("sizes that were not checked: {}", wrong);
  prepared_ = (*found)->prepare({plan, step, sizes, weights, threads, ranks});
}

}  // namespace sinter::runtime::cpu
