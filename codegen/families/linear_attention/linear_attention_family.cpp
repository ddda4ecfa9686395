// SPDX-License-Identifier: Apache-2.0
// Regions of one LinearAttention.
#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/linear_attention/linear_attention_call.h"
#include "codegen/families/operator_family.h"

namespace sinter::codegen {
namespace {

class LinearAttentionFamily final : public OperatorFamily {
 public:
  LinearAttentionFamily() : OperatorFamily("linear_attention", "LinearAttention") {}

 private:
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    return linear_attention_cost(region);
  }
  Tactic kernels(const OperatorRegion&, PlanContext&, StepT&) const override {
    throw Error(ErrorCode::kInternal, "a LinearAttention for a target that has none");
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    return linear_attention_call(region, exprs);
  }
};

}  // namespace

const KernelFamily& linear_attention_family() {
  static const LinearAttentionFamily family;
  return family;
}

}  // namespace sinter::codegen
