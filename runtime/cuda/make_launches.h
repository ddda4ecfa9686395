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

/// What each of `steps` reads and writes that anything writes; `workspace`: that of libraries.
std::vector<StepMemory> memory_of(const DevicePlan& plan, const BoundShape& shape,
                                  const BufferAddresses& buffers,
                                  std::span<const StepLaunches> steps, MemoryRange workspace);

/// Called before a step of a run is bound: the addresses that it sets hold from there on.
using BeforeStep = std::function<void(std::size_t step, BufferAddresses& buffers)>;

/// Chooses kernel variants, tactics and library algorithms. May time candidates on the
/// context's stream and write arena and own output buffers doing so: nothing may be in flight.
/// Throws Error naming the step; Error(kDevice) if a step can only be done by a library that is
/// missing.
std::vector<StepLaunches> make_launches(const DevicePlan& plan, const BoundShape& shape,
                                        BufferAddresses buffers, const LibraryContext& libraries,
                                        const BeforeStep& before = {});

}  // namespace sinter::runtime
