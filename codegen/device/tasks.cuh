// SPDX-License-Identifier: Apache-2.0
// Tasks of a persistent kernel (codegen/tasks). Blocks, all resident, take tasks in the order of
// levels; a task waits for the level in front.
#pragma once

#include "scalar.cuh"

#ifdef __CUDACC__
#define SINTER_TASK static __device__ __noinline__ void
#else
#define SINTER_TASK static void
#endif

/// A buffer of the plan, as a task's parameter takes it.
struct TaskBuffer {
  void* address;
  template <class T>
  SINTER_DEVICE operator T*() const {
    return static_cast<T*>(address);
  }
};

/// Waits until `parts` parts of a level have ended; all threads of a block together.
struct TaskWait {
  const u32* ended;
  u32 parts;  // 0: nothing

  SINTER_DEVICE void operator()() const {
    if (parts == 0) return;
    if (threadIdx.x == 0) {
#ifdef __CUDACC__
      // Ten seconds, then an error.
      constexpr u32 kMostPolls = 1u << 24;
      u32 found = 0;
      for (u32 polls = 0; found < parts; ++polls) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(ended) : "memory");
        if (polls == kMostPolls) __trap();
      }
#else
      emulator::wait_for_blocks([this] { return *ended >= parts; });
#endif
    }
    __syncthreads();
  }
};

/// The first task of a step that this block takes; task 0 is block `first`'s.
SINTER_DEVICE u32 first_task(u32 first) { return (blockIdx.x + gridDim.x - first) % gridDim.x; }

/// This block has run its tasks of a step: others see what it has written.
SINTER_DEVICE void end_part(u32* ended) {
  __syncthreads();
  if (threadIdx.x != 0) return;
#ifdef __CUDACC__
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(ended) : "memory");
#else
  ++*ended;
#endif
}
