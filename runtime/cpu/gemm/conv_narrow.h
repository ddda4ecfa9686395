// SPDX-License-Identifier: Apache-2.0
// Convolutions of 8-bit integers for CPUs on which oneDNN's are not exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cpu/gemm/conv_problem.h"
#include "runtime/cpu/gemm/narrow_panels.h"

namespace sinter::runtime::cpu {

class ConvNarrow {
 public:
  /// i8 or u8 inputs, i32 output, no bias or activation. Requires no empty dimension.
  ConvNarrow(const ConvProblem& problem, const plan::PlanData& plan,
             const plan::fb::ConvStepT& step, const BoundShape& shape, PackedWeights& weights,
             int threads);

  /// Bytes for each thread.
  std::size_t workspace_bytes() const;
  /// Bytes of widened computed weights.
  std::uint64_t own_bytes() const { return panels_.own_bytes() + channels_.own_bytes(); }
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces);

 private:
  /// An element of the window: its distance from the window's first element, along each spatial
  /// dimension and in the input.
  struct Tap {
    std::vector<std::int64_t> at;
    std::int64_t offset = 0;
  };
  /// Start of a position's window, possibly before the input.
  struct Origin {
    std::int64_t at[3] = {};
    std::int64_t offset = 0;
  };
  Origin origin_of(std::int64_t position) const;
  bool is_inside(const Origin& origin, const Tap& tap) const;
  std::int64_t output_offset(std::int64_t position) const;
  void multiply_block(const NarrowParts::Part& part, const std::byte* input, std::int32_t* output,
                      std::byte* workspace) const;
  /// Depthwise: multiplies each channel separately.
  void multiply_taps(std::int64_t position, const std::byte* input, std::int32_t* output,
                     std::byte* workspace) const;

  ConvProblem p_;
  std::uint32_t input_, output_;
  dims input_strides_, output_strides_;
  std::vector<Tap> taps_;
  std::int64_t row_taps_ = 1;   // consecutive taps with contiguous inputs
  std::int64_t positions_ = 1;  // windows in one image
  bool is_depthwise_;
  NarrowPanels panels_;    // a matrix [tap, channel] x [output] for each group
  WidenedBytes channels_;  // depthwise: [tap, channel]
  int threads_;
};

}  // namespace sinter::runtime::cpu
