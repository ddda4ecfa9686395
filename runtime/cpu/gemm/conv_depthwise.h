// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of float32 in NCHW order, plane by plane in place. oneDNN would require
// channels last.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/cpu/gemm/conv_problem.h"

namespace sinter::runtime::cpu {

class ConvDepthwise {
 public:
  /// `weights` is null if they are computed. Padding is multiplied as zeros, so weights must be
  /// finite.
  static bool takes(const ConvProblem& problem, const plan::fb::ConvStepT& step,
                    const std::byte* weights);
  /// Requires takes() and no empty dimension.
  ConvDepthwise(const ConvProblem& problem, const plan::fb::ConvStepT& step, int threads);

  /// Bytes for each thread.
  std::size_t workspace_bytes() const;
  void execute(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  void run_part(std::int64_t plane, std::int64_t row, std::int64_t rows,
                std::span<std::byte* const> buffers, float* room) const;
  void copy_row(const float* from, float* to) const;

  const plan::fb::ConvStepT* step_;
  std::int64_t planes_, outputs_of_image_, outputs_of_channel_;
  std::int64_t height_, width_, out_height_, out_width_;
  std::int64_t kernel_rows_, kernel_columns_;
  std::int64_t row_stride_ = 1, stride_, row_dilation_ = 1, dilation_;
  std::int64_t row_pad_ = 0, pad_;
  std::int64_t phase_pitch_ = 0;  // elements of one phase of a row, with slack
  std::int64_t rows_of_part_ = 1;
  std::vector<std::int64_t> offsets_;
  int threads_;
};

}  // namespace sinter::runtime::cpu
