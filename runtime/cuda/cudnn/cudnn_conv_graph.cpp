// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cudnn/cudnn_conv_graph.h"

#include <utility>

#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

namespace fb = plan::fb;

// Alignment in bytes of a plan's buffers and of user memory.
constexpr std::int64_t kTensorAlignment = 16;

cudnnDataType_t cudnn_type(DType type) {
  switch (type) {
    case DType::kFloat16: return CUDNN_DATA_HALF;
    case DType::kBFloat16: return CUDNN_DATA_BFLOAT16;
    case DType::kFloat32: return CUDNN_DATA_FLOAT;
    case DType::kFloat64: return CUDNN_DATA_DOUBLE;
    default:
      throw unsupported_error(
          "convolutions of {} are not supported by cuDNN here: cast the "
          "operands to a floating-point type",
          to_string(type));
  }
}

/// Chains operations; `value_` is the last one's result.
class Builder {
 public:
  Builder(std::shared_ptr<const Cudnn> library, const ConvProblem& problem,
          std::deque<CudnnDescriptor>& parts, std::vector<ConvGraph::Scalar>& scalars)
      : library_(std::move(library)),
        problem_(problem),
        parts_(parts),
        scalars_(scalars),
        stored_(cudnn_type(problem.dtype)),
        compute_(problem.dtype == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
        left_(count_operations()) {}

  std::vector<CudnnDescriptor> operations() && {
    convolution();
    if (problem_.has_residual)
      binary(CUDNN_POINTWISE_ADD, stored(problem_.output, ConvRole::kResidual));
    if (problem_.has_bias) binary(CUDNN_POINTWISE_ADD, bias());
    activation();
    return std::move(operations_);
  }

 private:
  CudnnDescriptor& make(cudnnBackendDescriptorType_t type) {
    return parts_.emplace_back(library_, type);
  }

  CudnnDescriptor& tensor(const ConvTensor& like, cudnnDataType_t type, std::int64_t id) {
    return make(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span(like.sizes))
        .set(CUDNN_ATTR_TENSOR_STRIDES, std::span(like.strides))
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kTensorAlignment);
  }
  const CudnnDescriptor& stored(const ConvTensor& like, ConvRole role) {
    return tensor(like, stored_, static_cast<std::int64_t>(role)).finalize();
  }
  const CudnnDescriptor& bias() {
    const std::size_t rank = problem_.output.sizes.size();
    const std::int64_t channels = problem_.output.sizes[1];
    ConvTensor shape{std::vector<std::int64_t>(rank, 1), std::vector<std::int64_t>(rank, channels)};
    shape.sizes[1] = channels;
    shape.strides[1] = 1;
    return stored(shape, ConvRole::kBias);
  }
  const CudnnDescriptor& scalar(double value) {
    ConvGraph::Scalar added{next_id_++, value, static_cast<float>(value),
                            compute_ == CUDNN_DATA_DOUBLE};
    scalars_.push_back(added);
    const std::vector<std::int64_t> ones(problem_.output.sizes.size(), 1);
    return tensor({ones, ones}, compute_, added.id)
        .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true)
        .finalize();
  }
  /// The output of the next operation: a virtual tensor, or the graph's output for the last
  /// operation.
  const CudnnDescriptor& result() {
    if (--left_ == 0) return stored(problem_.output, ConvRole::kOutput);
    return tensor(problem_.output, compute_, next_id_++)
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true)
        .finalize();
  }

  void convolution() {
    CudnnDescriptor& window = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute_)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::ssize(problem_.strides))
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span(problem_.dilations))
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span(problem_.strides))
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span(problem_.pads_begin))
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span(problem_.pads_end))
        .finalize();
    const CudnnDescriptor& input = stored(problem_.input, ConvRole::kInput);
    const CudnnDescriptor& weight = stored(problem_.weight, ConvRole::kWeight);
    value_ = &result();
    CudnnDescriptor made(library_, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, input)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, weight)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *value_)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window);
    if (compute_ == CUDNN_DATA_DOUBLE) {
      made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0);
    } else {
      const float one = 1, zero = 0;
      made.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    }
    add(std::move(made));
  }

  CudnnDescriptor& pointwise(cudnnPointwiseMode_t mode) {
    return make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .set(CUDNN_ATTR_POINTWISE_MODE, mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_);
  }
  void apply(CudnnDescriptor& what, const CudnnDescriptor* second = nullptr) {
    what.finalize();
    CudnnDescriptor made(library_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *value_);
    if (second) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *second);
    value_ = &result();
    made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *value_);
    add(std::move(made));
  }
  void unary(cudnnPointwiseMode_t mode) { apply(pointwise(mode)); }
  void binary(cudnnPointwiseMode_t mode, const CudnnDescriptor& second) {
    apply(pointwise(mode), &second);
  }
  void clip(double lower, double upper) {
    apply(pointwise(CUDNN_POINTWISE_RELU_FWD)
              .set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, lower)
              .set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, upper));
  }
  void hard_sigmoid() {
    binary(CUDNN_POINTWISE_MUL, scalar(problem_.activation_a));
    binary(CUDNN_POINTWISE_ADD, scalar(problem_.activation_b));
    clip(0.0, 1.0);
  }

  void activation() {
    switch (problem_.activation) {
      case fb::Activation::None: break;
      case fb::Activation::Relu: unary(CUDNN_POINTWISE_RELU_FWD); break;
      case fb::Activation::GeluErf: unary(CUDNN_POINTWISE_GELU_FWD); break;
      case fb::Activation::GeluTanh: unary(CUDNN_POINTWISE_GELU_APPROX_TANH_FWD); break;
      case fb::Activation::Sigmoid: unary(CUDNN_POINTWISE_SIGMOID_FWD); break;
      case fb::Activation::Tanh: unary(CUDNN_POINTWISE_TANH_FWD); break;
      case fb::Activation::Silu: unary(CUDNN_POINTWISE_SWISH_FWD); break;
      case fb::Activation::HardSigmoid: hard_sigmoid(); break;
      case fb::Activation::HardSwish: {
        const CudnnDescriptor& before = *value_;
        hard_sigmoid();
        binary(CUDNN_POINTWISE_MUL, before);
        break;
      }
      case fb::Activation::LeakyRelu:
        apply(pointwise(CUDNN_POINTWISE_RELU_FWD)
                  .set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE,
                       static_cast<double>(problem_.activation_a)));
        break;
      case fb::Activation::Clip: clip(problem_.activation_a, problem_.activation_b); break;
    }
  }
  std::size_t count_operations() const {
    std::size_t count = 1;
    if (problem_.has_residual) ++count;
    if (problem_.has_bias) ++count;
    if (problem_.activation == fb::Activation::HardSigmoid) return count + 3;
    if (problem_.activation == fb::Activation::HardSwish) return count + 4;
    return count + (problem_.activation == fb::Activation::None ? 0 : 1);
  }
  void add(CudnnDescriptor made) {
    made.finalize();
    operations_.push_back(std::move(made));
  }

  std::shared_ptr<const Cudnn> library_;
  const ConvProblem& problem_;
  std::deque<CudnnDescriptor>& parts_;
  std::vector<ConvGraph::Scalar>& scalars_;
  cudnnDataType_t stored_, compute_;
  std::size_t left_;  // number of operations still to add
  std::int64_t next_id_ = 100;
  const CudnnDescriptor* value_ = nullptr;
  std::vector<CudnnDescriptor> operations_;
};

}  // namespace

void CudnnTarget::set_on(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t handle_attribute,
                         cudnnBackendAttributeName_t device_attribute) const {
  if (device)
    descriptor.set(device_attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
  else
    descriptor.set(handle_attribute, CUDNN_TYPE_HANDLE, 1, &handle);
}

ConvGraph::ConvGraph(const CudnnTarget& target, const ConvProblem& problem)
    : operations_(Builder(target.library, problem, parts_, scalars_).operations()),
      graph_(target.library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  // Without a handle the graph belongs to no device.
  if (!target.device)
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const CudnnDescriptor>(operations_))
      .finalize();
}

}  // namespace sinter::runtime
