// SPDX-License-Identifier: Apache-2.0
// An interface for a session's memory from the program's own pool.
#pragma once

#include <cstddef>

#include <sinter/export.h>
#include <sinter/tensor.h>

namespace sinter {

/// Gives a session its host and device memory: arena, workspaces, inputs, outputs and states. Four
/// kinds of memory do not come from here: weights, which sessions share; the page-locked staging
/// buffers of copies to and from a GPU; operands that the CPU's convolutions convert to another
/// layout; small objects.
///
/// The thread that uses the session calls the members, also in the session's constructor and
/// destructor. If a tensor of to_dlpack outlives the session, the thread that releases the last
/// such tensor calls them. An allocator of several sessions must be thread-safe. The members must
/// not throw and must not call the session. A run of a shape seen before calls neither.
class SINTER_API Allocator {
 public:
  virtual ~Allocator();

  /// Returns `bytes` (not 0) of memory aligned to `alignment`, a power of two, in host memory or on
  /// GPU `device`. Null means that memory is exhausted; the session throws Error(kOutOfMemory).
  virtual void* allocate(Memory memory, int device, std::size_t bytes,
                         std::size_t alignment) noexcept = 0;
  /// Frees what allocate returned for the same arguments. No work in flight uses the memory.
  virtual void deallocate(void* data, Memory memory, int device, std::size_t bytes,
                          std::size_t alignment) noexcept = 0;
};

}  // namespace sinter
