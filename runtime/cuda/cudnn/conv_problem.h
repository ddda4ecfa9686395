// SPDX-License-Identifier: Apache-2.0
// A convolution with sizes bound, in the terms of a library that takes strides. No CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

/// Sizes and strides (in elements) in the order n, c, then spatial, however the elements lie.
struct ConvTensor {
  std::vector<std::int64_t> sizes, strides;

  bool operator==(const ConvTensor&) const = default;
};

/// output = activation(input * weight + bias + residual). The bias has one element per output
/// channel, the residual is stored like the output. With fewer than two spatial dimensions one of
/// size 1 is put in front, since libraries know convolutions of two and three.
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
  /// True if the result has no elements.
  bool is_empty() const;
  /// True if its sums are over nothing: no input element or no channel is there to be read.
  bool sums_nothing() const;
  /// Equal for problems that an engine suits alike (addresses apart), and readable.
  std::string key() const;
};

/// Sizes that do not belong together have been refused before, when the plan's shape was bound.
ConvProblem bind_conv(const plan::fb::PlanT& plan, const plan::fb::ConvStepT& step,
                      std::span<const std::int64_t> expressions);

}  // namespace sinter::runtime
