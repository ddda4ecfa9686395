// SPDX-License-Identifier: Apache-2.0
// A convolution as a cuDNN operation graph.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/cuda/cudnn/conv_problem.h"
#include "runtime/cuda/cudnn/cudnn_descriptor.h"

namespace sinter::runtime {

/// The device whose engines are queried: the handle's, or one described by a finalized descriptor
/// of device properties (cuDNN 9.8), which needs no GPU.
struct CudnnTarget {
  std::shared_ptr<const Cudnn> library;
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t device = nullptr;  // if set, `handle` is unused

  /// Sets the attribute of the handle or of the device properties.
  void set_on(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t handle_attribute,
              cudnnBackendAttributeName_t device_attribute) const;
};

/// Unique ids of a convolution's inputs and outputs; other tensors are virtual.
enum class ConvRole : std::int64_t { kInput = 1, kWeight, kBias, kResidual, kOutput };

/// Operations in this order: convolution, + residual, + bias, activation. cuDNN's precompiled
/// engines require it; its runtime-compiled ones take any order. Intermediate values are float32,
/// or float64 for float64, and never in memory.
class ConvGraph {
 public:
  ConvGraph(const CudnnTarget& target, const ConvProblem& problem);

  const CudnnDescriptor& descriptor() const { return graph_; }
  /// Constants of the activation, passed by host address.
  struct Scalar {
    std::int64_t id = 0;
    double wide = 0;  // for float64 graphs
    float narrow = 0;
    bool is_wide = false;
    const void* address() const { return is_wide ? static_cast<const void*>(&wide) : &narrow; }
  };
  const std::vector<Scalar>& scalars() const { return scalars_; }

 private:
  std::deque<CudnnDescriptor> parts_;  // descriptors to which the operations refer
  std::vector<Scalar> scalars_;
  std::vector<CudnnDescriptor> operations_;
  CudnnDescriptor graph_;
};

}  // namespace sinter::runtime
