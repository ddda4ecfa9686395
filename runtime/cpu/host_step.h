// SPDX-License-Identifier: Apache-2.0
// Operators of the user's, computed by a function of a library.
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

/// A HostStep of one bound shape.
class HostStep {
 public:
  /// Asks the library for its sizes: see HostCall. `operators` outlive the step.
  HostStep(const plan::PlanData& plan, const plan::fb::HostStepT& step, const BoundShape& shape,
           const HostOperators& operators, int threads, std::shared_ptr<Allocator> allocator);

  /// Of memory that the function works in.
  std::size_t own_bytes() const { return workspace_.capacity(); }
  /// Throws Error(kDevice) with what the function says.
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  HostCall call_;
  HostBuffer workspace_;
  int threads_;
};

}  // namespace sinter::runtime::cpu
