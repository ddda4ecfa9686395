#include "tools/compiler/run/device_copies.h"

namespace sinter::tools {

MutableTensorView DeviceCopies::add(const ir::Tensor& tensor) {
  MutableTensorView view{tensor.dtype(), tensor.shape(), nullptr, Memory::kDevice, device_};
  const DeviceBuffer& copy = copies_.emplace_back(device_, view.byte_count());
  if (copy.size() > 0) copies_.back().copy_from_host(tensor.bytes().data(), copy.size());
  view.data = copy.data();
  return view;
}

}  // namespace sinter::tools
