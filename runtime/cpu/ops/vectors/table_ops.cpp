// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/vectors/table_ops.h"

#include <algorithm>

// Only permutations of bytes across vectors (AVX512_VBMI) are faster than one load for each byte.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/vectors/table_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {

void look_up_row(const std::uint8_t* x, const std::uint8_t* table, std::uint8_t* y,
                 std::int64_t count) {
  std::int64_t i = 0;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
  __m512i part[4];
  for (int k = 0; k < 4; ++k) part[k] = _mm512_loadu_si512(table + 64 * k);
  for (; i + 64 <= count; i += 64) {
    const __m512i bytes = _mm512_loadu_si512(x + i);
    const __m512i low = _mm512_permutex2var_epi8(part[0], bytes, part[1]),
                  high = _mm512_permutex2var_epi8(part[2], bytes, part[3]);
    _mm512_storeu_si512(y + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high));
  }
#endif
  for (; i < count; ++i) y[i] = table[x[i]];
}

void look_up(const OpArgs& t) {
  const auto* table = static_cast<const std::uint8_t*>(t.args[1].data);
  for (std::int64_t r = 0; t.cols > 0 && r < t.rows; ++r) {
    const auto* x = static_cast<const std::uint8_t*>(t.args[0].data) + r * t.args[0].row_stride;
    auto* y = static_cast<std::uint8_t*>(t.result) + r * t.result_stride;
    if (t.args[0].per_column)
      look_up_row(x, table, y, t.cols);
    else
      std::fill_n(y, t.cols, table[*x]);
  }
}

OpKernel find_kernel() { return look_up; }

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_kernel);

OpKernel find_table_kernel() { return HWY_DYNAMIC_DISPATCH(find_kernel)(); }

}  // namespace sinter::runtime::cpu
#endif
