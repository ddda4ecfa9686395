// SPDX-License-Identifier: Apache-2.0
// Panels of quantized weights (QuantPanels), for one Highway target.
#if defined(SINTER_PANEL_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SINTER_PANEL_CODES_INL_H_
#undef SINTER_PANEL_CODES_INL_H_
#else
#define SINTER_PANEL_CODES_INL_H_
#endif

#include <type_traits>

#include <hwy/highway.h>

#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/cpu/ops/panel_weights.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// At most a panel wide.
using P = hn::CappedTag<float, kPanelStep>;
using PV = hn::VFromD<P>;
constexpr int kPanelVectors = kPanelStep / static_cast<int>(hn::MaxLanes(P()));
/// Words of a panel, one for each row (quant_panels.h).
using WordTag = hn::RebindToUnsigned<P>;
using Words = hn::VFromD<WordTag>;
#if HWY_TARGET != HWY_SCALAR
using ByteTag = hn::RepartitionToNarrow<hn::RepartitionToNarrow<WordTag>>;
#endif

/// Encoding of weights: 8-bit integers, 4-bit integers from -8 to 7, 4-bit indices of a table, or
/// floats of 16 bits.
enum class Codes { kBytes, kNibbles, kTable, kFloat16, kBFloat16 };
constexpr bool are_floats(Codes codes) {
  return codes == Codes::kFloat16 || codes == Codes::kBFloat16;
}

/// Terms beside the codes: none, zero points of each group (before scaling), offsets (after
/// scaling), or both.
enum class Shift { kNone, kZeros, kOffsets, kBoth };
constexpr bool has_zeros(Shift shift) { return shift == Shift::kZeros || shift == Shift::kBoth; }
constexpr bool has_offsets(Shift shift) {
  return shift == Shift::kOffsets || shift == Shift::kBoth;
}

/// Codes of a unit: a word, or four floats.
template <Codes kCodes>
constexpr int kDepth = kCodes == Codes::kBytes || are_floats(kCodes) ? 4 : 8;

/// Bit of a word where element `i` begins.
template <Codes kCodes>
constexpr int bit_of(int i) {
  return kCodes == Codes::kBytes ? 8 * i : 8 * (i % 4) + (i < 4 ? 0 : 4);
}

HWY_INLINE Words words_at(const std::byte* panel, std::int64_t unit, std::int64_t lane) {
  return hn::LoadU(WordTag(),
                   reinterpret_cast<const std::uint32_t*>(panel) + unit * kPanelStep + lane);
}

/// A unit of each row: words, or where the first floats are.
template <Codes kCodes>
HWY_INLINE auto unit_at(const std::byte* panel, std::int64_t unit, std::int64_t lane) {
  if constexpr (are_floats(kCodes))
    return reinterpret_cast<const std::uint16_t*>(panel) + unit * kDepth<kCodes> * kPanelStep +
           lane;
  else
    return words_at(panel, unit, lane);
}

/// Floats of 16 bits, widened.
template <Codes kCodes>
HWY_INLINE PV widened(const std::uint16_t* from) {
  const P d;
  if constexpr (kCodes == Codes::kFloat16) {
    const hn::Rebind<hwy::float16_t, P> d16;
    return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
  } else {
    const hn::Rebind<std::uint16_t, P> d16;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(WordTag(), hn::LoadU(d16, from))));
  }
}

/// Calls `one` with the types of 0, 1, .. below kCount.
template <int kCount, class One>
HWY_INLINE void for_each_of(const One& one) {
  if constexpr (kCount > 0) {
    for_each_of<kCount - 1>(one);
    one(std::integral_constant<int, kCount - 1>());
  }
}

/// Scales or offsets of 16 or 32 bits.
HWY_INLINE PV scales_at(const PanelFloats& floats, std::int64_t at) {
  const P d;
  if (floats.halves == nullptr) return hn::LoadU(d, floats.words + at);
  const hn::Rebind<hwy::float16_t, P> d16;
  return hn::PromoteTo(d,
                       hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(floats.halves) + at));
}

/// Zero points.
HWY_INLINE PV zeros_at(const QuantPanels& w, std::int64_t at) {
  const P d;
  if (w.float_zeros != nullptr) return hn::LoadU(d, w.float_zeros + at);
  const hn::Rebind<std::int8_t, P> d8;
  const hn::RebindToSigned<P> d32;
  return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, w.zeros + at)));
}

/// Calls `run` with the encoding and the shift, as types.
template <class Run>
HWY_INLINE void with_kind(const QuantPanels& w, const Run& run) {
  const bool zeros = w.zeros != nullptr || w.float_zeros != nullptr,
             offsets = w.offsets.halves != nullptr || w.offsets.words != nullptr;
  const auto with_shift = [&](auto codes) {
    if constexpr (codes.value != Codes::kTable) {
      if (zeros && offsets) return run(codes, std::integral_constant<Shift, Shift::kBoth>());
      if (zeros) return run(codes, std::integral_constant<Shift, Shift::kZeros>());
    }
    if (offsets) return run(codes, std::integral_constant<Shift, Shift::kOffsets>());
    run(codes, std::integral_constant<Shift, Shift::kNone>());
  };
  if (w.bits == 16 && w.are_bfloat16)
    run(std::integral_constant<Codes, Codes::kBFloat16>(),
        std::integral_constant<Shift, Shift::kNone>());
  else if (w.bits == 16)
    run(std::integral_constant<Codes, Codes::kFloat16>(),
        std::integral_constant<Shift, Shift::kNone>());
  else if (w.has_numbers)
    with_shift(std::integral_constant<Codes, Codes::kTable>());
  else if (w.bits == 4)
    with_shift(std::integral_constant<Codes, Codes::kNibbles>());
  else
    with_shift(std::integral_constant<Codes, Codes::kBytes>());
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#endif  // per target
