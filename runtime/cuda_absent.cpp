// SPDX-License-Identifier: Apache-2.0
// Replaces runtime/cuda in a build without CUDA headers: refuses CUDA plans.
#include <sinter/devices.h>

#include "runtime/executor.h"
#include "runtime/format_error.h"

namespace sinter {
namespace {

constexpr const char* kNoCuda =
    "this build of Sinter is CPU-only: build it with a CUDA toolkit >= 12.8 ('tools/setup --cuda' "
    "gets the needed parts)";

}  // namespace

GpuList list_gpus() { return {{}, kNoCuda, 0}; }

struct DeviceBuffer::Impl {};
DeviceBuffer::DeviceBuffer(int, std::size_t) { throw device_error(kNoCuda); }
void* DeviceBuffer::data() const { return nullptr; }
std::size_t DeviceBuffer::size() const { return 0; }
int DeviceBuffer::device() const { return -1; }
void DeviceBuffer::copy_from_host(const void*, std::size_t, std::size_t) {}
void DeviceBuffer::copy_to_host(void*, std::size_t, std::size_t) const {}
DeviceBuffer::~DeviceBuffer() = default;
DeviceBuffer::DeviceBuffer(DeviceBuffer&&) noexcept = default;
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&&) noexcept = default;

namespace runtime {

std::unique_ptr<Executor> make_cuda_executor(std::shared_ptr<const plan::PlanData>,
                                             const SessionOptions&,
                                             std::shared_ptr<const HostOperators>) {
  throw device_error(
      "the plan is for CUDA, but this build of Sinter is CPU-only: build it with a CUDA toolkit >= "
      "12.8 ('tools/setup --cuda' gets the needed parts), or compile the model with --target=cpu");
}

}  // namespace runtime
}  // namespace sinter
