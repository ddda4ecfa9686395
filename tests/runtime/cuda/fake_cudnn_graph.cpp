// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/cuda/fake_cudnn_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sinter::testing::fake_graph {
namespace {

/// Values by the tensor's id, in the order of its sizes.
using Values = std::map<std::int64_t, std::vector<float>>;

std::int64_t count_of(const Sizes& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

/// Calls `visit(position, offset)` for all elements; `strides` may be of a broadcast tensor.
template <typename Visit>
void walk(const Sizes& sizes, const Visit& visit) {
  Sizes at(sizes.size(), 0);
  for (std::int64_t position = 0; position < count_of(sizes); ++position) {
    visit(position, at);
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
}

std::int64_t offset_of(const Sizes& at, const Sizes& strides) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  return offset;
}

Sizes dense_strides(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (std::size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

struct Evaluation {
  std::map<std::int64_t, void*> pointers;
  Values values;

  const std::vector<float>& read(const Tensor& tensor) {
    if (tensor.is_virtual) return values.at(tensor.id);
    const auto* data = static_cast<const float*>(pointers.at(tensor.id));
    std::vector<float> result;
    walk(tensor.sizes, [&](std::int64_t, const Sizes& at) {
      result.push_back(data[offset_of(at, tensor.strides)]);
    });
    return values[tensor.id] = std::move(result);
  }
  void write(const Tensor& tensor, std::vector<float> result) {
    if (!tensor.is_virtual) {
      auto* data = static_cast<float*>(pointers.at(tensor.id));
      walk(tensor.sizes, [&](std::int64_t position, const Sizes& at) {
        data[offset_of(at, tensor.strides)] = result[static_cast<std::size_t>(position)];
      });
    }
    values[tensor.id] = std::move(result);
  }

  void convolution(const Operation& op) {
    const auto x = read(op.x);
    const auto w = read(op.second);
    const Sizes x_strides = dense_strides(op.x.sizes), w_strides = dense_strides(op.second.sizes);
    const std::int64_t channels = op.second.sizes[1];
    const std::int64_t per_group = op.second.sizes[0] / (op.x.sizes[1] / channels);
    const Sizes window(op.second.sizes.begin() + 2, op.second.sizes.end());
    std::vector<float> result;
    walk(op.y.sizes, [&](std::int64_t, const Sizes& to) {
      double sum = 0;
      walk(window, [&](std::int64_t, const Sizes& tap) {
        Sizes from = to, weight = to;
        weight[0] = to[1];
        for (std::size_t d = 0; d < window.size(); ++d) {
          from[d + 2] = to[d + 2] * op.strides[d] + tap[d] * op.dilations[d] - op.begin[d];
          weight[d + 2] = tap[d];
          if (from[d + 2] < 0 || from[d + 2] >= op.x.sizes[d + 2]) return;
        }
        for (std::int64_t c = 0; c < channels; ++c) {
          from[1] = to[1] / per_group * channels + c;
          weight[1] = c;
          sum += static_cast<double>(x[static_cast<std::size_t>(offset_of(from, x_strides))]) *
                 w[static_cast<std::size_t>(offset_of(weight, w_strides))];
        }
      });
      result.push_back(static_cast<float>(sum));
    });
    write(op.y, std::move(result));
  }

  static double apply(const Operation& op, double x, double second) {
    switch (op.mode) {
      case CUDNN_POINTWISE_ADD: return x + second;
      case CUDNN_POINTWISE_MUL: return x * second;
      case CUDNN_POINTWISE_RELU_FWD:
        return x < op.lower ? op.lower + op.slope * (x - op.lower) : std::min(x, op.upper);
      case CUDNN_POINTWISE_TANH_FWD: return std::tanh(x);
      case CUDNN_POINTWISE_SIGMOID_FWD: return 1 / (1 + std::exp(-x));
      case CUDNN_POINTWISE_SWISH_FWD: return x / (1 + std::exp(-x));
      case CUDNN_POINTWISE_GELU_FWD: return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
      case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
        return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      default: return NAN;
    }
  }

  void pointwise(const Operation& op) {
    const auto x = read(op.x);
    const auto second = op.has_second ? read(op.second) : std::vector<float>();
    Sizes strides = op.has_second ? dense_strides(op.second.sizes) : Sizes();
    for (std::size_t d = 0; d < strides.size(); ++d)
      if (op.second.sizes[d] == 1) strides[d] = 0;
    std::vector<float> result;
    walk(op.y.sizes, [&](std::int64_t position, const Sizes& at) {
      const double b =
          op.has_second ? second[static_cast<std::size_t>(offset_of(at, strides))] : 0.0f;
      result.push_back(static_cast<float>(apply(op, x[static_cast<std::size_t>(position)], b)));
    });
    write(op.y, std::move(result));
  }
};

bool is_float32(const std::vector<Operation>& operations) {
  for (const Operation& op : operations)
    if (op.x.type != CUDNN_DATA_FLOAT || op.y.type != CUDNN_DATA_FLOAT) return false;
  return true;
}

}  // namespace

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;  // float and enumerations
  }
}

Tensor tensor_of(const Descriptor* d) {
  return {d->list<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
          d->list<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
          d->one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          d->one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL),
          d->one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE),
          d->one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)};
}

Operation operation_of(const Descriptor* d) {
  Operation op;
  if (d->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
    op.x = tensor_of(d->child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
    op.second = tensor_of(d->child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
    op.y = tensor_of(d->child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
    op.has_second = true;
    const Descriptor* window = d->child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
    op.strides = window->list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    op.dilations = window->list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
    op.begin = window->list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    op.end = window->list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    return op;
  }
  op.x = tensor_of(d->child(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  op.y = tensor_of(d->child(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  if (const Descriptor* second = d->child(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) {
    op.second = tensor_of(second);
    op.has_second = true;
  }
  const Descriptor* what = d->child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  op.mode = what->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  op.lower = what->one<double>(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, op.lower);
  op.upper = what->one<double>(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, op.upper);
  op.slope = what->one<double>(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, op.slope);
  return op;
}

std::vector<Operation> operations_of(const Descriptor* graph) {
  std::vector<Operation> all;
  for (const Descriptor* op : graph->list<const Descriptor*>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    all.push_back(operation_of(op));
  return all;
}

void evaluate(const std::vector<Operation>& operations,
              const std::map<std::int64_t, void*>& pointers) {
  if (!is_float32(operations)) return;
  Evaluation evaluation{pointers, {}};
  for (const Operation& op : operations)
    op.mode < 0 ? evaluation.convolution(op) : evaluation.pointwise(op);
}

}  // namespace sinter::testing::fake_graph
