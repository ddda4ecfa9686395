// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/rounded_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "runtime/cpu/ops/panel_ops.h"
// Unlike floats (vector_targets.h), 8-bit integers have instructions of their own in AVX3_DL: VNNI.
#define HWY_DISABLED_TARGETS HWY_SSSE3
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/rounded_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

#include "runtime/cpu/ops/vectors/panel_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using I = hn::RebindToSigned<P>;
using IV = hn::VFromD<I>;

#if HWY_TARGET == HWY_AVX3_DL
constexpr bool kHasDots = true;
#else
constexpr bool kHasDots = false;
#endif
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define SINTER_HAS_PAIRS 1  // x86 without VNNI: sums of two products in 16 bits
#else
#define SINTER_HAS_PAIRS 0
#endif
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kMostRows = 8;
#else
constexpr int kMostRows = SINTER_HAS_PAIRS ? 4 : 2;
#endif
/// Elements of a block after which Sums::close() must be called.
constexpr std::int64_t kMostOpen = 32;

#if SINTER_HAS_PAIRS
// vpmaddubsw, which Highway 1.0.3 lacks: unsigned bytes times signed ones, pairs added in 16 bits;
// and vpsignb: y where x is positive, -y where it is negative, 0 where it is 0.
using PairTag = hn::RepartitionToNarrow<I>;
using Pairs = hn::VFromD<PairTag>;
HWY_INLINE Pairs multiplied_pairs(Words unsigned_bytes, IV bytes) {
#if HWY_TARGET == HWY_AVX3
  return Pairs{_mm512_maddubs_epi16(unsigned_bytes.raw, bytes.raw)};
#elif HWY_TARGET == HWY_AVX2
  return Pairs{_mm256_maddubs_epi16(unsigned_bytes.raw, bytes.raw)};
#else
  return Pairs{_mm_maddubs_epi16(unsigned_bytes.raw, bytes.raw)};
#endif
}
HWY_INLINE IV with_sign_of(Words x, IV y) {
#if HWY_TARGET == HWY_AVX3
  const __mmask64 negative = _mm512_movepi8_mask(x.raw);
  return IV{_mm512_mask_sub_epi8(y.raw, negative, _mm512_setzero_si512(), y.raw)};
#elif HWY_TARGET == HWY_AVX2
  return IV{_mm256_sign_epi8(y.raw, x.raw)};
#else
  return IV{_mm_sign_epi8(y.raw, x.raw)};
#endif
}
#endif

/// Four codes in each lane's bytes, as integers: unsigned, more by kBias, if kHasDots; else signed.
template <Codes kCodes>
class Bytes {
 public:
  static constexpr std::int32_t kBias = kCodes != Codes::kNibbles && kHasDots ? 128 : 0;

  explicit Bytes([[maybe_unused]] const QuantPanels& w) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kCodes == Codes::kTable) {
      const hn::FixedTag<std::uint8_t, 16> d;
      const auto numbers = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(w.numbers.data()));
      hn::StoreU(hn::Xor(numbers, hn::Set(d, static_cast<std::uint8_t>(kBias))), d, numbers_);
    }
#else
    std::memcpy(numbers_, w.numbers.data(), sizeof numbers_);
#endif
  }

  /// Elements 4 * kAt to 4 * kAt + 3 of each word.
  template <int kAt>
  HWY_INLINE Words at(Words words) const {
    const WordTag d;
    if constexpr (kCodes == Codes::kBytes) {
      if constexpr (kBias != 0) return hn::Xor(words, hn::Set(d, 0x80808080U));
      return words;
    } else {
      const Words codes = hn::And(hn::ShiftRight<4 * kAt>(words), hn::Set(d, 0x0f0f0f0fU));
      if constexpr (kCodes == Codes::kNibbles) return codes;
#if HWY_TARGET == HWY_SCALAR
      std::uint32_t four = hn::GetLane(codes), found = 0;
      for (int i = 0; i < 4; ++i)
        found |= std::uint32_t{numbers_[four >> (8 * i) & 15U]} << (8 * i);
      return hn::Set(d, found);
#else
      const auto table = hn::LoadDup128(ByteTag(), numbers_);
      return hn::BitCast(d, hn::TableLookupBytes(table, hn::BitCast(ByteTag(), codes)));
#endif
    }
  }

 private:
  HWY_ALIGN std::uint8_t numbers_[16] = {};
};

HWY_INLINE std::int32_t four_at(const std::int8_t* codes) {
  std::int32_t four = 0;
  std::memcpy(&four, codes, sizeof four);
  return four;
}

/// Sums of four products of each lane's bytes and of `x`.
template <Codes kCodes>
class Sums {
 public:
  HWY_INLINE void set(IV value) {
    sum_ = value;
#if SINTER_HAS_PAIRS
    pairs_ = hn::Zero(PairTag());
#else
    more_ = hn::Zero(I());
#endif
  }
  /// What becomes of `bytes` for all rows of x.
  static HWY_INLINE Words prepared(Words bytes) {
#if SINTER_HAS_PAIRS
    if constexpr (kCodes != Codes::kNibbles) {
      const hn::RepartitionToNarrow<PairTag> d8;
      return hn::BitCast(WordTag(), hn::Abs(hn::BitCast(d8, bytes)));
    }
#endif
    return bytes;
  }
  /// `ready` is prepared(bytes).
  HWY_INLINE void add([[maybe_unused]] Words bytes, Words ready, const std::int8_t (*x)[4]) {
#if SINTER_HAS_PAIRS
    const IV right = hn::Set(I(), four_at(*x));
    if constexpr (kCodes == Codes::kNibbles) {
      // 8 times 2 products of at most 15 * 127 fit 16 bits.
      static_assert(kMostOpen / 4 * 2 * 15 * 127 <= INT16_MAX);
      pairs_ = hn::Add(pairs_, multiplied_pairs(ready, right));
    } else {
      // 2 products of at most 128 * 127 do.
      const Pairs products = multiplied_pairs(ready, with_sign_of(bytes, right));
      sum_ = hn::Add(sum_, added(products));
    }
#else
    add(ready, x);
#endif
  }
  /// Ends at most kMostOpen elements.
  HWY_INLINE void close() {
#if SINTER_HAS_PAIRS
    if constexpr (kCodes == Codes::kNibbles) {
      sum_ = hn::Add(sum_, added(pairs_));
      pairs_ = hn::Zero(PairTag());
    }
#endif
  }
  HWY_INLINE PV floats() const {
#if HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_SCALAR || SINTER_HAS_PAIRS
    return hn::ConvertTo(P(), sum_);
#else
    return hn::ConvertTo(P(), hn::RearrangeToOddPlusEven(sum_, more_));
#endif
  }

 private:
#if SINTER_HAS_PAIRS
  /// Sums of neighbours, in 32 bits.
  static HWY_INLINE IV added(Pairs pairs) {
    const auto ones = hn::Set(PairTag(), 1);
#if HWY_TARGET == HWY_AVX3
    return IV{_mm512_madd_epi16(pairs.raw, ones.raw)};
#elif HWY_TARGET == HWY_AVX2
    return IV{_mm256_madd_epi16(pairs.raw, ones.raw)};
#else
    return IV{_mm_madd_epi16(pairs.raw, ones.raw)};
#endif
  }

  IV sum_;
  Pairs pairs_;  // of codes of 4 bits: not yet in `sum_`
#else
  HWY_INLINE void add(Words bytes, const std::int8_t (*x)[4]) {
#if HWY_TARGET == HWY_AVX3_DL
    // Highway 1.0.3 compiles this target without avx512vnni, which it asks processors for.
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum_.raw) : "v"(bytes.raw), "m"(*x));
#elif HWY_TARGET == HWY_SCALAR
    const auto word = hn::GetLane(bytes);
    std::int32_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<std::int8_t>(word >> (8 * i)) * (*x)[i];
    sum_ = hn::Add(sum_, hn::Set(I(), sum));
#else
    const hn::RepartitionToNarrow<I> d16;
    const auto pairs = [&](auto v) HWY_ATTR { return hn::BitCast(d16, v); };
    const auto low = [&](auto v) HWY_ATTR { return hn::ShiftRight<8>(hn::ShiftLeft<8>(v)); };
    const auto left = pairs(bytes), right = pairs(hn::Set(I(), four_at(*x)));
    sum_ = hn::ReorderWidenMulAccumulate(I(), low(left), low(right), sum_, more_);
    sum_ = hn::ReorderWidenMulAccumulate(I(), hn::ShiftRight<8>(left), hn::ShiftRight<8>(right),
                                         sum_, more_);
#endif
  }

  IV sum_, more_;
#endif
};

template <Codes kCodes, Shift kShift, int kRows>
HWY_INLINE void dot_tile(const QuantPanels& w, std::int64_t panel, const RoundedRows& x,
                         std::int64_t first, float* y, std::int64_t y_pitch) {
  constexpr int kQuads = kDepth<kCodes> / 4;
  const P d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Bytes<kCodes> bytes(w);
  const std::byte* values = w.values + panel * w.panel_bytes;
  const std::int8_t* rows[kRows];
  for (int m = 0; m < kRows; ++m) rows[m] = x.codes + (first + m) * x.pitch;
  const std::int32_t bias = kCodes == Codes::kNibbles ? 8 + w.zero : Bytes<kCodes>::kBias;
  PV total[kRows][kPanelVectors];
  for (int m = 0; m < kRows; ++m)
    for (int v = 0; v < kPanelVectors; ++v) total[m][v] = hn::Zero(d);
  for (std::int64_t b = 0; b < x.blocks; ++b) {
    const std::int64_t begin = b * x.block, end = std::min(begin + x.block, w.k);
    const std::int64_t at = (panel * w.groups + begin / w.group) * kPanelStep;
    using Own = Sums<kCodes>;
    Own sums[kRows][kPanelVectors];
    HWY_UNROLL(8)
    for (int m = 0; m < kRows; ++m) {
      const IV start =
          hn::Mul(hn::Set(I(), -bias), hn::Set(I(), x.sums[(first + m) * x.blocks + b]));
      for (int v = 0; v < kPanelVectors; ++v) sums[m][v].set(start);
    }
    for (std::int64_t from = begin; from < end; from += kMostOpen) {
      const std::int64_t to = std::min(from + kMostOpen, end);
      for (std::int64_t k = from; k < to; k += kDepth<kCodes>) {
        Words words[kPanelVectors];
        for (int v = 0; v < kPanelVectors; ++v)
          words[v] = words_at(values, k / kDepth<kCodes>, v * lanes);
        for_each_of<kQuads>([&](auto quad) HWY_ATTR {
          constexpr int kAt = decltype(quad)::value;
          Words four[kPanelVectors], ready[kPanelVectors];
          for (int v = 0; v < kPanelVectors; ++v) {
            four[v] = bytes.template at<kAt>(words[v]);
            ready[v] = Own::prepared(four[v]);
          }
          HWY_UNROLL(8)
          for (int m = 0; m < kRows; ++m) {
            const auto* x = reinterpret_cast<const std::int8_t(*)[4]>(rows[m] + k + 4 * kAt);
            for (int v = 0; v < kPanelVectors; ++v) sums[m][v].add(four[v], ready[v], x);
          }
        });
      }
      HWY_UNROLL(8)
      for (int m = 0; m < kRows; ++m)
        for (int v = 0; v < kPanelVectors; ++v) sums[m][v].close();
    }
    for (int v = 0; v < kPanelVectors; ++v) {
      const PV scale = scales_at(w.scales, at + v * lanes);
      HWY_UNROLL(8)
      for (int m = 0; m < kRows; ++m) {
        const std::int64_t own = (first + m) * x.blocks + b;
        PV sum = sums[m][v].floats();
        if constexpr (has_zeros(kShift))
          sum = hn::NegMulAdd(zeros_at(w, at + v * lanes),
                              hn::Set(d, static_cast<float>(x.sums[own])), sum);
        total[m][v] = hn::MulAdd(hn::Mul(scale, hn::Set(d, x.scales[own])), sum, total[m][v]);
        if constexpr (has_offsets(kShift))
          total[m][v] =
              hn::MulAdd(scales_at(w.offsets, at + v * lanes),
                         hn::Set(d, x.scales[own] * static_cast<float>(x.sums[own])), total[m][v]);
      }
    }
  }
  for (int m = 0; m < kRows; ++m)
    for (int v = 0; v < kPanelVectors; ++v) hn::StoreU(total[m][v], d, y + m * y_pitch + v * lanes);
}

template <Codes kCodes, Shift kShift, int kRows>
void dot_rows_from(const QuantPanels& w, std::int64_t panel, const RoundedRows& x,
                   std::int64_t first, std::int64_t count, float* y, std::int64_t y_pitch) {
  std::int64_t m = 0;
  for (; m + kRows <= count; m += kRows)
    dot_tile<kCodes, kShift, kRows>(w, panel, x, first + m, y + m * y_pitch, y_pitch);
  if constexpr (kRows > 1)
    dot_rows_from<kCodes, kShift, kRows / 2>(w, panel, x, first + m, count - m, y + m * y_pitch,
                                             y_pitch);
}

void dot_rounded_vectors(const QuantPanels& w, std::int64_t panel, const RoundedRows& x,
                         std::int64_t first, std::int64_t count, float* y, std::int64_t y_pitch) {
  with_kind(w, [&](auto codes, auto shift) {
    // Rows that meet floats are not rounded.
    if constexpr (!are_floats(decltype(codes)::value))
      dot_rows_from<decltype(codes)::value, decltype(shift)::value, kMostRows>(w, panel, x, first,
                                                                               count, y, y_pitch);
  });
}

void round_vectors(const float* x, std::int64_t k, std::int64_t block, std::int8_t* codes,
                   float* scales, std::int32_t* sums) {
  constexpr float kMost = 127;
  const P d;
  const I d32;
  const hn::Rebind<std::int8_t, P> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float padded[kMostRounded];
  for (std::int64_t begin = 0; begin < k; begin += block, codes += block) {
    const float* from = x + begin;
    if (begin + block > k) {
      std::fill_n(padded, block, 0.0F);
      std::copy_n(from, k - begin, padded);
      from = padded;
    }
    PV most = hn::Zero(d), special = hn::Zero(d);
    for (std::int64_t i = 0; i < block; i += lanes) {
      const PV values = hn::LoadU(d, from + i);
      most = hn::Max(most, hn::Abs(values));
      special = hn::MulAdd(values, hn::Zero(d), special);  // NaN behind NaN and infinities
    }
    const float greatest = hn::GetLane(hn::MaxOfLanes(d, most)),
                lost = hn::GetLane(hn::SumOfLanes(d, special));
    const bool is_finite = std::isfinite(greatest) && !std::isnan(lost);
    const float factor = is_finite && greatest > 0 ? kMost / greatest : 0;
    // A subnormal block has no finite factor: it is zero.
    const PV inverse = hn::Set(d, std::isfinite(factor) ? factor : 0.0F);
    auto sum = hn::Zero(d32);
    for (std::int64_t i = 0; i < block; i += lanes) {
      const IV rounded =
          is_finite ? hn::NearestInt(hn::Mul(hn::LoadU(d, from + i), inverse)) : hn::Zero(d32);
      sum = hn::Add(sum, rounded);
      hn::StoreU(hn::DemoteTo(d8, rounded), d8, codes + i);
    }
    *scales++ = is_finite ? greatest / kMost : std::nanf("");
    *sums++ = hn::GetLane(hn::SumOfLanes(d32, sum));
  }
}

#undef SINTER_HAS_PAIRS

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(round_vectors);
HWY_EXPORT(dot_rounded_vectors);

void round_row(const float* x, std::int64_t k, std::int64_t block, std::int8_t* codes,
               float* scales, std::int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(round_vectors)(x, k, block, codes, scales, sums);
}

void dot_rounded(const QuantPanels& weights, std::int64_t panel, const RoundedRows& x,
                 std::int64_t first, std::int64_t count, float* y, std::int64_t y_pitch) {
  HWY_DYNAMIC_DISPATCH(dot_rounded_vectors)(weights, panel, x, first, count, y, y_pitch);
}

}  // namespace sinter::runtime::cpu
#endif
