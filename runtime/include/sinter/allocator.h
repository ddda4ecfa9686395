// SPDX-License-Identifier: Apache-2.0
// Memory of sessions from a program's own pool.
#pragma once

#include <cstddef>

#include <sinter/export.h>
#include <sinter/tensor.h>

namespace sinter {

/// Gives a session its host and device memory: arena, workspaces, inputs, outputs, states. Not from
/// here are weights, which sessions share, page-locked memory that copies to and from a GPU go
/// through, operands that the CPU's convolutions convert to another layout, and small objects.
///
/// Members are called by the thread that uses the session, also in a session's constructor and
/// destructor, and by one that releases the session's last tensor of to_dlpack after the session;
/// an allocator of several sessions is called by several threads at once. They must not throw and
/// must not call the session. A run whose shape was seen before calls neither.
class SINTER_API Allocator {
 public:
  virtual ~Allocator();

  /// `bytes` (not 0) of memory aligned to `alignment`, a power of two, in host memory or on GPU
  /// `device`. Null: there is none, which the session reports as Error(kOutOfMemory).
  virtual void* allocate(Memory memory, int device, std::size_t bytes,
                         std::size_t alignment) noexcept = 0;
  /// Takes back what allocate gave for the same arguments. No work in flight uses it.
  virtual void deallocate(void* data, Memory memory, int device, std::size_t bytes,
                          std::size_t alignment) noexcept = 0;
};

}  // namespace sinter
