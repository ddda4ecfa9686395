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
  std::string architecture;  // "sm_90": what a plan for it is compiled for
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
};

struct GpuList {
  std::vector<GpuInfo> gpus;
  std::string problem;     // if there are none: why, and how to get one
  int driver_version = 0;  // the CUDA that the driver supports, 13000 for 13.0; 0: no driver
};

/// The GPUs that sessions can be made on. Creates no context on any.
SINTER_API GpuList list_gpus();

/// Memory on a GPU, aligned to 256 bytes, freed with this object; for programs that do not link
/// CUDA themselves. Copies wait until they are done. An object is used by one thread at a time.
class SINTER_API DeviceBuffer {
 public:
  /// Throws Error(kDevice) without such a GPU, Error(kOutOfMemory).
  DeviceBuffer(int device, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&&) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept;

  /// A device address; null if there are no bytes.
  void* data() const;
  std::size_t size() const;
  int device() const;

  /// Throw Error(kUsage) beyond the end, Error(kDevice).
  void copy_from_host(const void* source, std::size_t bytes, std::size_t offset = 0);
  void copy_to_host(void* target, std::size_t bytes, std::size_t offset = 0) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter
