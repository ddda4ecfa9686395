// SPDX-License-Identifier: Apache-2.0
// Host tensors on a GPU, for runs whose inputs are there already.
#pragma once

#include <deque>

#include <sinter/devices.h>
#include <sinter/sinter.h>

#include "ir/tensor.h"

namespace sinter::tools {

/// Owns copies of tensors in one GPU's memory.
class DeviceCopies {
 public:
  explicit DeviceCopies(int device) : device_(device) {}

  /// Copies `tensor`; the view is valid as long as this object. Throws Error(kDevice) if the device
  /// does not exist, Error(kOutOfMemory).
  MutableTensorView add(const ir::Tensor& tensor) {
    MutableTensorView view{tensor.dtype(), tensor.shape(), nullptr, Memory::kDevice, device_};
    DeviceBuffer& copy = copies_.emplace_back(device_, view.byte_count());
    if (copy.size() > 0) copy.copy_from_host(tensor.bytes().data(), copy.size());
    view.data = copy.data();
    return view;
  }

 private:
  int device_;
  std::deque<DeviceBuffer> copies_;
};

}  // namespace sinter::tools
