// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/memory/user_memory.h"

#include <utility>

#include <sinter/allocator.h>

#include "runtime/format_error.h"

namespace sinter::runtime {

using graphs::Context;

namespace {

// Kernels access buffers with vectors of up to 16 bytes.
constexpr std::uint64_t kPointerAlignment = 16;

/// Adapts the user's allocator to the memory of one GPU.
class UserAllocator final : public graphs::DeviceAllocator {
 public:
  UserAllocator(std::shared_ptr<Allocator> allocator, int device)
      : allocator_(std::move(allocator)), device_(device) {}

  CUdeviceptr allocate(std::uint64_t bytes) noexcept override {
    return reinterpret_cast<CUdeviceptr>(
        allocator_->allocate(Memory::kDevice, device_, bytes, graphs::kDeviceAlignment));
  }
  void deallocate(CUdeviceptr address, std::uint64_t bytes) noexcept override {
    void* data = reinterpret_cast<void*>(address);  // NOLINT: the driver's addresses are integers
    allocator_->deallocate(data, Memory::kDevice, device_, bytes, graphs::kDeviceAlignment);
  }

 private:
  std::shared_ptr<Allocator> allocator_;
  int device_;
};

}  // namespace

graphs::DeviceAllocatorPtr device_allocator(const SessionOptions& options) {
  if (!options.allocator) return nullptr;
  return std::make_shared<UserAllocator>(options.allocator, options.device);
}

void check_device_pointer(const Context& context, const void* data, int said_device,
                          const char* what, const std::string& name) {
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  const int device = context.properties().index;
  const auto refuse_gpu = [&](int other) {
    throw usage_error("{} '{}' is memory of GPU {}, the session is on GPU {}", what, name, other,
                      device);
  };
  if (address % kPointerAlignment != 0)
    throw usage_error(
        "{} '{}' is device memory at {:#x}, which is not aligned to {} bytes: "
        "copy it to an aligned allocation",
        what, name, address, kPointerAlignment);
  if (said_device >= 0 && said_device != device) refuse_gpu(said_device);
  CUmemorytype type{};
  int ordinal = -1;
  const graphs::Driver& driver = context.driver();
  if (driver.pointer_get_attribute.raw(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
          CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE)
    throw usage_error("{} '{}' is given as device memory, but {:#x} is none", what, name, address);
  if (driver.pointer_get_attribute.raw(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) ==
          CUDA_SUCCESS &&
      ordinal != device)
    refuse_gpu(ordinal);
}

void check_host_pointer(const Context& context, const void* data, const char* what,
                        const std::string& name) {
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  const graphs::Driver& driver = context.driver();
  CUmemorytype type{};
  unsigned is_managed = 0;
  // The driver does not know the address: host memory.
  if (driver.pointer_get_attribute.raw(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
          CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE)
    return;
  if (driver.pointer_get_attribute.raw(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
          CUDA_SUCCESS &&
      is_managed != 0)
    return;
  throw usage_error("{} '{}' is given as host memory, but {:#x} is device memory", what, name,
                    address);
}

}  // namespace sinter::runtime
