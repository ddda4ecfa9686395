// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/quant_ops.h"

#include <algorithm>
#include <type_traits>

#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/quant_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

#include "runtime/cpu/ops/vectors/panel_codes-inl.h"
#include "runtime/cpu/ops/vectors/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
#endif

/// What integers of 4 bits, stored from 0 to 15, are less.
HWY_INLINE float stored_zero(const QuantPanels& w) { return 8.0F + static_cast<float>(w.zero); }

#if HWY_TARGET <= HWY_AVX3
constexpr bool kLooksUp = true;
#else
constexpr bool kLooksUp = false;
#endif

/// Turns codes into numbers.
template <Codes kCodes, Shift kShift>
class Decoder {
 public:
  /// True if `zeros` must be subtracted from numbers.
  static constexpr bool kIsShifted = has_zeros(kShift) || (kCodes == Codes::kNibbles && !kLooksUp);

  /// scaled() gives numbers times this, with fewer instructions.
  static constexpr float kTimes =
      kCodes == Codes::kBytes && HWY_TARGET != HWY_SCALAR ? 16777216.0F : 1.0F;

  explicit Decoder(const QuantPanels& w) {
    if constexpr (are_floats(kCodes)) return;
    if constexpr (kCodes == Codes::kBytes) {
#if HWY_TARGET != HWY_SCALAR
      for (std::uint8_t i = 0; i < 4; ++i) {
        HWY_ALIGN std::uint8_t bytes[16];
        for (std::uint8_t b = 0; b < 16; ++b)
          bytes[b] = b % 4 == 3 ? static_cast<std::uint8_t>(b / 4 * 4 + i) : std::uint8_t{0x80};
        to_top_[i] = hn::LoadDup128(ByteTag(), bytes);
      }
#endif
      return;
    }
    HWY_ALIGN float numbers[16];
    for (int i = 0; i < 16; ++i)
      numbers[i] = kCodes == Codes::kTable
                       ? static_cast<float>(w.numbers[static_cast<std::size_t>(i)])
                       : static_cast<float>(i) - (kIsShifted ? 0.0F : stored_zero(w));
#if HWY_TARGET <= HWY_AVX3
    numbers_ = hn::Load(P(), numbers);
#elif HWY_TARGET != HWY_SCALAR
    if constexpr (kCodes == Codes::kTable)
      table_ = hn::LoadDup128(ByteTag(), reinterpret_cast<const std::uint8_t*>(w.numbers.data()));
#else
    for (int i = 0; i < 16; ++i) numbers_[i] = numbers[i];
#endif
  }

  /// Element `kAt` of each unit.
  template <int kAt>
  HWY_INLINE PV number(const std::uint16_t* floats) const {
    return widened<kCodes>(floats + kAt * kPanelStep);
  }
  template <int kAt>
  HWY_INLINE PV scaled(const std::uint16_t* floats) const {
    return number<kAt>(floats);
  }
  HWY_INLINE PV number(const std::uint16_t* floats, int at) const {
    return widened<kCodes>(floats + at * kPanelStep);
  }
  template <int kAt>
  HWY_INLINE PV number(Words words) const {
    if constexpr (kCodes == Codes::kBytes)
      return signed_byte(hn::ShiftLeft<24 - 8 * kAt>(words));
    else
      return of(hn::ShiftRight<bit_of<kCodes>(kAt)>(words));
  }
  /// The same, times kTimes.
  template <int kAt>
  HWY_INLINE PV scaled(Words words) const {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kCodes == Codes::kBytes) {
      const auto top = hn::TableLookupBytesOr0(hn::BitCast(ByteTag(), words), to_top_[kAt]);
      return hn::ConvertTo(P(), hn::BitCast(hn::RebindToSigned<P>(), top));
    }
#endif
    return number<kAt>(words);
  }
  HWY_INLINE PV number(Words words, int at) const {
    return of(hn::ShiftRightSame(words, bit_of<kCodes>(at)));
  }

  /// The number that means zero, for rows from `lane` on; used if kIsShifted.
  static HWY_INLINE PV zeros_of(const QuantPanels& w, std::int64_t panel, std::int64_t group,
                                std::int64_t lane) {
    const P d;
    const std::int64_t at = (panel * w.groups + group) * kPanelStep + lane;
    const PV stored = hn::Set(d, kCodes == Codes::kNibbles ? stored_zero(w) : 0.0F);
    if (w.float_zeros == nullptr && w.zeros == nullptr) return stored;
    return hn::Add(zeros_at(w, at), stored);
  }

 private:
  /// The integer in the highest bits.
  static HWY_INLINE PV signed_byte(Words words) {
    const hn::RebindToSigned<P> d32;
    return hn::ConvertTo(P(), hn::ShiftRight<24>(hn::BitCast(d32, words)));
  }

  /// The number of the code in the lowest bits; what is above them does not count.
  HWY_INLINE PV of(Words words) const {
    const P d;
    const hn::RebindToSigned<P> d32;
    if constexpr (kCodes == Codes::kBytes) {
      return signed_byte(hn::ShiftLeft<24>(words));
    } else {
#if HWY_TARGET <= HWY_AVX3
      // Reads four bits of an index.
      return PV{_mm512_permutexvar_ps(words.raw, numbers_.raw)};
#else
      const Words codes = hn::And(words, hn::Set(WordTag(), 15U));
      if constexpr (kCodes == Codes::kNibbles) return hn::ConvertTo(d, hn::BitCast(d32, codes));
#if HWY_TARGET == HWY_SCALAR
      return hn::Set(d, numbers_[hn::GetLane(codes)]);
#else
      const auto bytes = hn::TableLookupBytes(table_, hn::BitCast(ByteTag(), codes));
      return signed_byte(hn::ShiftLeft<24>(hn::BitCast(WordTag(), bytes)));
#endif
#endif
    }
  }

#if HWY_TARGET != HWY_SCALAR
  hn::VFromD<ByteTag> to_top_[4];  // of each lane, byte i to the top, zeros below
#endif
#if HWY_TARGET <= HWY_AVX3
  PV numbers_;
#elif HWY_TARGET != HWY_SCALAR
  hn::VFromD<ByteTag> table_;
#else
  float numbers_[16];
#endif
};

HWY_INLINE float sum_of(const float* x, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sums = hn::Add(sums, hn::LoadU(d, x + i));
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < count; ++i) sum += x[i];
  return sum;
}

/// Compensated summation: total + value; `lost` accumulates the rounding errors.
HWY_INLINE PV add_exactly(PV total, PV value, PV& lost) {
  const PV sum = hn::Add(total, value), added = hn::Sub(sum, total);
  lost = hn::Add(lost, hn::Add(hn::Sub(total, hn::Sub(sum, added)), hn::Sub(value, added)));
  return sum;
}

/// Dot products of kRows rows of x and a panel. Accumulates at most kSegment elements in kChains
/// sums, then adds them, scaled, to a compensated total. So a few large elements of x do not lose
/// the others' precision.
template <Codes kCodes, Shift kShift, int kRows>
HWY_INLINE void dot_rows(const QuantPanels& w, std::int64_t panel, const float* const* x, float* y,
                         std::int64_t y_pitch) {
  using Own = Decoder<kCodes, kShift>;
  constexpr int kChains = kManyRegisters ? 4 : 2;
  constexpr std::int64_t kSegment = 128, kUnit = kDepth<kCodes>;
  const P d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Own decoder(w);
  const PV times = hn::Set(d, Own::kTimes);
  [[maybe_unused]] const PV inverse = hn::Set(d, 1 / Own::kTimes);
  const std::byte* values = w.values + panel * w.panel_bytes;
  PV total[kRows][kPanelVectors], lost[kRows][kPanelVectors];
  for (int m = 0; m < kRows; ++m)
    for (int v = 0; v < kPanelVectors; ++v) total[m][v] = lost[m][v] = hn::Zero(d);
  for (std::int64_t g = 0, begin = 0; begin < w.k;) {
    const std::int64_t group_end = (g + 1) * w.group < w.k ? (g + 1) * w.group : w.k,
                       end = begin + kSegment < group_end ? begin + kSegment : group_end;
    const std::int64_t at = (panel * w.groups + g) * kPanelStep;
    PV sum[kChains][kRows][kPanelVectors];
    [[maybe_unused]] PV zeros[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) {
      if constexpr (Own::kIsShifted)
        zeros[v] = hn::Mul(Own::zeros_of(w, panel, g, v * lanes), times);
      for (int c = 0; c < kChains; ++c)
        for (int m = 0; m < kRows; ++m) sum[c][m][v] = hn::Zero(d);
    }
    const auto add = [&](PV q, std::int64_t k, int v, int chain) HWY_ATTR {
      if constexpr (Own::kIsShifted) q = hn::Sub(q, zeros[v]);
      for (int m = 0; m < kRows; ++m)
        sum[chain][m][v] = hn::MulAdd(hn::Set(d, x[m][k]), q, sum[chain][m][v]);
    };
    const auto add_one = [&](std::int64_t k) HWY_ATTR {
      for (int v = 0; v < kPanelVectors; ++v)
        add(hn::Mul(decoder.number(unit_at<kCodes>(values, k / kUnit, v * lanes),
                                   static_cast<int>(k % kUnit)),
                    times),
            k, v, 0);
    };
    std::int64_t k = begin;
    for (; k < end && k % kUnit != 0; ++k) add_one(k);
    for (; k + kUnit <= end; k += kUnit)
      for (int v = 0; v < kPanelVectors; ++v) {
        const auto words = unit_at<kCodes>(values, k / kUnit, v * lanes);
        for_each_of<kUnit>([&](auto i) HWY_ATTR {
          add(decoder.template scaled<decltype(i)::value>(words), k + decltype(i)::value, v,
              decltype(i)::value % kChains);
        });
      }
    for (; k < end; ++k) add_one(k);
    for (int v = 0; v < kPanelVectors; ++v) {
      const PV scale = scales_at(w.scales, at + v * lanes);
      for (int m = 0; m < kRows; ++m) {
        PV all = hn::Add(sum[0][m][v], sum[1][m][v]);
        if constexpr (kChains == 4) all = hn::Add(all, hn::Add(sum[2][m][v], sum[3][m][v]));
        if constexpr (Own::kTimes != 1) all = hn::Mul(all, inverse);
        total[m][v] = add_exactly(total[m][v], hn::Mul(all, scale), lost[m][v]);
      }
    }
    if constexpr (has_offsets(kShift))
      for (int m = 0; m < kRows; ++m) {
        const PV x_sum = hn::Set(d, sum_of(x[m] + begin, end - begin));
        for (int v = 0; v < kPanelVectors; ++v)
          total[m][v] = add_exactly(
              total[m][v], hn::Mul(x_sum, scales_at(w.offsets, at + v * lanes)), lost[m][v]);
      }
    begin = end;
    if (end == group_end) ++g;
  }
  for (int m = 0; m < kRows; ++m)
    for (int v = 0; v < kPanelVectors; ++v)
      hn::StoreU(hn::Add(total[m][v], lost[m][v]), d, y + m * y_pitch + v * lanes);
}

template <Codes kCodes, Shift kShift>
void dot_counted(const QuantPanels& w, std::int64_t panel, const float* const* x,
                 std::int64_t count, float* y, std::int64_t y_pitch) {
  std::int64_t m = 0;
  if constexpr (kManyRegisters)
    for (; m + 4 <= count; m += 4)
      dot_rows<kCodes, kShift, 4>(w, panel, x + m, y + m * y_pitch, y_pitch);
  for (; m + 2 <= count; m += 2)
    dot_rows<kCodes, kShift, 2>(w, panel, x + m, y + m * y_pitch, y_pitch);
  if (m < count) dot_rows<kCodes, kShift, 1>(w, panel, x + m, y + m * y_pitch, y_pitch);
}

void dot_vectors(const QuantPanels& w, std::int64_t panel, const float* const* x,
                 std::int64_t count, float* y, std::int64_t y_pitch) {
  with_kind(w, [&](auto codes, auto shift) {
    dot_counted<decltype(codes)::value, decltype(shift)::value>(w, panel, x, count, y, y_pitch);
  });
}

#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 2;
#endif

/// Computes the first kQuantRows rows of multiply_quantized, kVectors vectors from column `column`
/// on. Dequantization overlaps with the multiply-adds, so it is almost free.
template <Codes kCodes, Shift kShift, int kVectors>
HWY_INLINE void make_tile(const QuantPanels& w, std::int64_t first, std::int64_t column,
                          std::int64_t begin, std::int64_t end, const float* const* x, float* y,
                          std::int64_t y_pitch, float* made) {
  using Own = Decoder<kCodes, kShift>;
  constexpr int kRows = kQuantRows;
  constexpr std::int64_t kUnit = kDepth<kCodes>;
  const P d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Own decoder(w);
  const std::byte* values[kVectors];
  std::int64_t panels[kVectors], rows[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t at = column + v * lanes;
    panels[v] = first + at / kPanelStep;
    rows[v] = at % kPanelStep;
    values[v] = w.values + panels[v] * w.panel_bytes;
  }
  y += column;
  made += column;
  for (std::int64_t from = begin; from < end;) {
    const std::int64_t g = from / w.group, to = (g + 1) * w.group < end ? (g + 1) * w.group : end;
    PV sum[kRows][kVectors], scales[kVectors];
    [[maybe_unused]] PV zeros[kVectors], offsets[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = (panels[v] * w.groups + g) * kPanelStep + rows[v];
      scales[v] = scales_at(w.scales, at);
      if constexpr (Own::kIsShifted) zeros[v] = Own::zeros_of(w, panels[v], g, rows[v]);
      if constexpr (has_offsets(kShift)) offsets[v] = scales_at(w.offsets, at);
      HWY_UNROLL(8)
      for (int m = 0; m < kRows; ++m) sum[m][v] = hn::LoadU(d, y + m * y_pitch + v * lanes);
    }
    // `number_of(v)`: element k of the rows of vector v.
    const auto add = [&](std::int64_t k, const auto& number_of) HWY_ATTR {
      PV right[kVectors];
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        right[v] = number_of(v);
        if constexpr (Own::kIsShifted) right[v] = hn::Sub(right[v], zeros[v]);
        if constexpr (has_offsets(kShift))
          right[v] = hn::MulAdd(right[v], scales[v], offsets[v]);
        else
          right[v] = hn::Mul(right[v], scales[v]);
        hn::StoreU(right[v], d, made + (k - begin) * kQuantColumns + v * lanes);
      }
      HWY_UNROLL(8)
      for (int m = 0; m < kRows; ++m) {
        const PV left = hn::Set(d, x[m][k - begin]);
        HWY_UNROLL(4)
        for (int v = 0; v < kVectors; ++v) sum[m][v] = hn::MulAdd(left, right[v], sum[m][v]);
      }
    };
    const auto add_one = [&](std::int64_t k) HWY_ATTR {
      add(k, [&](int v) HWY_ATTR {
        return decoder.number(unit_at<kCodes>(values[v], k / kUnit, rows[v]),
                              static_cast<int>(k % kUnit));
      });
    };
    std::int64_t k = from;
    for (; k < to && k % kUnit != 0; ++k) add_one(k);
    for (; k + kUnit <= to; k += kUnit) {
      decltype(unit_at<kCodes>(values[0], 0, 0)) words[kVectors];
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) words[v] = unit_at<kCodes>(values[v], k / kUnit, rows[v]);
      for_each_of<kUnit>([&](auto i) HWY_ATTR {
        add(k + decltype(i)::value,
            [&](int v) HWY_ATTR { return decoder.template number<decltype(i)::value>(words[v]); });
      });
    }
    for (; k < to; ++k) add_one(k);
    HWY_UNROLL(8)
    for (int m = 0; m < kRows; ++m) HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[m][v], d, y + m * y_pitch + v * lanes);
    from = to;
  }
}

template <Codes kCodes, Shift kShift>
void make_columns(const QuantPanels& w, std::int64_t first, std::int64_t columns,
                  std::int64_t begin, std::int64_t end, const float* const* x, float* y,
                  std::int64_t y_pitch, float* made) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(P()));
  std::int64_t n = 0;
  for (; n + kTileVectors * lanes <= columns; n += kTileVectors * lanes)
    make_tile<kCodes, kShift, kTileVectors>(w, first, n, begin, end, x, y, y_pitch, made);
  for (; n + 2 * lanes <= columns; n += 2 * lanes)
    make_tile<kCodes, kShift, 2>(w, first, n, begin, end, x, y, y_pitch, made);
  for (; n < columns; n += lanes)
    make_tile<kCodes, kShift, 1>(w, first, n, begin, end, x, y, y_pitch, made);
}

void make_vectors(const QuantPanels& w, std::int64_t first, std::int64_t columns,
                  std::int64_t begin, std::int64_t end, const float* const* x, float* y,
                  std::int64_t y_pitch, float* made) {
  with_kind(w, [&](auto codes, auto shift) {
    make_columns<decltype(codes)::value, decltype(shift)::value>(w, first, columns, begin, end, x,
                                                                 y, y_pitch, made);
  });
}

HWY_INLINE V activate_vector(D d, V x, plan::fb::Activation activation) {
  using plan::fb::Activation;
  const V one = hn::Set(d, 1.0f), half_x = hn::Mul(x, hn::Set(d, 0.5f));
  switch (activation) {
    case Activation::Relu: return MaxOp::apply(d, x, hn::Zero(d));
    case Activation::GeluErf:
      return hn::Mul(half_x, hn::Add(one, erf_f32(d, hn::Mul(x, hn::Set(d, 0.70710678f)))));
    case Activation::GeluTanh: {
      const V cube = hn::Mul(hn::Mul(x, x), hn::Mul(x, hn::Set(d, 0.044715f)));
      return hn::Mul(half_x,
                     hn::Add(one, tanh_f32(d, hn::Mul(hn::Add(x, cube), hn::Set(d, 0.79788456f)))));
    }
    default: return x;
  }
}

void finish_vectors(float* values, std::int64_t count, float alpha, const float* bias,
                    const float* residual, plan::fb::Activation activation) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V factor = hn::Set(d, alpha);
  const auto finish = [&](V x, V more, V rest) HWY_ATTR {
    return activate_vector(d, hn::Add(hn::Add(hn::Mul(x, factor), more), rest), activation);
  };
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(finish(hn::LoadU(d, values + i), bias ? hn::LoadU(d, bias + i) : hn::Zero(d),
                      residual ? hn::LoadU(d, residual + i) : hn::Zero(d)),
               d, values + i);
  if (i == count) return;
  const auto left = static_cast<std::size_t>(count - i);
  store_tail(
      d,
      finish(load_tail(d, values + i, left), bias ? load_tail(d, bias + i, left) : hn::Zero(d),
             residual ? load_tail(d, residual + i, left) : hn::Zero(d)),
      values + i, left);
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(dot_vectors);
HWY_EXPORT(make_vectors);
HWY_EXPORT(finish_vectors);

void dot_quantized(const QuantPanels& weights, std::int64_t panel, const float* const* x,
                   std::int64_t count, float* y, std::int64_t y_pitch) {
  HWY_DYNAMIC_DISPATCH(dot_vectors)(weights, panel, x, count, y, y_pitch);
}

void multiply_quantized(const QuantPanels& weights, std::int64_t panel, std::int64_t columns,
                        std::int64_t begin, std::int64_t end, const float* const* x,
                        std::int64_t count, float* y, std::int64_t y_pitch, float* made) {
  HWY_DYNAMIC_DISPATCH(make_vectors)
  (weights, panel, columns, begin, end, x, y, y_pitch, made);
  add_products(x + kQuantRows, count - kQuantRows, made, kQuantColumns, columns, end - begin,
               y + kQuantRows * y_pitch, y_pitch);
}

void finish_values(float* values, std::int64_t count, float alpha, const float* bias,
                   const float* residual, plan::fb::Activation activation) {
  HWY_DYNAMIC_DISPATCH(finish_vectors)(values, count, alpha, bias, residual, activation);
}

}  // namespace sinter::runtime::cpu
#endif
