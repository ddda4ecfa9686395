// SPDX-License-Identifier: Apache-2.0
// A convolution with bound sizes, as sizes and strides for a library. No CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

/// Sizes and strides (in elements) in the order n, c, spatial, independent of the memory layout.
struct ConvTensor {
  std::vector<std::int64_t> sizes, strides;

  bool operator==(const ConvTensor&) const = default;
};

/// output = activation(input * weight + bias + residual). The bias has one element per output
/// channel; the residual has the output's layout. Libraries support 2 and 3 spatial dimensions, so
/// a convolution with 1 gets a leading dimension of size 1.
struct ConvProblem {
  DType dtype = DType::kFloat32;
  ConvTensor input, weight, output;  // weight: m, c / group, then the kernel
  bool channels_last = false;
  std::vector<std::int64_t> strides, dilations, pads_begin, pads_end;
  bool has_bias = false, has_residual = false;
  plan::fb::Activation activation = plan::fb::Activation::None;
  float activation_a = 0, activation_b = 0;
  plan::fb::MathMode math = plan::fb::MathMode::Default;

  std::int64_t group() const { return weight.sizes[1] > 0 ? input.sizes[1] / weight.sizes[1] : 1; }
  /// True if the output is empty.
  bool is_empty() const;
  /// True if each sum is empty: there are no input elements or no channels.
  bool sums_nothing() const;
  /// Equal for problems that can share an engine (apart from addresses); human-readable.
  std::string key() const;
};

/// Inconsistent sizes were refused when the plan's shape was bound.
ConvProblem bind_conv(const plan::fb::PlanT& plan, const plan::fb::ConvStepT& step,
                      std::span<const std::int64_t> expressions);

}  // namespace sinter::runtime
