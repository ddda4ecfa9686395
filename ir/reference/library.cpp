// SPDX-License-Identifier: Apache-2.0
// Matmuls and convolutions, in float64 (integer arithmetic wraps at its width).
#include <Eigen/Core>
#include <algorithm>

#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"
#include "ir/reference/windows.h"
#include "ir/scalar_math.h"
#include "ir/scale_format.h"

namespace sinter::ir::reference {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using ConstMatrix = Eigen::Map<const Matrix<T>>;

/// Every matmul of the broadcast batch, row-major.
template <typename T>
std::vector<T> multiply_batches(const std::vector<T>& a, const Ints& a_shape,
                                const std::vector<T>& b, const Ints& b_shape, const Ints& shape) {
  const std::int64_t m = a_shape[a_shape.size() - 2], k = a_shape.back(), n = b_shape.back();
  const Ints batch(shape.begin(), shape.end() - 2);
  const auto matrix_strides = [&](const Ints& own, std::int64_t size) {
    auto strides = broadcast_strides({own.begin(), own.end() - 2}, batch);
    for (std::int64_t& stride : strides) stride *= size;
    return strides;
  };
  StridedWalk from_a(batch, matrix_strides(a_shape, m * k));
  StridedWalk from_b(batch, matrix_strides(b_shape, k * n));
  std::vector<T> result(static_cast<std::size_t>(count_of(shape)));
  const std::int64_t products = count_of(batch);
  for (std::int64_t i = 0; i < products; ++i, from_a.next(), from_b.next())
    Eigen::Map<Matrix<T>>(result.data() + i * m * n, m, n).noalias() =
        ConstMatrix<T>(a.data() + from_a.offset(), m, k) *
        ConstMatrix<T>(b.data() + from_b.offset(), k, n);
  return result;
}

/// The values of a tensor with its channels moved from last to second (`to_last`: the reverse).
/// `shape` is the tensor's, and becomes the result's.
std::vector<double> with_channels_moved(std::vector<double> values, Ints& shape, bool to_last) {
  Ints strides = dense_strides(shape);
  for (auto* list : {&shape, &strides}) {
    const auto first = list->begin() + 1;
    std::rotate(first, to_last ? first + 1 : list->end() - 1, list->end());
  }
  std::vector<double> result(values.size());
  StridedWalk from(shape, strides);
  for (std::size_t i = 0; i < result.size(); ++i, from.next())
    result[i] = values[static_cast<std::size_t>(from.offset())];
  return result;
}

struct ConvShape {
  Ints in, out;  // spatial
  Windows windows;
};

/// Columns [channels * kernel, windows] of one image's `channels` planes; zeros outside.
Matrix<double> unfold(const double* image, std::int64_t channels, const ConvShape& shape) {
  const std::int64_t plane = count_of(shape.in), windows = count_of(shape.out);
  const std::int64_t taps = count_of(shape.windows.kernel);
  const Ints in_strides = dense_strides(shape.in), out_strides = dense_strides(shape.out),
             tap_strides = dense_strides(shape.windows.kernel);
  Matrix<double> columns = Matrix<double>::Zero(channels * taps, windows);
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t window = 0; window < windows; ++window) {
      std::int64_t offset = 0;
      bool inside = true;
      for (std::size_t d = 0; d < shape.in.size(); ++d) {
        const std::int64_t o = window / out_strides[d] % shape.out[d];
        const std::int64_t k = tap / tap_strides[d] % shape.windows.kernel[d];
        const std::int64_t at = o * shape.windows.strides[d] + k * shape.windows.dilations[d] -
                                shape.windows.pads_begin[d];
        inside = inside && at >= 0 && at < shape.in[d];
        offset += at * in_strides[d];
      }
      if (!inside) continue;
      for (std::int64_t c = 0; c < channels; ++c)
        columns(c * taps + tap, window) = image[c * plane + offset];
    }
  }
  return columns;
}

}  // namespace

namespace {

/// The numbers that x stands for, in a format of rows.
std::vector<double> scaled_numbers(const Tensor& codes, const Tensor& scales,
                                   const ScaleFormat& format) {
  std::vector<double> numbers = codes.to_doubles();
  const std::vector<double> factors = scales.to_doubles();
  const auto k = static_cast<std::size_t>(codes.shape().back()),
             groups = static_cast<std::size_t>(format.groups(codes.shape().back())),
             depth = static_cast<std::size_t>(format.depth);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] *= factors[i / k * groups + i % k / depth];
  return numbers;
}

std::vector<Tensor> evaluate_scaled_matmul(const Attrs& attrs, Tensors inputs, Types outputs) {
  const ProductFormats formats(attrs);
  const Ints shape = concrete_shape(outputs[0].shape);
  const std::int64_t k = inputs[0].shape().back(), n = shape.back();
  const std::vector<double> x =
      formats.x ? scaled_numbers(inputs[0], inputs[2], *formats.x) : inputs[0].to_doubles();
  const std::vector<double> weights =
      dequantized(weights_of(attrs, inputs.subspan(1), k), DType::kFloat64).to_doubles();
  const auto rows = static_cast<std::int64_t>(x.size()) / std::max<std::int64_t>(k, 1);
  std::vector<double> y(static_cast<std::size_t>(count_of(shape)), 0);
  if (!y.empty() && k > 0)
    Eigen::Map<Matrix<double>>(y.data(), rows, n).noalias() =
        ConstMatrix<double>(x.data(), rows, k) *
        ConstMatrix<double>(weights.data(), n, k).transpose();
  return {Tensor::from_doubles(outputs[0].dtype, shape, y)};
}

}  // namespace

std::vector<Tensor> evaluate_matmul(const Attrs& attrs, Tensors inputs, Types outputs) {
  if (ProductFormats(attrs).w) return evaluate_scaled_matmul(attrs, inputs, outputs);
  const Ints shape = concrete_shape(outputs[0].shape);
  const DType type = outputs[0].dtype;
  const auto &a = inputs[0].shape(), &b = inputs[1].shape();
  if (is_float(type)) {
    const auto product =
        multiply_batches(inputs[0].to_doubles(), a, inputs[1].to_doubles(), b, shape);
    return {Tensor::from_doubles(type, shape, product)};
  }
  // Unsigned arithmetic wraps; modulo 2^64 first gives the same result modulo 2^width.
  const auto bits = [](const Tensor& tensor) {
    const Ints values = tensor.to_ints();
    return std::vector<std::uint64_t>(values.begin(), values.end());
  };
  const auto product = multiply_batches(bits(inputs[0]), a, bits(inputs[1]), b, shape);
  Ints values(product.begin(), product.end());
  for (std::int64_t& value : values) value = wrap_to(type, value);
  return {Tensor::from_ints(type, shape, values)};
}

std::vector<Tensor> evaluate_conv(const Attrs& attrs, Tensors inputs, Types outputs) {
  Ints shape = concrete_shape(outputs[0].shape);
  Ints x_shape = inputs[0].shape(), w_shape = inputs[1].shape();
  std::vector<double> x = inputs[0].to_doubles(), w = inputs[1].to_doubles();
  const bool channels_last = attrs.get_int("channels_last") == 1;
  if (channels_last) {
    x = with_channels_moved(std::move(x), x_shape, false);
    w = with_channels_moved(std::move(w), w_shape, false);
    std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  }
  const ConvShape conv{{x_shape.begin() + 2, x_shape.end()},
                       {shape.begin() + 2, shape.end()},
                       windows_attr(attrs, {w_shape.begin() + 2, w_shape.end()})};
  const std::int64_t groups = attrs.get_int("group"), channels = w_shape[1];
  const std::int64_t plane = count_of(conv.in), windows = count_of(conv.out);
  const std::int64_t outputs_each = w_shape[0] / groups;
  const std::int64_t taps = channels * count_of(conv.windows.kernel);
  std::vector<double> y(static_cast<std::size_t>(count_of(shape)));
  for (std::int64_t n = 0; n < x_shape[0]; ++n) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const double* image = x.data() + (n * groups + g) * channels * plane;
      const double* weights = w.data() + g * outputs_each * taps;
      Eigen::Map<Matrix<double>>(y.data() + (n * groups + g) * outputs_each * windows, outputs_each,
                                 windows)
          .noalias() =
          ConstMatrix<double>(weights, outputs_each, taps) * unfold(image, channels, conv);
    }
  }
  if (inputs.size() > 2) {
    const std::vector<double> bias = inputs[2].to_doubles();
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] += bias[i / static_cast<std::size_t>(windows) % bias.size()];
  }
  if (channels_last) y = with_channels_moved(std::move(y), shape, true);
  return {Tensor::from_doubles(outputs[0].dtype, shape, y)};
}

}  // namespace sinter::ir::reference
