// SPDX-License-Identifier: Apache-2.0
#include "graphs/device.h"

#include <algorithm>
#include <array>
#include <new>

#include <fmt/format.h>

namespace sinter::graphs {
namespace {

int attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  driver.device_get_attribute(&value, which, device);
  return value;
}

DeviceProperties read_properties(const Driver& driver, int index, CUdevice device) {
  DeviceProperties properties;
  properties.index = index;
  std::array<char, 256> name{};
  driver.device_get_name(name.data(), static_cast<int>(name.size() - 1), device);
  properties.name = name.data();
  properties.major = attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  properties.minor = attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  properties.multiprocessors = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  properties.l2_bytes = static_cast<std::uint64_t>(
      std::max(0, attribute(driver, device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)));
  properties.max_shared_bytes = static_cast<std::uint64_t>(std::max(
      0, attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)));
  properties.max_threads_per_block = static_cast<std::uint64_t>(
      std::max(0, attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)));
  properties.threads_per_multiprocessor = static_cast<std::uint64_t>(
      std::max(0, attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)));
  properties.clock_hz = 1e3 * attribute(driver, device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  std::size_t total = 0;
  driver.device_total_mem(&total, device);
  properties.memory_bytes = total;
  return properties;
}

}  // namespace

std::string DeviceProperties::architecture() const { return fmt::format("sm_{}{}", major, minor); }

std::vector<DeviceProperties> enumerate_devices(const Driver& driver) {
  int count = 0;
  driver.device_get_count(&count);
  std::vector<DeviceProperties> devices;
  for (int index = 0; index < count; ++index) {
    CUdevice device = 0;
    driver.device_get(&device, index);
    devices.push_back(read_properties(driver, index, device));
  }
  return devices;
}

std::shared_ptr<const Context> Context::retain(const Driver& driver, int device) {
  int count = 0;
  driver.device_get_count(&count);
  if (count == 0)
    throw Error(ErrorCode::kDevice,
                "no NVIDIA GPU: the driver sees no device (check nvidia-smi and "
                "CUDA_VISIBLE_DEVICES)");
  if (device < 0 || device >= count)
    throw Error(ErrorCode::kDevice,
                fmt::format("there is no GPU {}: this machine has {} (numbered 0 to {})", device,
                            count, count - 1));
  CUdevice handle = 0;
  driver.device_get(&handle, device);
  return std::shared_ptr<const Context>(
      new Context(driver, handle, read_properties(driver, device, handle)));
}

Context::Context(const Driver& driver, CUdevice device, DeviceProperties properties)
    : driver_(driver), device_(device), properties_(std::move(properties)) {
  driver_.primary_ctx_retain(&handle_, device_);
}

Context::~Context() { driver_.primary_ctx_release.raw(device_); }

MemoryInfo Context::memory() const {
  const Scope scope(*this);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  driver_.mem_get_info(&free_bytes, &total_bytes);
  return {free_bytes, total_bytes};
}

Context::Scope Context::scope_nothrow() const noexcept { return Scope(*this, std::nothrow); }

Context::Scope::Scope(const Context& context) : driver_(context.driver_) {
  driver_.ctx_push_current(context.handle_);
  pushed_ = true;
}

Context::Scope::Scope(const Context& context, std::nothrow_t) noexcept : driver_(context.driver_) {
  pushed_ = driver_.ctx_push_current.raw(context.handle_) == CUDA_SUCCESS;
}

Context::Scope::~Scope() {
  CUcontext popped = nullptr;
  if (pushed_) driver_.ctx_pop_current.raw(&popped);
}

}  // namespace sinter::graphs
