#include <fmt/format.h>
#include <sinter/error.h>

#include "runtime/cpu/dnnl_support.h"

namespace sinter::runtime::cpu {
namespace {

using dims = dnnl::memory::dims;
using plan::fb::BufferKind;

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

dims dense_strides(const dims& sizes) {
  dims strides(sizes.size(), 1);
  for (std::size_t i = sizes.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

dnnl::memory::desc plain(const dims& sizes) {
  return {sizes, dnnl::memory::data_type::f32, dense_strides(sizes)};
}

dnnl::memory::desc any(const dims& sizes) {
  return {sizes, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
}

}  // namespace

/// Activations are reordered from and to NC[D][H]W around the primitive where it prefers another
/// layout: it gains more than the copies cost.
struct ConvDnnl::Impl {
  BoundPrimitive conv;
  struct Reorder {
    dnnl::reorder primitive;
    dnnl::memory plain, blocked;
    std::uint32_t buffer = 0;
  };
  std::vector<Reorder> before, after;
};

ConvDnnl::ConvDnnl(const plan::PlanData& plan, const plan::fb::ConvStepT& step,
                   const BoundShape& shape, PackedWeights& weights)
    : impl_(std::make_unique<Impl>()) {
  const auto& buffers = plan.meta.buffers;
  if (static_cast<DType>(buffers[step.input]->dtype) != DType::kFloat32)
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format(
            "a convolution of {} on the CPU: compile with --precision=model from a float32 model",
            to_string(static_cast<DType>(buffers[step.input]->dtype))));
  if (step.channels_last || step.residual >= 0)
    throw Error(ErrorCode::kUnsupported,
                "a convolution with channels last or a residual on the CPU: recompile the model "
                "with this version of Sinter");
  with_dnnl_errors("convolution", [&] {
    const dims input = dims_of(step.input_shape, shape), output = dims_of(step.output_shape, shape);
    dims weight = dims_of(step.weight_shape, shape);
    if (step.group > 1) {  // [M, C/g, ...] as [g, M/g, C/g, ...]: the same bytes
      const auto groups = static_cast<std::int64_t>(step.group);
      weight[0] /= groups;
      weight.insert(weight.begin(), groups);
    }
    dnnl::primitive_attr attributes;
    dnnl::post_ops ops;
    append_activation(ops, step.activation);
    attributes.set_post_ops(ops);
    const dims bias = {output[1]};
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const dims strides = dims_of(step.strides), dilations = dims_of(step.dilations, 1);
    const dims begin = dims_of(step.pads_begin), end = dims_of(step.pads_end);
    const auto description =
        step.bias >= 0
            ? dnnl::convolution_forward::desc(kind, algorithm, any(input), any(weight), plain(bias),
                                              any(output), strides, dilations, begin, end)
            : dnnl::convolution_forward::desc(kind, algorithm, any(input), any(weight), any(output),
                                              strides, dilations, begin, end);
    const dnnl::convolution_forward::primitive_desc chosen(description, attributes, dnnl_engine());
    auto& conv = impl_->conv;
    conv.primitive = dnnl::convolution_forward(chosen);

    const auto activation = [&](int argument, const dims& sizes, const dnnl::memory::desc& wanted,
                                std::uint32_t buffer, bool is_input) {
      const auto layout = plain(sizes);
      if (layout == wanted) {
        conv.bind(argument, layout, buffer);
        return;
      }
      Impl::Reorder reorder;
      reorder.buffer = buffer;
      reorder.plain = dnnl::memory(layout, dnnl_engine(), DNNL_MEMORY_NONE);
      reorder.blocked = dnnl::memory(wanted, dnnl_engine());
      reorder.primitive = is_input ? dnnl::reorder(reorder.plain, reorder.blocked)
                                   : dnnl::reorder(reorder.blocked, reorder.plain);
      conv.arguments.insert_or_assign(argument, reorder.blocked);
      (is_input ? impl_->before : impl_->after).push_back(std::move(reorder));
    };
    activation(DNNL_ARG_SRC, input, chosen.src_desc(), step.input, true);
    activation(DNNL_ARG_DST, output, chosen.dst_desc(), step.output, false);
    const auto& weight_buffer = *buffers[step.weight];
    if (weight_buffer.kind == BufferKind::Weight) {
      const auto data = plan.weight(weight_buffer, shape.bytes_of(weight_buffer));
      conv.arguments.insert_or_assign(
          DNNL_ARG_WEIGHTS,
          pack(weights, step.weight, data.data(), plain(weight), chosen.weights_desc())->memory);
    } else {
      activation(DNNL_ARG_WEIGHTS, weight, chosen.weights_desc(), step.weight, true);
    }
    if (step.bias >= 0)
      conv.bind(DNNL_ARG_BIAS, plain(bias), static_cast<std::uint32_t>(step.bias));
  });
}

ConvDnnl::~ConvDnnl() = default;
ConvDnnl::ConvDnnl(ConvDnnl&&) noexcept = default;

void ConvDnnl::execute(std::span<std::byte* const> buffers) {
  with_dnnl_errors("convolution", [&] {
    for (auto& reorder : impl_->before) {
      reorder.plain.set_data_handle(buffers[reorder.buffer]);
      reorder.primitive.execute(dnnl_stream(), reorder.plain, reorder.blocked);
    }
    impl_->conv.execute(buffers);
    for (auto& reorder : impl_->after) {
      reorder.plain.set_data_handle(buffers[reorder.buffer]);
      reorder.primitive.execute(dnnl_stream(), reorder.blocked, reorder.plain);
    }
    dnnl_stream().wait();
  });
}

}  // namespace sinter::runtime::cpu
