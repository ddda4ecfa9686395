// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of float32 planes, with vector instructions chosen at run time.
#pragma once

#include <cstdint>

namespace sinter::runtime::cpu {

/// Input rows include the padding. Vectors may read this number of elements beyond a row's end.
inline constexpr std::int64_t kPlaneSlack = 64;

struct DepthwisePlane {
  const float* in = nullptr;
  std::int64_t in_pitch = 0;       // elements from row to row
  const float* weights = nullptr;  // [kernel_rows, kernel_columns]
  std::int64_t kernel_rows = 0, kernel_columns = 0;
  std::int64_t row_stride = 1, row_dilation = 1;
  const std::int64_t* offsets = nullptr;  // offset of each kernel column in a row
  float bias = 0;
  float* out = nullptr;  // [rows, columns]
  std::int64_t rows = 0, columns = 0;
};

/// out[r, c] = bias + sum of weights[i, j] * in[r * row_stride + i * row_dilation][offsets[j] + c].
void convolve_plane(const DepthwisePlane& plane);

/// even[i] = row[2 i] and odd[i] = row[2 i + 1] of `count` elements. Writes up to kPlaneSlack more.
void part_pairs(const float* row, std::int64_t count, float* even, float* odd);

}  // namespace sinter::runtime::cpu
