// SPDX-License-Identifier: Apache-2.0
// Convolutions through oneDNN.
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/cpu/gemm/conv_depthwise.h"
#include "runtime/cpu/gemm/conv_narrow.h"
#include "runtime/cpu/gemm/conv_problem.h"
#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/gemm/gemm_dnnl.h"
#include "runtime/cpu/gemm/matmul_dnnl.h"

namespace sinter::runtime::cpu {
namespace {

using Problem = ConvProblem;
using plan::fb::Activation;
using plan::fb::BufferKind;
using plan::fb::ConvStepT;

/// True if oneDNN runs the convolution's activation in C++ instead of generated code.
bool ends_in_cpp(const dnnl::convolution_forward::primitive_desc& description) {
  return is_reference(description) ||
         std::string_view(description.impl_info_str()).find("gemm") != std::string_view::npos;
}

dnnl::memory::desc stored(const dims& sizes, DType type, bool channels_last) {
  return {sizes, dnnl_type(type), strides_of(sizes, channels_last)};
}

/// Weight sizes; groups are a separate dimension.
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
  return {sizes, dnnl_type(p.weight_type), strides};
}

/// A part of a convolution: a range of images, of rows of the first spatial dimension, and of
/// channels.
struct Piece {
  std::int64_t image = 0, images = 0, row = 0, rows = 0;           // of the output
  std::int64_t channel = 0, channels = 0;                          // of the output
  std::int64_t input_row = 0, input_rows = 0, begin = 0, end = 0;  // its input rows and padding
};

/// The whole convolution as one piece.
Piece whole(const Problem& p) {
  return {0, p.output[0], 0, p.output[2], 0, p.output[1], 0, p.input[2], p.begin[0], p.end[0]};
}

/// Divides a convolution; depends only on its sizes. By default splits images and rows, so that
/// each part reads all weights. If the weights are larger than the input, splits channels.
std::vector<Piece> divide(const Problem& p) {
  constexpr double kCached = 1 << 20;     // bytes of a core's private cache
  constexpr std::int64_t kChannels = 64;  // channel block of oneDNN's kernels
  const auto bytes = [](const dims& sizes, DType type) {
    return Problem::elements(sizes) * static_cast<double>(size_of(type));
  };
  const double weights = bytes(p.weight, p.weight_type), input = bytes(p.input, p.input_type),
               output = bytes(p.output, p.output_type);
  const std::int64_t wanted = parts_for(p.multiplications(), input + output + weights);
  const std::int64_t images = p.output[0], rows = p.output[2], channels = p.output[1];
  std::vector<Piece> pieces;
  if (p.group == 1 && weights > kCached && weights > input) {
    const std::int64_t blocks = (channels + kChannels - 1) / kChannels,
                       step = (blocks + wanted - 1) / wanted * kChannels;
    for (std::int64_t channel = 0; channel < channels; channel += step) {
      pieces.push_back(whole(p));
      pieces.back().channel = channel;
      pieces.back().channels = std::min(step, channels - channel);
    }
    return pieces;
  }
  const std::int64_t chunk = std::max<std::int64_t>(1, images / wanted);
  const std::int64_t row_parts = std::clamp<std::int64_t>(wanted / images, 1, rows);
  for (std::int64_t image = 0; image < images; image += chunk)
    for (std::int64_t part = 0; part < row_parts; ++part) {
      Piece piece = whole(p);
      piece.image = image;
      piece.images = std::min(chunk, images - image);
      if (row_parts > 1) {
        piece.row = rows * part / row_parts;
        piece.rows = rows * (part + 1) / row_parts - piece.row;
        const std::int64_t extent = (p.weight[2] - 1) * (p.dilations[0] + 1) + 1;
        const std::int64_t first = piece.row * p.strides[0] - p.begin[0],
                           last = first + (piece.rows - 1) * p.strides[0] + extent;
        piece.input_row = std::max<std::int64_t>(first, 0);
        piece.input_rows = std::min(last, p.input[2]) - piece.input_row;
        piece.begin = piece.input_row - first;
        piece.end = last - piece.input_row - piece.input_rows;
        if (piece.input_rows <= 0) return {whole(p)};  // only padding
      }
      pieces.push_back(piece);
    }
  return pieces;
}

/// Creates the parts of one convolution.
class ConvDivider {
 public:
  ConvDivider(const Problem& problem, const ConvStepT& step, PackedWeights& weights,
              const std::byte* weight_data, int threads)
      : p_(problem),
        step_(step),
        weights_(weights),
        weight_data_(weight_data),
        weight_copies_(threads) {}

  /// Reorders of computed weights into the kernels' layouts; execute them before the parts.
  PrimitiveParts& weight_copies() { return weight_copies_; }
  std::uint64_t copied_bytes() const {
    std::uint64_t bytes = 0;
    for (const Copied& copied : copied_) bytes += copied.memory.get_desc().get_size();
    return bytes;
  }

  /// Location of an operand: a plan buffer, or its own memory.
  struct Place {
    std::uint32_t buffer = 0;
    std::byte* memory = nullptr;
  };

  void add(const Piece& piece, const Place& input, const Place& output, PrimitiveParts& parts) {
    const Kind& kind = kind_of(piece);
    BoundPrimitive part(kind.primitive, kind.scratchpad);
    const auto bind = [&](int argument, const Place& place, const dnnl::memory::desc& layout,
                          std::uint64_t offset) {
      if (place.memory)
        part.bind(argument, dnnl::memory(layout, dnnl_engine(), place.memory + offset));
      else
        part.bind(argument, layout, place.buffer, offset);
    };
    const auto bind_output = [&](int argument, const Place& place, bool is_result) {
      const dims strides = strides_of(p_.output, true);
      // Outputs are float32 or int32, both 4 bytes.
      const std::uint64_t offset =
          bytes_of(piece.image * strides[0] + piece.row * strides[2] + piece.channel);
      if (piece.channels == p_.output[1]) return bind(argument, place, kind.output, offset);
      const auto channels = static_cast<std::size_t>(p_.output[1]),
                 own = static_cast<std::size_t>(piece.channels);
      part.bind_copy(
          argument, kind.output,
          {place.buffer, place.memory, offset, kind.output.get_size() / sizeof(float) / own,
           own * sizeof(float), channels * sizeof(float)},
          is_result);
    };
    const dims strides = strides_of(p_.input, true);
    bind(DNNL_ARG_SRC, input, kind.input,
         bytes_of(piece.image * strides[0] + piece.input_row * strides[2], p_.input_type));
    bind_output(DNNL_ARG_DST, output, true);
    if (step_.residual >= 0)
      bind_output(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, residual, false);
    const std::uint64_t weight =
        bytes_of(piece.channel * strides_of(p_.weight, p_.channels_last)[0], p_.weight_type);
    if (weight_data_ && kind.weight != kind.plain_weight)
      part.bind(DNNL_ARG_WEIGHTS,
                pack(weights_, step_.weight, weight_data_ + weight, kind.plain_weight, kind.weight)
                    ->memory);
    else if (kind.weight != kind.plain_weight)
      part.bind(DNNL_ARG_WEIGHTS, copied_weight(kind, weight));
    else
      part.bind(DNNL_ARG_WEIGHTS, kind.weight, step_.weight, weight);
    if (step_.bias >= 0)
      part.bind(DNNL_ARG_BIAS, kind.bias, static_cast<std::uint32_t>(step_.bias),
                bytes_of(piece.channel));
    part.keep_nan(kind.bare);
    parts.add(std::move(part));
  }

  Place residual;

 private:
  struct Kind {
    dnnl::convolution_forward primitive;
    dnnl::memory::desc input, output, plain_weight, weight, bias, scratchpad;
    std::shared_ptr<BarePrimitive> bare;  // without the activation, if that loses NaN
  };
  using Key = std::vector<std::int64_t>;

  /// Pieces of equal sizes and padding share a primitive.
  const Kind& kind_of(const Piece& piece) {
    const auto [found, is_new] = kinds_.try_emplace(
        Key{piece.images, piece.rows, piece.channels, piece.input_rows, piece.begin, piece.end});
    Kind& kind = found->second;
    if (!is_new) return kind;
    dims input = p_.input, output = p_.output, begin = p_.begin, end = p_.end;
    input[0] = output[0] = piece.images;
    input[2] = piece.input_rows;
    output[2] = piece.rows;
    output[1] = piece.channels;
    Problem part = p_;
    part.weight[0] = piece.channels;
    kind.plain_weight = stored_weight(part);
    kind.bias = {{piece.channels}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a};
    begin[0] = piece.begin;
    end[0] = piece.end;
    kind.input = stored(input, p_.input_type, true);
    kind.output = stored(output, p_.output_type, true);
    const auto attributes_of = [&](Activation activation, bool in_cpp) {
      dnnl::post_ops ops;
      if (step_.residual >= 0) ops.append_binary(dnnl::algorithm::binary_add, kind.output);
      append_activation(ops, activation, step_.activation_a, step_.activation_b, in_cpp);
      dnnl::primitive_attr attributes = dnnl_attributes();
      attributes.set_post_ops(ops);
      return attributes;
    };
    const auto describe = [input = kind.input, output = kind.output, begin, end,
                           bias = step_.bias >= 0 ? kind.bias : dnnl::memory::desc(),
                           strides = p_.strides, dilations = p_.dilations](
                              const dnnl::memory::desc& weight,
                              const dnnl::primitive_attr& attributes, bool may_fail) {
      return dnnl::convolution_forward::primitive_desc(
          dnnl_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
          input, weight, bias, output, strides, dilations, begin, end, attributes, may_fail);
    };
    // Computed weights keep their layout if a kernel accepts it. Others use the layout that the
    // first part chose.
    const dnnl::memory::desc any(weight_sizes(part), dnnl_type(p_.weight_type),
                                 dnnl::memory::format_tag::any);
    const auto choose = [&](const dnnl::primitive_attr& attributes) {
      dnnl::convolution_forward::primitive_desc chosen;
      const auto has_kernel = [&] { return chosen && !is_reference(chosen); };
      if (!weight_data_) chosen = describe(kind.plain_weight, attributes, false);
      if (!has_kernel() && weight_ && weight_.get_dims() == any.get_dims())
        chosen = describe(weight_, attributes, true);
      if (!has_kernel()) chosen = describe(any, attributes, false);
      return chosen;
    };
    auto chosen = choose(attributes_of(step_.activation, false));
    if (must_be_spelled_out(step_.activation) && ends_in_cpp(chosen))
      chosen = choose(attributes_of(step_.activation, true));
    kind.weight = weight_ = chosen.weights_desc();
    kind.scratchpad = chosen.scratchpad_desc();
    kind.primitive = dnnl::convolution_forward(chosen);
    if (loses_nan(step_.activation, step_.activation_a))
      kind.bare = std::make_shared<BarePrimitive>(
          [describe, attributes = attributes_of(Activation::None, false), weight = kind.weight] {
            const auto how = describe(weight, attributes, false);
            return BarePrimitive::Made{dnnl::convolution_forward(how), how.scratchpad_desc()};
          });
    return kind;
  }

  /// Computed weights from byte `offset` on, copied to the layout of `kind`.
  dnnl::memory copied_weight(const Kind& kind, std::uint64_t offset) {
    for (const Copied& copied : copied_)
      if (copied.offset == offset && copied.memory.get_desc() == kind.weight) return copied.memory;
    copied_.push_back({offset, dnnl::memory(kind.weight, dnnl_engine())});
    const dnnl::reorder::primitive_desc how(dnnl_engine(), kind.plain_weight, dnnl_engine(),
                                            kind.weight, dnnl_attributes());
    BoundPrimitive copy(dnnl::reorder(how), how.scratchpad_desc());
    copy.bind(DNNL_ARG_FROM, kind.plain_weight, step_.weight, offset);
    copy.bind(DNNL_ARG_TO, copied_.back().memory);
    weight_copies_.add(std::move(copy));
    return copied_.back().memory;
  }

  struct Copied {
    std::uint64_t offset;
    dnnl::memory memory;
  };

  const Problem& p_;
  const ConvStepT& step_;
  PackedWeights& weights_;
  const std::byte* weight_data_;  // null if the weights are computed
  PrimitiveParts weight_copies_;
  std::vector<Copied> copied_;
  dnnl::memory::desc weight_;
  std::map<Key, Kind> kinds_;
};

/// Reorders rows and images between the plan's layout and channels last.
PrimitiveParts reorder(const dims& sizes, DType type, std::uint32_t buffer,
                       const dnnl::memory& channels_last, bool into, int threads) {
  PrimitiveParts parts(threads);
  const auto plain = stored(sizes, type, false);
  constexpr double kBytesOfPart = 256 << 10;
  const double bytes = 2 * static_cast<double>(size_of(type)) * Problem::elements(sizes);
  const std::int64_t count =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(bytes / kBytesOfPart), 1, sizes[2]);
  for (std::int64_t part = 0; part < count; ++part) {
    dims at(sizes.size(), 0), of = sizes;
    at[2] = sizes[2] * part / count;
    of[2] = sizes[2] * (part + 1) / count - at[2];
    const auto here = stored(sizes, type, true).submemory_desc(of, at),
               there = plain.submemory_desc(of, at);
    const auto& [from, to] = into ? std::pair(there, here) : std::pair(here, there);
    const dnnl::reorder::primitive_desc how(dnnl_engine(), from, dnnl_engine(), to,
                                            dnnl_attributes());
    BoundPrimitive primitive(dnnl::reorder(how), how.scratchpad_desc());
    primitive.bind(into ? DNNL_ARG_FROM : DNNL_ARG_TO, there, buffer);
    primitive.bind(into ? DNNL_ARG_TO : DNNL_ARG_FROM,
                   dnnl::memory(here, dnnl_engine(), channels_last.get_data_handle()));
    parts.add(std::move(primitive));
  }
  return parts;
}

/// A 1x1 convolution as a GEMM over channels-last buffers `input`, `output` and `residual`.
Product product_of(const Problem& p, const ConvStepT& step, const std::byte* weight_data,
                   std::uint32_t input, std::uint32_t output, std::uint32_t residual) {
  Product product;
  product.k = p.input[1];
  product.n = p.output[1];
  product.m = p.output[0];
  for (std::size_t d = 2; d < p.output.size(); ++d) product.m *= p.output[d];
  product.a = {input, 0, {}, product.k, 1, p.input_type};
  product.b = {step.weight, 0, {}, 1, product.k, p.weight_type};
  product.d = {output, 0, {}, product.n, 1, p.output_type};
  if (step.residual >= 0) {
    product.residual = product.d;
    product.residual->buffer = residual;
  }
  if (step.bias >= 0) product.bias = static_cast<std::uint32_t>(step.bias);
  product.b_weight = weight_data;
  product.activation = step.activation;
  product.activation_a = step.activation_a;
  product.activation_b = step.activation_b;
  return product;
}

}  // namespace

struct ConvDnnl::Impl {
  // In sequence: reorders to channels last (oneDNN's fastest layout), the convolution, reorders
  // back.
  std::vector<PrimitiveParts> steps;
  std::vector<dnnl::memory> own;      // channels-last copies of operands in the plan's layout
  std::vector<std::byte*> addresses;  // operands of the GEMM outside the plan's buffers
  std::vector<std::byte*> all;        // for a run: the plan's buffers, then `addresses`
  std::uint64_t weight_bytes = 0;     // computed weights in the kernels' layouts
  std::optional<ConvNarrow> narrow;   // replaces `steps`
  std::optional<ConvDepthwise> depthwise;
};

ConvDnnl::ConvDnnl(const plan::PlanData& plan, const ConvStepT& step, const BoundShape& shape,
                   PackedWeights& weights, int threads)
    : impl_(std::make_unique<Impl>()) {
  const auto& buffers = plan.meta.buffers;
  const auto type_of = [&](std::uint32_t buffer) {
    return static_cast<DType>(buffers[buffer]->dtype);
  };
  const Problem p = conv_problem(plan, step, shape);
  // oneDNN creates no primitive for empty tensors.
  if (std::ranges::count(p.output, 0) > 0) return;
  if (p.input_type != DType::kFloat32 && !multiplies_exactly(p.input_type, p.weight_type)) {
    impl_->narrow.emplace(p, plan, step, shape, weights, threads);
    return;
  }
  const auto& weight_buffer = *buffers[step.weight];
  const std::byte* weight_data =
      weight_buffer.kind == BufferKind::Weight
          ? plan.weight(weight_buffer, shape.bytes_of(weight_buffer)).data()
          : nullptr;
  if (ConvDepthwise::takes(p, step, weight_data)) {
    impl_->depthwise.emplace(p, step, threads);
    return;
  }
  with_dnnl_errors("convolution", [&] {
    auto& steps = impl_->steps;
    // A GEMM kernel adds up the columns of an incomplete last block in another order. Equal
    // channels (classes, for example) must get equal values; convolutions pad their blocks instead.
    constexpr std::int64_t kColumnBlock = 16;
    const bool fills_blocks = p.output[1] % kColumnBlock == 0;
    const bool is_product =
        p.is_product() && fills_blocks && p.multiplications() >= 2 * kMultiplicationsOfThread;
    const int team = threads_for(p.multiplications(), threads);
    ConvDivider divider(p, step, weights, weight_data, team);
    using Place = ConvDivider::Place;
    const auto place_of = [&](std::uint32_t buffer, const dims& sizes, bool is_read) -> Place {
      if (p.channels_last) return {buffer, nullptr};
      const DType type = type_of(buffer);
      const dnnl::memory& memory =
          impl_->own.emplace_back(stored(sizes, type, true), dnnl_engine());
      if (is_read) steps.push_back(reorder(sizes, type, buffer, memory, true, team));
      return {buffer, static_cast<std::byte*>(memory.get_data_handle())};
    };
    const Place input = place_of(step.input, p.input, true);
    if (step.residual >= 0)
      divider.residual = place_of(static_cast<std::uint32_t>(step.residual), p.output, true);
    const Place output = place_of(step.output, p.output, false);
    if (is_product) {
      // Own operands get buffer numbers after the plan's.
      const auto buffer_of = [&](const Place& place) {
        if (place.memory == nullptr) return place.buffer;
        impl_->addresses.push_back(place.memory);
        return static_cast<std::uint32_t>(buffers.size() + impl_->addresses.size() - 1);
      };
      const std::uint32_t from = buffer_of(input), to = buffer_of(output),
                          residual = step.residual >= 0 ? buffer_of(divider.residual) : 0;
      steps.push_back(
          divide_product(product_of(p, step, weight_data, from, to, residual), weights, threads));
      impl_->all.resize(buffers.size());
      impl_->all.insert(impl_->all.end(), impl_->addresses.begin(), impl_->addresses.end());
    } else {
      PrimitiveParts parts(team);
      for (const Piece& piece : divide(p)) divider.add(piece, input, output, parts);
      impl_->weight_bytes = divider.copied_bytes();
      if (divider.weight_copies().size() > 0) steps.push_back(std::move(divider.weight_copies()));
      steps.push_back(std::move(parts));
    }
    if (output.memory)
      steps.push_back(
          reorder(p.output, p.output_type, step.output, impl_->own.back(), false, team));
  });
}

ConvDnnl::~ConvDnnl() = default;
ConvDnnl::ConvDnnl(ConvDnnl&&) noexcept = default;

std::size_t ConvDnnl::workspace_bytes() const {
  if (impl_->narrow) return impl_->narrow->workspace_bytes();
  if (impl_->depthwise) return impl_->depthwise->workspace_bytes();
  std::size_t bytes = 0;
  for (const PrimitiveParts& step : impl_->steps) bytes = std::max(bytes, step.workspace_bytes());
  return bytes;
}

std::uint64_t ConvDnnl::own_bytes() const {
  std::uint64_t bytes = impl_->weight_bytes + (impl_->narrow ? impl_->narrow->own_bytes() : 0);
  for (const dnnl::memory& memory : impl_->own) bytes += memory.get_desc().get_size();
  return bytes;
}

void ConvDnnl::execute(std::span<std::byte* const> buffers,
                       std::span<std::byte* const> workspaces) {
  if (impl_->narrow) return impl_->narrow->execute(buffers, workspaces);
  if (impl_->depthwise) return impl_->depthwise->execute(buffers, workspaces);
  with_dnnl_errors("convolution", [&] {
    std::span<std::byte* const> all = buffers;
    if (!impl_->addresses.empty()) {
      std::ranges::copy(buffers, impl_->all.begin());
      all = impl_->all;
    }
    for (PrimitiveParts& step : impl_->steps) step.execute(all, workspaces);
  });
}

}  // namespace sinter::runtime::cpu
