// Host tensors on a GPU, for runs whose inputs are there already.
#pragma once

#include <memory>
#include <vector>

#include <sinter/sinter.h>

#include "ir/tensor.h"

namespace sinter::tools {

/// Owns copies of tensors in the memory of one GPU.
class DeviceCopies {
 public:
  /// Throws Error(kDevice) without such a device, or where this build has no CUDA.
  explicit DeviceCopies(int device);
  ~DeviceCopies();

  /// Copies `tensor`; the view is valid as long as this object. Throws Error(kOutOfMemory).
  MutableTensorView add(const ir::Tensor& tensor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::tools
