// SPDX-License-Identifier: Apache-2.0
// GPUs and device memory for programs that do not link CUDA.

#include <sinter/devices.h>

#include "graphs/device.h"
#include "graphs/memory.h"
#include "graphs/stream.h"
#include "runtime/format_error.h"

namespace sinter {

GpuList list_gpus() {
  GpuList list;
  try {
    const graphs::Driver& driver = graphs::Driver::system();
    list.driver_version = driver.version();
    for (const auto& gpu : graphs::enumerate_devices(driver))
      list.gpus.push_back({gpu.index, gpu.name, gpu.architecture(), gpu.multiprocessors,
                           gpu.memory_bytes, gpu.l2_bytes});
    if (list.gpus.empty()) list.problem = "the NVIDIA driver sees no GPU";
  } catch (const Error& error) {
    list.problem = error.what();
  }
  return list;
}

struct DeviceBuffer::Impl {
  Impl(int device, std::size_t bytes)
      : context(graphs::Context::retain(graphs::Driver::system(), device)),
        stream(context),
        memory(context, bytes) {}

  graphs::ContextPtr context;
  graphs::Stream stream;
  graphs::DeviceMemory memory;
};

DeviceBuffer::DeviceBuffer(int device, std::size_t bytes)
    : impl_(std::make_unique<Impl>(device, bytes)) {}

void* DeviceBuffer::data() const {
  return impl_ ? reinterpret_cast<void*>(impl_->memory.address()) : nullptr;
}
std::size_t DeviceBuffer::size() const { return impl_ ? impl_->memory.size() : 0; }
int DeviceBuffer::device() const { return impl_ ? impl_->context->properties().index : -1; }

namespace {

void check_range(std::size_t size, std::size_t bytes, std::size_t offset) {
  if (offset > size || bytes > size - offset)
    throw usage_error("{} bytes at {} are outside a buffer of {} bytes", bytes, offset, size);
}

}  // namespace

void DeviceBuffer::copy_from_host(const void* source, std::size_t bytes, std::size_t offset) {
  check_range(size(), bytes, offset);
  if (bytes == 0) return;
  const graphs::Context::Scope scope(*impl_->context);
  impl_->context->driver().memcpy_htod_async(impl_->memory.address() + offset, source, bytes,
                                             impl_->stream.handle());
  impl_->stream.synchronize();
}

void DeviceBuffer::copy_to_host(void* target, std::size_t bytes, std::size_t offset) const {
  check_range(size(), bytes, offset);
  if (bytes == 0) return;
  const graphs::Context::Scope scope(*impl_->context);
  impl_->context->driver().memcpy_dtoh_async(target, impl_->memory.address() + offset, bytes,
                                             impl_->stream.handle());
  impl_->stream.synchronize();
}

DeviceBuffer::~DeviceBuffer() = default;
DeviceBuffer::DeviceBuffer(DeviceBuffer&&) noexcept = default;
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&&) noexcept = default;

}  // namespace sinter
