// SPDX-License-Identifier: Apache-2.0
// Flags in global memory by which ChunkOperands tells ChunkStates of another launch, which runs
// beside it, that a record is there. They are zero before either starts. Nothing waits for a block
// that has not started: ChunkStates is launched when all blocks of ChunkOperands have been.
#pragma once

#include "scalar.cuh"

/// By one thread, behind a barrier of all threads that have written the record.
SINTER_DEVICE void set_flag(u32* flag) {
#ifdef __CUDACC__
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
#else
  *flag = 1;
#endif
}

/// By one thread; a barrier behind it shows the record to the others.
SINTER_DEVICE void wait_for_flag(const u32* flag) {
#ifdef __CUDACC__
  // Ten seconds, then an error.
  constexpr u32 kMostPolls = 1u << 24;
  u32 found = 0;
  for (u32 polls = 0; found == 0; ++polls) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
    if (polls == kMostPolls) __trap();
  }
#else
  emulator::wait_for_blocks([flag] { return *flag != 0; });
#endif
}
