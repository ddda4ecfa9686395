// SPDX-License-Identifier: Apache-2.0
// The C ABI: GPUs and memory on them.
#include "runtime/c/c_handles.h"
#include "runtime/c/c_support.h"
#include "runtime/format_error.h"

namespace sinter::c {
namespace {

thread_local GpuList counted;
thread_local GpuInfo described;

}  // namespace
}  // namespace sinter::c

using namespace sinter;
using c::given;
using c::guarded;

extern "C" {

sinter_status sinter_gpu_count(size_t* count, const char** problem) {
  return guarded([&] {
    given(count, "count");
    c::counted = list_gpus();
    *count = c::counted.gpus.size();
    if (problem) *problem = c::counted.problem.c_str();
  });
}

sinter_status sinter_gpu(size_t index, sinter_gpu_info* info) {
  return guarded([&] {
    GpuList list = list_gpus();
    if (index >= list.gpus.size())
      throw usage_error("there is no GPU {}: this machine has {} of them{}{}", index,
                        list.gpus.size(), list.problem.empty() ? "" : ": ", list.problem);
    c::described = std::move(list.gpus[index]);
    sinter_gpu_info value{};
    value.name = c::described.name.c_str();
    value.architecture = c::described.architecture.c_str();
    value.multiprocessors = c::described.multiprocessors;
    value.memory_bytes = c::described.memory_bytes;
    value.l2_bytes = c::described.l2_bytes;
    c::write_struct(info, value, "info");
  });
}

sinter_status sinter_device_buffer_create(int32_t device, size_t bytes,
                                          sinter_device_buffer** buffer) {
  return guarded([&] {
    given(buffer, "buffer");
    *buffer = c::device_buffers().add(std::make_shared<DeviceBuffer>(device, bytes));
  });
}

void sinter_device_buffer_free(sinter_device_buffer* buffer) { c::device_buffers().remove(buffer); }

void* sinter_device_buffer_data(const sinter_device_buffer* buffer) {
  const auto object = c::device_buffers().find(buffer);
  return object ? object->data() : nullptr;
}

sinter_status sinter_device_buffer_write(sinter_device_buffer* buffer, size_t offset,
                                         const void* source, size_t bytes) {
  return guarded([&] { c::device_buffers().at(buffer)->copy_from_host(source, bytes, offset); });
}

sinter_status sinter_device_buffer_read(const sinter_device_buffer* buffer, size_t offset,
                                        void* target, size_t bytes) {
  return guarded([&] { c::device_buffers().at(buffer)->copy_to_host(target, bytes, offset); });
}

}  // extern "C"
