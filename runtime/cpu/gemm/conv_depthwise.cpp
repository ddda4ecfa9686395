// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/conv_depthwise.h"

#include <algorithm>
#include <cmath>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/depthwise_ops.h"
#include "runtime/cpu/ops/quant_ops.h"
#include "runtime/cpu/ops/vectors/vector_moves.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

/// Elements of a part's padded rows, which must fit a core's private cache.
constexpr std::int64_t kRoom = 32 << 10, kMostWidth = 1 << 20;

void load_strided(const float* from, std::int64_t step, float* to, std::int64_t count) {
  if (step >= kLeastStep && step <= kMostStep)
    return take_each(reinterpret_cast<const std::uint32_t*>(from), step,
                     reinterpret_cast<std::uint32_t*>(to), count);
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}

}  // namespace

bool ConvDepthwise::takes(const ConvProblem& p, const plan::fb::ConvStepT& step,
                          const std::byte* weights) {
  using plan::fb::Activation;
  const std::size_t spatial = p.strides.size();
  const bool is_f32 = p.input_type == DType::kFloat32 && p.weight_type == DType::kFloat32 &&
                      p.output_type == DType::kFloat32;
  const bool is_finished =
      step.activation == Activation::None || step.activation == Activation::Relu ||
      step.activation == Activation::GeluErf || step.activation == Activation::GeluTanh;
  if (p.channels_last || !is_f32 || !is_finished || weights == nullptr || p.group < 2 ||
      p.group != p.input[1] || p.weight[1] != 1 || spatial < 1 || spatial > 2 ||
      p.input.back() + p.begin.back() + p.end.back() > kMostWidth)
    return false;
  const auto* values = reinterpret_cast<const float*>(weights);
  const auto count = static_cast<std::int64_t>(ConvProblem::elements(p.weight));
  return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
}

ConvDepthwise::ConvDepthwise(const ConvProblem& p, const plan::fb::ConvStepT& step, int threads)
    : step_(&step),
      planes_(p.output[0] * p.output[1]),
      outputs_of_image_(p.output[1]),
      outputs_of_channel_(p.output[1] / p.group),
      height_(p.strides.size() > 1 ? p.input[2] : 1),
      width_(p.input.back()),
      out_height_(p.strides.size() > 1 ? p.output[2] : 1),
      out_width_(p.output.back()),
      kernel_rows_(p.strides.size() > 1 ? p.weight[2] : 1),
      kernel_columns_(p.weight.back()),
      stride_(p.strides.back()),
      dilation_(p.dilations.back() + 1),
      pad_(p.begin.back()),
      threads_(threads_for(p.multiplications(), threads)) {
  if (p.strides.size() > 1) {
    row_stride_ = p.strides[0];
    row_dilation_ = p.dilations[0] + 1;
    row_pad_ = p.begin[0];
  }
  const std::int64_t reach = (out_width_ - 1) * stride_ + (kernel_columns_ - 1) * dilation_ + 1;
  phase_pitch_ = (reach + stride_ - 1) / stride_ + kPlaneSlack;
  for (std::int64_t j = 0; j < kernel_columns_; ++j)
    offsets_.push_back(j * dilation_ % stride_ * phase_pitch_ + j * dilation_ / stride_);
  const std::int64_t halo = (kernel_rows_ - 1) * row_dilation_,
                     fit = (kRoom / (phase_pitch_ * stride_) - halo) / row_stride_;
  rows_of_part_ =
      std::clamp<std::int64_t>(fit, std::min<std::int64_t>(4, out_height_), out_height_);
}

std::size_t ConvDepthwise::workspace_bytes() const {
  const std::int64_t rows =
      (rows_of_part_ - 1) * row_stride_ + (kernel_rows_ - 1) * row_dilation_ + 1;
  return bytes_of(rows * stride_ * phase_pitch_);
}

/// Copies a padded row, deinterleaved by stride: first the elements of phase 0, then of phase 1, ..
void ConvDepthwise::copy_row(const float* from, float* to) const {
  const std::int64_t length = phase_pitch_ - kPlaneSlack;  // slack is never used in results
  if (stride_ == 2 && from != nullptr && pad_ >= 0) {
    const std::int64_t count = std::clamp<std::int64_t>(2 * length - pad_, 0, width_);
    float *even = to, *odd = to + phase_pitch_;
    const std::int64_t before_even = std::min((pad_ + 1) / 2, length),
                       before_odd = std::min(pad_ / 2, length);
    // The row's first element is of the phase that the padding ends before.
    const bool swapped = pad_ % 2 != 0;
    float *first = swapped ? odd + before_odd : even + before_even,
          *second = swapped ? even + before_even : odd + before_odd;
    part_pairs(from, count, first, second);
    std::fill_n(even, before_even, 0.0F);
    std::fill_n(odd, before_odd, 0.0F);
    std::fill(first + (count + 1) / 2, (swapped ? odd : even) + length, 0.0F);
    std::fill(second + count / 2, (swapped ? even : odd) + length, 0.0F);
    return;
  }
  for (std::int64_t phase = 0; phase < stride_; ++phase, to += phase_pitch_) {
    const std::int64_t first = phase - pad_;  // element i is input first + i * stride
    std::int64_t begin = first >= 0 ? 0 : (-first + stride_ - 1) / stride_;
    std::int64_t end = width_ > first ? (width_ - first + stride_ - 1) / stride_ : 0;
    begin = std::min(begin, length);
    end = std::clamp(end, begin, length);
    if (from == nullptr) end = begin;
    std::fill_n(to, begin, 0.0F);
    if (stride_ == 1)
      std::copy_n(from + (from != nullptr ? first + begin : 0), end - begin, to + begin);
    else if (begin < end)
      load_strided(from + first + begin * stride_, stride_, to + begin, end - begin);
    std::fill_n(to + end, length - end, 0.0F);
  }
}

void ConvDepthwise::run_part(std::int64_t plane, std::int64_t row, std::int64_t rows,
                             std::span<std::byte* const> buffers, float* room) const {
  const auto floats = [&](std::uint32_t buffer) {
    return reinterpret_cast<float*>(buffers[buffer]);
  };
  const std::int64_t image = plane / outputs_of_image_, channel = plane % outputs_of_image_;
  const std::int64_t channels = outputs_of_image_ / outputs_of_channel_;
  const float* input =
      floats(step_->input) + (image * channels + channel / outputs_of_channel_) * height_ * width_;
  const std::int64_t pitch = stride_ * phase_pitch_,
                     count = (rows - 1) * row_stride_ + (kernel_rows_ - 1) * row_dilation_ + 1;
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t at = row * row_stride_ - row_pad_ + r;
    copy_row(at >= 0 && at < height_ ? input + at * width_ : nullptr, room + r * pitch);
  }
  DepthwisePlane p;
  p.in = room;
  p.in_pitch = pitch;
  p.weights = floats(step_->weight) + channel * kernel_rows_ * kernel_columns_;
  p.kernel_rows = kernel_rows_;
  p.kernel_columns = kernel_columns_;
  p.row_stride = row_stride_;
  p.row_dilation = row_dilation_;
  p.offsets = offsets_.data();
  p.bias = step_->bias >= 0 ? floats(static_cast<std::uint32_t>(step_->bias))[channel] : 0;
  const std::int64_t first = (plane * out_height_ + row) * out_width_;
  p.out = floats(step_->output) + first;
  p.rows = rows;
  p.columns = out_width_;
  convolve_plane(p);
  if (step_->residual < 0 && step_->activation == plan::fb::Activation::None) return;
  finish_values(
      p.out, rows * out_width_, 1, nullptr,
      step_->residual >= 0 ? floats(static_cast<std::uint32_t>(step_->residual)) + first : nullptr,
      step_->activation);
}

void ConvDepthwise::execute(std::span<std::byte* const> buffers,
                            std::span<std::byte* const> workspaces) const {
  const std::int64_t of_plane = (out_height_ + rows_of_part_ - 1) / rows_of_part_,
                     pieces = planes_ * of_plane,
                     parts = std::min(pieces, threads::parts_of(threads_));
  threads::run_parts(parts, threads_, [&](threads::Member& member) {
    auto* room = reinterpret_cast<float*>(workspaces[static_cast<std::size_t>(member.me())]);
    while (const auto part = member.next())
      for (std::int64_t i = pieces * *part / parts; i < pieces * (*part + 1) / parts; ++i) {
        const std::int64_t row = i % of_plane * rows_of_part_;
        run_part(i / of_plane, row, std::min(rows_of_part_, out_height_ - row), buffers, room);
      }
  });
}

}  // namespace sinter::runtime::cpu
