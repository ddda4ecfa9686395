// SPDX-License-Identifier: Apache-2.0
// Composite operators by definition, in float64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"

namespace sinter::ir::reference {
namespace {

/// (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + bias over the dimensions from "axis"
/// on; without `centre` the mean is zero.
std::vector<Tensor> normalise(const Attrs& attrs, Tensors inputs, const TensorType& output,
                              bool centre) {
  const Ints& shape = inputs[0].shape();
  std::vector<double> x = inputs[0].to_doubles();
  std::size_t length = 1;
  for (auto d = static_cast<std::size_t>(attrs.get_int("axis")); d < shape.size(); ++d)
    length *= static_cast<std::size_t>(shape[d]);
  const auto n = static_cast<double>(length);
  for (std::size_t row = 0; row + length <= x.size() && length > 0; row += length) {
    double mean = 0, square = 0;
    for (std::size_t i = 0; centre && i < length; ++i) mean += x[row + i];
    mean /= n;
    for (std::size_t i = 0; i < length; ++i) square += (x[row + i] - mean) * (x[row + i] - mean);
    const double scale = 1 / std::sqrt(square / n + attrs.get_float("epsilon"));
    for (std::size_t i = 0; i < length; ++i) x[row + i] = (x[row + i] - mean) * scale;
  }
  for (std::size_t p = 1; p < inputs.size(); ++p) {
    const std::vector<double> parameter = inputs[p].to_doubles();
    StridedWalk walk(shape, broadcast_strides(inputs[p].shape(), shape));
    for (double& value : x) {
      const double factor = parameter[static_cast<std::size_t>(walk.offset())];
      value = p == 1 ? value * factor : value + factor;
      walk.next();
    }
  }
  return {Tensor::from_doubles(output.dtype, shape, x)};
}

}  // namespace

std::vector<Tensor> evaluate_layer_norm(const Attrs& attrs, Tensors inputs, Types outputs) {
  return normalise(attrs, inputs, outputs[0], true);
}

std::vector<Tensor> evaluate_rms_norm(const Attrs& attrs, Tensors inputs, Types outputs) {
  return normalise(attrs, inputs, outputs[0], false);
}

/// mean((x - mean)^2) over "axes".
std::vector<Tensor> evaluate_variance(const Attrs& attrs, Tensors inputs, Types outputs) {
  const Ints& shape = inputs[0].shape();
  const std::vector<double> x = inputs[0].to_doubles();
  Ints kept = shape;
  for (const std::int64_t axis : attrs.get_ints("axes")) kept[static_cast<std::size_t>(axis)] = 1;
  const auto rows = static_cast<std::size_t>(count_of(kept));
  const double n = static_cast<double>(x.size()) / static_cast<double>(rows);
  std::vector<double> mean(rows, 0), square(rows, 0);
  StridedWalk first(shape, broadcast_strides(kept, shape)), second = first;
  for (const double value : x) {
    mean[static_cast<std::size_t>(first.offset())] += value / n;
    first.next();
  }
  for (const double value : x) {
    const auto row = static_cast<std::size_t>(second.offset());
    square[row] += (value - mean[row]) * (value - mean[row]) / n;
    second.next();
  }
  return {Tensor::from_doubles(outputs[0].dtype, concrete_shape(outputs[0].shape), square)};
}

/// exp(x - max) / sum(exp(x - max)) along "axis".
std::vector<Tensor> evaluate_softmax(const Attrs& attrs, Tensors inputs, Types outputs) {
  const Ints& shape = inputs[0].shape();
  std::vector<double> x = inputs[0].to_doubles();
  const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
  const auto length = static_cast<std::size_t>(shape[axis]);
  const auto stride = static_cast<std::size_t>(dense_strides(shape)[axis]);
  for (std::size_t at = 0; at < x.size(); ++at) {
    if (at / stride % length != 0) continue;  // not the first element of its row
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const double value = x[at + i * stride];
      max = std::isnan(value) || value > max ? value : max;
    }
    for (std::size_t i = 0; i < length; ++i)
      sum += x[at + i * stride] = std::exp(x[at + i * stride] - max);
    for (std::size_t i = 0; i < length; ++i) x[at + i * stride] /= sum;
  }
  return {Tensor::from_doubles(outputs[0].dtype, shape, x)};
}

}  // namespace sinter::ir::reference
