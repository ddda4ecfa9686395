// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/conv_narrow.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {

ConvNarrow::ConvNarrow(const ConvProblem& problem, const plan::PlanData& plan,
                       const plan::fb::ConvStepT& step, const BoundShape& shape,
                       PackedWeights& weights, int threads)
    : p_(problem),
      input_(step.input),
      output_(step.output),
      input_strides_(strides_of(problem.input, problem.channels_last)),
      output_strides_(strides_of(problem.output, problem.channels_last)),
      is_depthwise_(problem.group > 1 && problem.group == problem.input[1] &&
                    problem.group == problem.output[1]),
      threads_(threads_for(problem.multiplications(), threads)) {
  const std::size_t rank = p_.strides.size();
  std::int64_t taps = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    taps *= p_.weight[d + 2];
    positions_ *= p_.output[d + 2];
  }
  for (std::int64_t t = 0; t < taps; ++t) {
    Tap& tap = taps_.emplace_back();
    tap.at.resize(rank);
    for (std::int64_t rest = t, d = std::ssize(tap.at); d-- > 0;) {
      const auto i = static_cast<std::size_t>(d);
      tap.at[i] = rest % p_.weight[i + 2] * (p_.dilations[i] + 1);
      tap.offset += tap.at[i] * input_strides_[i + 2];
      rest /= p_.weight[i + 2];
    }
  }
  if (p_.channels_last && p_.group == 1 && p_.dilations.back() == 0) row_taps_ = p_.weight.back();
  // Weights [m, taps.., c] or [m, c, taps..].
  const std::int64_t channels = p_.weight[1], outputs = p_.output[1] / p_.group;
  const std::int64_t tap_stride = p_.channels_last ? channels : 1,
                     channel_stride = p_.channels_last ? 1 : taps, output_stride = channels * taps;
  if (!is_depthwise_) {
    NarrowMatrices matrices{step.weight,     p_.weight_type, {},
                            taps * channels, outputs,        channels,
                            tap_stride,      channel_stride, output_stride};
    for (std::int64_t g = 0; g < p_.group; ++g)
      matrices.starts.push_back(g * outputs * output_stride);
    panels_ = NarrowPanels(matrices, plan, shape, weights);
    return;
  }
  channels_ = WidenedBytes(
      step.weight, taps * p_.group, taps, fmt::format("{} taps by {}", taps, tap_stride),
      [type = p_.weight_type, tap_stride, output_stride, count = p_.group](
          const std::byte* from, std::int64_t tap, std::int16_t* to) {
        widen_bytes(type, from + tap * tap_stride, output_stride, count, to + tap * count);
      },
      plan, shape, weights);
}

std::size_t ConvNarrow::workspace_bytes() const {
  if (!is_depthwise_) return NarrowPanels::workspace_bytes();
  const auto channels = static_cast<std::size_t>(p_.group);
  return taps_.size() * (2 * sizeof(void*) + channels) + channels * sizeof(std::int32_t);
}

ConvNarrow::Origin ConvNarrow::origin_of(std::int64_t position) const {
  Origin origin;
  for (std::size_t d = p_.strides.size(); d-- > 0; position /= p_.output[d + 2]) {
    origin.at[d] = position % p_.output[d + 2] * p_.strides[d] - p_.begin[d];
    origin.offset += origin.at[d] * input_strides_[d + 2];
  }
  origin.offset += position * input_strides_[0];  // `position` is the image now
  return origin;
}

bool ConvNarrow::is_inside(const Origin& origin, const Tap& tap) const {
  for (std::size_t d = 0; d < tap.at.size(); ++d) {
    const std::int64_t at = origin.at[d] + tap.at[d];
    if (at < 0 || at >= p_.input[d + 2]) return false;
  }
  return true;
}

std::int64_t ConvNarrow::output_offset(std::int64_t position) const {
  return position / positions_ * output_strides_[0] +
         position % positions_ * (p_.channels_last ? p_.output[1] : 1);
}

void ConvNarrow::multiply_block(const NarrowParts::Part& part, const std::byte* input,
                                std::int32_t* output, std::byte* workspace) const {
  const std::int64_t channels = p_.weight[1], outputs = p_.output[1] / p_.group;
  Origin origins[NarrowPanels::kRows];
  for (std::int64_t r = 0; r < part.rows; ++r) origins[r] = origin_of(part.row + r);
  const std::int64_t group_offset = part.matrix * channels * input_strides_[1];
  const std::int32_t* sums = panels_.multiply(
      part.matrix, part.first, part.end, part.rows, workspace,
      [&](std::int64_t row, std::int64_t from, std::int64_t to, std::int16_t* target) {
        const auto inside = [&](std::int64_t tap) {
          return is_inside(origins[row], taps_[static_cast<std::size_t>(tap)]);
        };
        for (std::int64_t i = from, run = 0; i < to; i += run, target += run) {
          const std::int64_t tap = i / channels;
          std::int64_t last = tap - tap % row_taps_ + row_taps_ - 1;
          const bool is_input = inside(tap);
          if (last > tap && !(is_input && inside(last))) last = tap;
          run = std::min((last + 1) * channels, to) - i;
          if (is_input)
            widen_bytes(p_.input_type,
                        input + origins[row].offset + taps_[static_cast<std::size_t>(tap)].offset +
                            group_offset + i % channels * input_strides_[1],
                        input_strides_[1], run, target);
          else
            std::fill_n(target, run, std::int16_t{0});
        }
      });
  for (std::int64_t r = 0; r < part.rows; ++r) {
    std::int32_t* to = output + output_offset(part.row + r) +
                       (part.matrix * outputs + part.first) * output_strides_[1];
    for (std::int64_t c = 0; c < part.end - part.first; ++c)
      to[c * output_strides_[1]] = sums[r * NarrowPanels::kMostColumns + c];
  }
}

void ConvNarrow::multiply_taps(std::int64_t position, const std::byte* input, std::int32_t* output,
                               std::byte* workspace) const {
  auto** x = reinterpret_cast<const std::byte**>(workspace);
  auto** w = reinterpret_cast<const std::int16_t**>(x + taps_.size());
  auto* sums = reinterpret_cast<std::int32_t*>(w + taps_.size());
  auto* dense = reinterpret_cast<std::byte*>(sums + p_.group);
  const Origin origin = origin_of(position);
  std::int64_t taps = 0;
  for (std::size_t t = 0; t < taps_.size(); ++t) {
    if (!is_inside(origin, taps_[t])) continue;
    x[taps] = input + origin.offset + taps_[t].offset;
    w[taps++] = channels_.data() + static_cast<std::int64_t>(t) * p_.group;
  }
  std::int32_t* to = output + output_offset(position);
  if (p_.channels_last) return multiply_channels(p_.input_type, x, w, taps, p_.group, to);
  for (std::int64_t t = 0; t < taps; ++t, dense += p_.group) {
    for (std::int64_t c = 0; c < p_.group; ++c) dense[c] = x[t][c * input_strides_[1]];
    x[t] = dense;
  }
  multiply_channels(p_.input_type, x, w, taps, p_.group, sums);
  for (std::int64_t c = 0; c < p_.group; ++c) to[c * output_strides_[1]] = sums[c];
}

void ConvNarrow::execute(std::span<std::byte* const> buffers,
                         std::span<std::byte* const> workspaces) {
  const std::byte* input = buffers[input_];
  auto* output = reinterpret_cast<std::int32_t*>(buffers[output_]);
  const std::int64_t rows = p_.output[0] * positions_;
  if (is_depthwise_)
    channels_.refresh(buffers, threads_);
  else
    panels_.refresh(buffers, threads_);
  // Depthwise channels share no operands, so depthwise parts split rows only.
  const NarrowParts parts(is_depthwise_ ? 1 : p_.group, rows,
                          is_depthwise_ ? 1 : p_.output[1] / p_.group);
  threads::run_parts(parts.count(), threads_, [&](threads::Member& member) {
    std::byte* workspace = workspaces[static_cast<std::size_t>(member.me())];
    while (const auto index = member.next()) {
      const NarrowParts::Part part = parts[*index];
      if (!is_depthwise_) {
        multiply_block(part, input, output, workspace);
        continue;
      }
      for (std::int64_t r = 0; r < part.rows; ++r)
        multiply_taps(part.row + r, input, output, workspace);
    }
  });
}

}  // namespace sinter::runtime::cpu
