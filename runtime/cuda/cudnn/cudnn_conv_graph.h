// SPDX-License-Identifier: Apache-2.0
// A convolution as an operation graph of cuDNN.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/cuda/cudnn/conv_problem.h"
#include "runtime/cuda/cudnn/cudnn_descriptor.h"

namespace sinter::runtime {

/// The device whose engines are asked for: a handle's, or one that a finalized descriptor of device
/// properties describes (cuDNN 9.8), which needs no GPU.
struct CudnnTarget {
  std::shared_ptr<const Cudnn> library;
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t device = nullptr;  // set: `handle` is not used

  /// Sets the attribute for whichever of the two it is.
  void set_on(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t handle_attribute,
              cudnnBackendAttributeName_t device_attribute) const;
};

/// Unique ids of the tensors that a convolution reads and writes; others are inside its graph.
enum class ConvRole : std::int64_t { kInput = 1, kWeight, kBias, kResidual, kOutput };

/// Convolution, + residual, + bias, activation: in this order, which is that of cuDNN's compiled
/// engines (its runtime-compiled ones take any). Values between the operations are float32, or
/// float64 for float64, and never in memory.
class ConvGraph {
 public:
  ConvGraph(const CudnnTarget& target, const ConvProblem& problem);

  const CudnnDescriptor& descriptor() const { return graph_; }
  /// Constants of the activation, passed by their address on the host.
  struct Scalar {
    std::int64_t id = 0;
    double wide = 0;  // of float64 graphs
    float narrow = 0;
    bool is_wide = false;
    const void* address() const { return is_wide ? static_cast<const void*>(&wide) : &narrow; }
  };
  const std::vector<Scalar>& scalars() const { return scalars_; }

 private:
  std::deque<CudnnDescriptor> parts_;  // what the operations refer to
  std::vector<Scalar> scalars_;
  std::vector<CudnnDescriptor> operations_;
  CudnnDescriptor graph_;
};

}  // namespace sinter::runtime
