// SPDX-License-Identifier: Apache-2.0
// Custom operators, computed by a function of the user's library.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <sinter/allocator.h>

#include "runtime/cpu/host_buffer.h"
#include "runtime/executor.h"
#include "runtime/operators/host_operators.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A HostStep for one bound shape.
class HostStep {
 public:
  /// Asks the library for sizes: see HostCall. `operators` must outlive the step.
  HostStep(const plan::PlanData& plan, const plan::fb::HostStepT& step, const BoundShape& shape,
           const HostOperators& operators, int threads, std::shared_ptr<Allocator> allocator);

  /// Bytes of the function's workspace.
  std::size_t own_bytes() const { return workspace_.capacity(); }
  /// Throws Error(kDevice) with the function's message.
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  HostCall call_;
  HostBuffer workspace_;
  int threads_;
};

}  // namespace sinter::runtime::cpu
