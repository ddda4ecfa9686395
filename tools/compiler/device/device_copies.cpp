#include "tools/compiler/device/device_copies.h"

#include <sinter/error.h>

#ifdef SINTER_WITH_CUDA
#include "graphs/device.h"
#include "graphs/driver.h"
#include "graphs/memory.h"
#include "graphs/stream.h"
#endif

namespace sinter::tools {

#ifdef SINTER_WITH_CUDA

struct DeviceCopies::Impl {
  explicit Impl(int device)
      : context(graphs::Context::retain(graphs::Driver::system(), device)), stream(context) {}

  graphs::ContextPtr context;
  graphs::Stream stream;
  std::vector<graphs::DeviceMemory> copies;
};

DeviceCopies::DeviceCopies(int device) : impl_(std::make_unique<Impl>(device)) {}

MutableTensorView DeviceCopies::add(const ir::Tensor& tensor) {
  MutableTensorView view{tensor.dtype(), tensor.shape()};
  const graphs::Context::Scope scope(*impl_->context);
  const graphs::DeviceMemory& copy =
      impl_->copies.emplace_back(impl_->context, static_cast<std::uint64_t>(view.byte_count()));
  if (copy.size() > 0) {
    impl_->context->driver().memcpy_htod_async(copy.address(), tensor.bytes().data(), copy.size(),
                                               impl_->stream.handle());
    impl_->stream.synchronize();
  }
  view.data = reinterpret_cast<void*>(copy.address());
  view.memory = Memory::kDevice;
  return view;
}

#else

struct DeviceCopies::Impl {};

DeviceCopies::DeviceCopies(int) {
  throw Error(ErrorCode::kDevice,
              "this build is CPU-only: inputs cannot be put on a GPU; leave out --deviceIo");
}

MutableTensorView DeviceCopies::add(const ir::Tensor&) { return {}; }

#endif

DeviceCopies::~DeviceCopies() = default;

}  // namespace sinter::tools
