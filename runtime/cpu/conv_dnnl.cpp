// Convolutions through oneDNN.
#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <sinter/error.h>

#include "runtime/cpu/dnnl_support.h"
#include "runtime/cpu/parallel.h"

namespace sinter::runtime::cpu {
namespace {

using dims = dnnl::memory::dims;
using plan::fb::BufferKind;
using plan::fb::ConvStepT;

/// One convolution's sizes, channels second; weights are [m, c / group, kernel..].
struct Problem {
  dims input, weight, output, strides, dilations, begin, end;
  std::int64_t group = 1;
  bool channels_last = false;

  double multiplications() const {
    double result = 1;
    for (const std::int64_t size : output) result *= static_cast<double>(size);
    for (std::size_t d = 1; d < weight.size(); ++d) result *= static_cast<double>(weight[d]);
    return result;
  }
};

dims dims_of(const std::vector<std::uint32_t>& expressions, const BoundShape& shape) {
  dims result;
  for (const auto expression : expressions) result.push_back(shape.expressions[expression]);
  return result;
}

dims dims_of(const std::vector<std::uint64_t>& numbers, std::int64_t minus = 0) {
  dims result;
  for (const auto number : numbers) result.push_back(static_cast<std::int64_t>(number) - minus);
  return result;
}

/// Without the dimensions that nothing happens in: blocks of windows go along the last one, which
/// must not be one of one element.
void drop_single_dimensions(Problem& p) {
  for (std::size_t d = p.strides.size(); d-- > 0 && p.strides.size() > 1;) {
    const std::size_t at = d + 2;
    if (p.input[at] != 1 || p.output[at] != 1 || p.weight[at] != 1 || p.begin[d] != 0 ||
        p.end[d] != 0)
      continue;
    for (dims* sizes : {&p.input, &p.weight, &p.output})
      sizes->erase(sizes->begin() + static_cast<std::ptrdiff_t>(at));
    for (dims* window : {&p.strides, &p.dilations, &p.begin, &p.end})
      window->erase(window->begin() + static_cast<std::ptrdiff_t>(d));
  }
}

Problem problem_of(const ConvStepT& step, const BoundShape& shape) {
  Problem p{dims_of(step.input_shape, shape),
            dims_of(step.weight_shape, shape),
            dims_of(step.output_shape, shape),
            dims_of(step.strides),
            dims_of(step.dilations, 1),
            dims_of(step.pads_begin),
            dims_of(step.pads_end),
            static_cast<std::int64_t>(step.group),
            step.channels_last};
  if (p.channels_last)
    for (dims* sizes : {&p.input, &p.weight, &p.output})
      std::rotate(sizes->begin() + 1, sizes->end() - 1, sizes->end());
  drop_single_dimensions(p);
  return p;
}

/// Steps between the elements of dense sizes that are given with channels second.
dims strides_of(const dims& sizes, bool channels_last) {
  dims strides(sizes.size(), 1);
  std::int64_t stride = channels_last ? sizes[1] : 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (channels_last && d == 1) continue;
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

dnnl::memory::desc stored(const dims& sizes, bool channels_last) {
  return {sizes, dnnl::memory::data_type::f32, strides_of(sizes, channels_last)};
}

/// Where there are groups, they are a dimension of their own.
dims weight_sizes(const Problem& p) {
  dims sizes = p.weight;
  if (p.group == 1) return sizes;
  sizes[0] /= p.group;
  sizes.insert(sizes.begin(), p.group);
  return sizes;
}

dnnl::memory::desc stored_weight(const Problem& p) {
  const dims sizes = weight_sizes(p);
  dims strides = strides_of(p.weight, p.channels_last);
  if (p.group > 1) strides.insert(strides.begin(), strides[0] * sizes[1]);
  return {sizes, dnnl::memory::data_type::f32, strides};
}

dnnl::memory::desc any(const dims& sizes) {
  return {sizes, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

}  // namespace

/// Activations that lie as the primitive wants them are used where they are; others are reordered
/// from and to their own layout around it.
struct ConvDnnl::Impl {
  std::vector<BoundPrimitive> steps;  // reorders, the convolution, reorders
  // What oneDNN cannot do as a part of the convolution, done on its dense result afterwards.
  struct HardSwish {
    float slope, offset;
    std::uint32_t buffer;
    std::int64_t count;
  };
  std::optional<HardSwish> hard_swish;
};

ConvDnnl::ConvDnnl(const plan::PlanData& plan, const ConvStepT& step, const BoundShape& shape,
                   PackedWeights& weights)
    : impl_(std::make_unique<Impl>()) {
  const auto& buffers = plan.meta.buffers;
  if (static_cast<DType>(buffers[step.input]->dtype) != DType::kFloat32)
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format(
            "a convolution of {} on the CPU: compile with --precision=model from a float32 model",
            to_string(static_cast<DType>(buffers[step.input]->dtype))));
  with_dnnl_errors("convolution", [&] {
    const Problem p = problem_of(step, shape);
    const int threads = threads_for(p.multiplications());
    const ThreadCount count(threads);
    const auto plain_input = stored(p.input, p.channels_last);
    const auto plain_output = stored(p.output, p.channels_last);
    const auto plain_weight = stored_weight(p);
    const dnnl::memory::desc bias({p.output[1]}, dnnl::memory::data_type::f32,
                                  dnnl::memory::format_tag::a);
    // Without a size oneDNN makes nothing, and there is nothing to do.
    if (std::count(p.output.begin(), p.output.end(), 0) > 0) return;

    dnnl::post_ops ops;
    if (step.residual >= 0) ops.append_binary(dnnl::algorithm::binary_add, plain_output);
    if (!append_activation(ops, step.activation, step.activation_a, step.activation_b))
      impl_->hard_swish = {step.activation_a, step.activation_b, step.output,
                           static_cast<std::int64_t>(plain_output.get_size() / sizeof(float))};
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(ops);

    // Channels last is what oneDNN is fastest at; a plan in another layout leaves it the choice.
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const auto source = p.channels_last ? plain_input : any(p.input);
    const auto target = p.channels_last ? plain_output : any(p.output);
    const auto weight = any(weight_sizes(p));
    const auto description =
        step.bias >= 0
            ? dnnl::convolution_forward::desc(kind, algorithm, source, weight, bias, target,
                                              p.strides, p.dilations, p.begin, p.end)
            : dnnl::convolution_forward::desc(kind, algorithm, source, weight, target, p.strides,
                                              p.dilations, p.begin, p.end);
    const dnnl::convolution_forward::primitive_desc chosen(description, attributes, dnnl_engine());

    BoundPrimitive conv(dnnl::convolution_forward(chosen), threads);
    std::vector<BoundPrimitive> before, after;
    const auto bind = [&](int argument, const dnnl::memory::desc& plain,
                          const dnnl::memory::desc& wanted, std::uint32_t buffer) {
      if (plain == wanted) {
        conv.bind(argument, plain, buffer);
        return;
      }
      const dnnl::memory reordered(wanted, dnnl_engine());
      const bool is_result = argument == DNNL_ARG_DST;
      const auto& [from, to] = is_result ? std::pair(wanted, plain) : std::pair(plain, wanted);
      const dnnl::reorder::primitive_desc how(dnnl_engine(), from, dnnl_engine(), to);
      auto& reorder = (is_result ? after : before).emplace_back(dnnl::reorder(how), threads);
      reorder.bind(is_result ? DNNL_ARG_TO : DNNL_ARG_FROM, plain, buffer);
      reorder.bind(is_result ? DNNL_ARG_FROM : DNNL_ARG_TO, reordered);
      conv.bind(argument, reordered);
    };
    bind(DNNL_ARG_SRC, plain_input, chosen.src_desc(), step.input);
    bind(DNNL_ARG_DST, plain_output, chosen.dst_desc(), step.output);
    const auto& weight_buffer = *buffers[step.weight];
    if (weight_buffer.kind == BufferKind::Weight) {
      const auto data = plan.weight(weight_buffer, shape.bytes_of(weight_buffer));
      conv.bind(
          DNNL_ARG_WEIGHTS,
          pack(weights, step.weight, data.data(), plain_weight, chosen.weights_desc())->memory);
    } else {
      bind(DNNL_ARG_WEIGHTS, plain_weight, chosen.weights_desc(), step.weight);
    }
    if (step.bias >= 0) conv.bind(DNNL_ARG_BIAS, bias, static_cast<std::uint32_t>(step.bias));
    if (step.residual >= 0)
      conv.bind(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, plain_output,
                static_cast<std::uint32_t>(step.residual));
    impl_->steps = std::move(before);
    impl_->steps.push_back(std::move(conv));
    std::move(after.begin(), after.end(), std::back_inserter(impl_->steps));
  });
}

ConvDnnl::~ConvDnnl() = default;
ConvDnnl::ConvDnnl(ConvDnnl&&) noexcept = default;

void ConvDnnl::execute(std::span<std::byte* const> buffers) {
  with_dnnl_errors("convolution", [&] {
    for (BoundPrimitive& step : impl_->steps) step.execute(buffers);
  });
  if (!impl_->hard_swish) return;
  const auto& [slope, offset, buffer, count] = *impl_->hard_swish;
  auto* values = reinterpret_cast<float*>(buffers[buffer]);
  for (std::int64_t i = 0; i < count; ++i)
    values[i] *= std::max(std::min(slope * values[i] + offset, 1.0F), 0.0F);
}

}  // namespace sinter::runtime::cpu
