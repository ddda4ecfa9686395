// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/host_step.h"

#include <utility>

namespace sinter::runtime::cpu {

HostStep::HostStep(const plan::PlanData& plan, const plan::fb::HostStepT& step,
                   const BoundShape& shape, const HostOperators& operators, int threads,
                   std::shared_ptr<Allocator> allocator)
    : call_(plan.meta, step, shape.expressions, operators),
      workspace_(std::move(allocator)),
      threads_(threads) {
  if (call_.workspace_bytes() > 0)
    workspace_.reserve(call_.workspace_bytes(), "the workspace of operator", step.operator_name);
}

void HostStep::run(std::span<std::byte* const> buffers, std::span<std::byte* const>) {
  call_.bind(buffers, workspace_.data());
  call_.run(threads_);
}

}  // namespace sinter::runtime::cpu
