// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/built_plan.h"

#include <cstdint>
#include <utility>

#include "runtime/plan/plan_data.h"

namespace sinter::tools {

Plan load_built(const codegen::CompiledPlan& plan) {
  return Plan::from_memory(plan::serialize_plan(plan.parts));
}

std::vector<BindingInfo> describe_inputs(const ir::Graph& graph) {
  std::vector<BindingInfo> inputs;
  for (const auto id : graph.inputs()) {
    const auto& value = graph.value(id);
    BindingInfo info{value.name, value.type.dtype, {}};
    for (const auto& dim : value.type.shape) {
      const auto low = ir::lower_bound(dim, graph.ranges());
      const auto high = ir::upper_bound(dim, graph.ranges());
      info.shape.push_back({dim.to_string(), low.value_or(0), high.value_or(INT64_MAX)});
    }
    inputs.push_back(std::move(info));
  }
  return inputs;
}

}  // namespace sinter::tools
