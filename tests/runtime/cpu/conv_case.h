// SPDX-License-Identifier: Apache-2.0
// Convolutions as plans, and what they must give: for the fake cuDNN and for a GPU.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/runtime/plan/plan_builder.h"

namespace sinter::testing {

/// Lists have one entry for each spatial dimension.
struct ConvCase {
  const char* name = "";
  bool channels_last = true;
  std::int64_t batch = 1, channels = 1, results = 1, group = 1;
  std::vector<std::int64_t> sizes, kernel, strides, dilations, pads_begin, pads_end;
  bool bias = false, residual = false;
  fb::Activation activation = fb::Activation::None;
  float a = 0, b = 0;

  std::size_t rank() const { return sizes.size(); }
  std::int64_t result_size(std::size_t d) const {
    const std::int64_t window = dilations[d] * (kernel[d] - 1) + 1;
    return (sizes[d] + pads_begin[d] + pads_end[d] - window) / strides[d] + 1;
  }
  /// The sizes of a tensor as it is stored.
  std::vector<std::int64_t> stored(std::int64_t first, std::int64_t channel,
                                   const std::vector<std::int64_t>& spatial) const {
    std::vector<std::int64_t> shape{first};
    if (!channels_last) shape.push_back(channel);
    shape.insert(shape.end(), spatial.begin(), spatial.end());
    if (channels_last) shape.push_back(channel);
    return shape;
  }
  std::vector<std::int64_t> input_shape() const { return stored(batch, channels, sizes); }
  std::vector<std::int64_t> weight_shape() const {
    return stored(results, channels / group, kernel);
  }
  std::vector<std::int64_t> output_shape() const {
    std::vector<std::int64_t> spatial;
    for (std::size_t d = 0; d < rank(); ++d) spatial.push_back(result_size(d));
    return stored(batch, results, spatial);
  }

  /// The step, without its buffers.
  fb::ConvStepT step(PlanBuilder& builder) const {
    const auto constants = [&](const std::vector<std::int64_t>& values) {
      std::vector<Id> ids;
      for (const std::int64_t value : values) ids.push_back(builder.constant(value));
      return ids;
    };
    const auto numbers = [](const std::vector<std::int64_t>& values) {
      return std::vector<std::uint64_t>(values.begin(), values.end());
    };
    fb::ConvStepT work;
    work.input_shape = constants(input_shape());
    work.weight_shape = constants(weight_shape());
    work.output_shape = constants(output_shape());
    work.strides = numbers(strides);
    work.dilations = numbers(dilations);
    work.pads_begin = numbers(pads_begin);
    work.pads_end = numbers(pads_end);
    work.group = static_cast<std::uint64_t>(group);
    work.channels_last = channels_last;
    work.activation = activation;
    work.activation_a = a;
    work.activation_b = b;
    return work;
  }

  double activate(double x) const {
    const auto hard = [&] { return std::fmax(std::fmin(a * x + b, 1.0), 0.0); };
    switch (activation) {
      case fb::Activation::None: return x;
      case fb::Activation::Relu: return std::fmax(x, 0.0);
      case fb::Activation::GeluErf: return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
      case fb::Activation::GeluTanh:
        return 0.5 * x *
               (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
      case fb::Activation::Sigmoid: return 1 / (1 + std::exp(-x));
      case fb::Activation::Tanh: return std::tanh(x);
      case fb::Activation::Silu: return x / (1 + std::exp(-x));
      case fb::Activation::HardSigmoid: return hard();
      case fb::Activation::HardSwish: return x * hard();
      case fb::Activation::LeakyRelu: return x < 0 ? a * x : x;
      case fb::Activation::Clip: return std::fmin(std::fmax(x, a), static_cast<double>(b));
    }
    return NAN;
  }

  /// The result as it is stored; `biases` and `residuals` are empty if there are none.
  std::vector<float> expected(const std::vector<float>& x, const std::vector<float>& w,
                              const std::vector<float>& biases,
                              const std::vector<float>& residuals) const {
    // Three spatial dimensions for all: those that are missing have one element.
    using Three = std::array<std::int64_t, 3>;
    const auto three = [&](const std::vector<std::int64_t>& given, std::int64_t missing) {
      Three result{missing, missing, missing};
      std::copy(given.begin(), given.end(), result.end() - static_cast<std::ptrdiff_t>(rank()));
      return result;
    };
    std::vector<std::int64_t> result_sizes;
    for (std::size_t d = 0; d < rank(); ++d) result_sizes.push_back(result_size(d));
    const Three in = three(sizes, 1), taps = three(kernel, 1), out = three(result_sizes, 1),
                stride = three(strides, 1), dilation = three(dilations, 1),
                pad = three(pads_begin, 0);
    const auto at = [&](std::int64_t n, std::int64_t c, std::int64_t all, const Three& p,
                        const Three& extent) {
      std::int64_t index = n;
      if (!channels_last) index = index * all + c;
      for (std::size_t d = 0; d < 3; ++d) index = index * extent[d] + p[d];
      if (channels_last) index = index * all + c;
      return static_cast<std::size_t>(index);
    };
    const auto each = [](const Three& extent, const auto& visit) {
      Three p{};
      for (p[0] = 0; p[0] < extent[0]; ++p[0])
        for (p[1] = 0; p[1] < extent[1]; ++p[1])
          for (p[2] = 0; p[2] < extent[2]; ++p[2]) visit(p);
    };
    const std::int64_t depth = channels / group;
    std::vector<float> y(static_cast<std::size_t>(batch * results * out[0] * out[1] * out[2]));
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t m = 0; m < results; ++m)
        each(out, [&](const Three& to) {
          double sum = 0;
          each(taps, [&](const Three& tap) {
            Three from{};
            for (std::size_t d = 0; d < 3; ++d) {
              from[d] = to[d] * stride[d] + tap[d] * dilation[d] - pad[d];
              if (from[d] < 0 || from[d] >= in[d]) return;
            }
            for (std::int64_t c = 0; c < depth; ++c)
              sum += static_cast<double>(
                         x[at(n, m / (results / group) * depth + c, channels, from, in)]) *
                     w[at(m, c, depth, tap, taps)];
          });
          const std::size_t place = at(n, m, results, to, out);
          if (!biases.empty()) sum += biases[static_cast<std::size_t>(m)];
          if (!residuals.empty()) sum += residuals[place];
          y[place] = static_cast<float>(activate(sum));
        });
    return y;
  }
};

}  // namespace sinter::testing
