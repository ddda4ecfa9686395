// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine, and memory on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinter/export.h>

namespace sinter {

struct GpuInfo {
  int index = 0;
  std::string name;
  std::string architecture;  // "sm_90": the architecture that plans are compiled for
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
};

struct GpuList {
  std::vector<GpuInfo> gpus;
  std::string problem;     // if the list is empty: the reason, and the remedy
  int driver_version = 0;  // the CUDA version that the driver supports, 13000 for 13.0; 0: no
                           // driver
};

/// Lists the GPUs that can run sessions. Creates no context on any GPU.
SINTER_API GpuList list_gpus();

/// Memory on a GPU, aligned to 256 bytes, freed by the destructor; for programs that do not link
/// CUDA themselves. Copies are synchronous. Not thread-safe: one thread at a time uses an object.
class SINTER_API DeviceBuffer {
 public:
  /// Throws Error(kDevice) if the GPU does not exist, and Error(kOutOfMemory).
  DeviceBuffer(int device, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&&) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept;

  /// Device address; null for a size of 0.
  void* data() const;
  std::size_t size() const;
  int device() const;

  /// Throw Error(kUsage) for a range beyond the end, Error(kDevice) for a failed copy.
  void copy_from_host(const void* source, std::size_t bytes, std::size_t offset = 0);
  void copy_to_host(void* target, std::size_t bytes, std::size_t offset = 0) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter
