// SPDX-License-Identifier: Apache-2.0
// Binds the steps of a plan to sizes and addresses.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/cuda/device_plan.h"
#include "runtime/cuda/launch_list.h"
#include "runtime/cuda/step_order.h"
#include "runtime/executor.h"

namespace sinter::runtime {

/// Memory that each of `steps` reads and writes, constants excluded. `workspace`: the libraries'.
std::vector<StepMemory> memory_of(const DevicePlan& plan, const BoundShape& shape,
                                  const BufferAddresses& buffers,
                                  std::span<const StepLaunches> steps, MemoryRange workspace);

/// Called before a step is bound; the addresses that it sets are valid from that step on.
using BeforeStep = std::function<void(std::size_t step, BufferAddresses& buffers)>;

/// Chooses kernel variants, tactics and library algorithms. May time candidates on the context's
/// stream, which overwrites the arena and the session's output buffers: no run may be in flight.
/// Throws Error naming the step; Error(kDevice) if a step needs a missing library.
std::vector<StepLaunches> make_launches(const DevicePlan& plan, const BoundShape& shape,
                                        BufferAddresses buffers, const LibraryContext& libraries,
                                        const BeforeStep& before = {});

}  // namespace sinter::runtime
