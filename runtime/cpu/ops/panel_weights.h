// SPDX-License-Identifier: Apache-2.0
// Where quantized weights in panels lie.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sinter::runtime::cpu {

/// f16 or f32; the other is null, or both.
struct PanelFloats {
  const std::uint16_t* halves = nullptr;
  const float* words = nullptr;
};

/// Quantized weights [n, k] in panels of kPanelStep rows (runtime/plan/panels/quant_panels.h). Zero
/// points are of one kind or none. Padding rows of the last panel have scale 0.
struct QuantPanels {
  const std::byte* values = nullptr;
  std::int64_t panel_bytes = 0;
  int bits = 8;
  bool are_bfloat16 = false;  // those of 16 bits; otherwise float16
  bool has_numbers = false;  // 4-bit codes are indices of `numbers`; otherwise -8 to 7, less `zero`
  std::array<std::int8_t, 16> numbers = {};
  int zero = 0;
  std::int64_t k = 0, group = 1, groups = 1;
  PanelFloats scales, offsets;
  const float* float_zeros = nullptr;
  const std::int8_t* zeros = nullptr;
};

}  // namespace sinter::runtime::cpu
