#include "runtime/cpu/quant_ops.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/panel_ops.h"
#include "runtime/cpu/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/quant_ops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks.
#include <hwy/highway.h>

#include "runtime/cpu/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
#endif

constexpr std::int64_t kLine = 64;  // bytes of a cache line

/// Vectors for groups of 16 four-bit numbers, which are 8 even and 8 odd ones.
using Narrow = hn::CappedTag<float, 8>;

HWY_INLINE float zero_of(const QuantRows& w, std::int64_t row, std::int64_t group) {
  const std::int64_t at = row * w.groups + group;
  if (w.zeros != nullptr) return static_cast<float>(w.zeros[at]);
  return w.float_zeros != nullptr ? w.float_zeros[at] : 0.0f;
}

/// The number at `i` of a row.
template <int kBits>
HWY_INLINE float number_at(const std::byte* row, std::int64_t i) {
  if constexpr (kBits == 8) return static_cast<float>(static_cast<std::int8_t>(row[i]));
  const int both = std::to_integer<int>(row[i / 2]);
  return static_cast<float>((i % 2 == 0 ? both & 15 : both >> 4) - 8);
}

template <class DF>
HWY_INLINE hn::Vec<DF> widen_signed(DF d, const std::byte* p) {
  const hn::Rebind<std::int8_t, DF> d8;
  const hn::RebindToSigned<DF> d32;
  return hn::ConvertTo(d,
                       hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(p))));
}

/// Even and odd numbers of as many bytes as d has lanes, as they are stored: 0 to 15.
template <class DF, class V>
HWY_INLINE void widen_halves(DF d, const std::byte* p, V& even, V& odd) {
  const hn::Rebind<std::uint8_t, DF> d8;
  const hn::RebindToSigned<DF> d32;
  const auto both = hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(p));
  even = hn::ConvertTo(d, hn::PromoteTo(d32, hn::And(both, hn::Set(d8, std::uint8_t{15}))));
  odd = hn::ConvertTo(d, hn::PromoteTo(d32, hn::ShiftRight<4>(both)));
}

/// Which zero points there are.
enum class Zeros { kNone, kIntegers, kFloats };

/// kRows rows of weights times kCount rows of x.
template <int kBits, Zeros kZeros, int kRows, int kCount, class DF>
class DotBlock {
  using VF = hn::Vec<DF>;

 public:
  HWY_INLINE DotBlock(DF d, const QuantRows& w, std::int64_t first, const float* const* x)
      : w_(w), first_(first), half_(quant_half(w.k)) {
    for (int r = 0; r < kRows; ++r) {
      rows_[r] = w.values + (first + r) * w.pitch;
      scales_[r] = w.scales + (first + r) * w.groups;
    }
    for (int m = 0; m < kCount; ++m) x_[m] = x[m];
    for (int r = 0; r < kRows; ++r)
      for (int m = 0; m < kCount; ++m) total_[r][m] = hn::Zero(d);
  }

  /// What a group's sum is multiplied by is the row's own, so that vectors are added up once, at
  /// the end.
  HWY_INLINE void run(DF d, float* y, std::int64_t y_pitch) {
    const auto step = static_cast<std::int64_t>(hn::Lanes(d)) * (kBits == 4 ? 2 : 1);
    std::int64_t g = 0, begin = 0;
    if (w_.group % step == 0)
      for (; begin + w_.group <= w_.k; begin += w_.group, ++g)
        add_group(d, g, begin, begin + w_.group);
    for (; begin < w_.k; begin += w_.group, ++g) {
      const std::int64_t end = begin + w_.group < w_.k ? begin + w_.group : w_.k,
                         whole = begin + (end - begin) / step * step;
      add_group(d, g, begin, whole);
      add_rest(g, whole, end);
    }
    for (int r = 0; r < kRows; ++r)
      for (int m = 0; m < kCount; ++m)
        y[m * y_pitch + r] = hn::GetLane(hn::SumOfLanes(d, total_[r][m])) + rest_[r][m];
  }

 private:
  HWY_INLINE float zero(int r, std::int64_t g) const {
    const std::int64_t at = (first_ + r) * w_.groups + g;
    if constexpr (kZeros == Zeros::kIntegers) return static_cast<float>(w_.zeros[at]);
    if constexpr (kZeros == Zeros::kFloats) return w_.float_zeros[at];
    return 0;
  }

  HWY_INLINE void add_group(DF d, std::int64_t g, std::int64_t begin, std::int64_t end) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    VF sum[kRows][kCount], zeros[kRows];
    for (int r = 0; r < kRows; ++r) {
      zeros[r] = hn::Set(d, zero(r, g) + (kBits == 4 ? 8.0f : 0.0f));
      for (int m = 0; m < kCount; ++m) sum[r][m] = hn::Zero(d);
    }
    if constexpr (kBits == 8) {
      for (std::int64_t i = begin; i < end; i += lanes) {
        VF x[kCount];
        for (int m = 0; m < kCount; ++m) x[m] = hn::LoadU(d, x_[m] + i);
        for (int r = 0; r < kRows; ++r) {
          if (i % kLine == 0) __builtin_prefetch(rows_[r] + i + ahead_);
          VF q = widen_signed(d, rows_[r] + i);
          if constexpr (kZeros != Zeros::kNone) q = hn::Sub(q, zeros[r]);
          for (int m = 0; m < kCount; ++m) sum[r][m] = hn::MulAdd(q, x[m], sum[r][m]);
        }
      }
    } else {
      for (std::int64_t i = begin / 2; i < end / 2; i += lanes) {
        VF even[kRows], odd[kRows];
        for (int r = 0; r < kRows; ++r) {
          if (i % kLine == 0) __builtin_prefetch(rows_[r] + i + ahead_);
          widen_halves(d, rows_[r] + i, even[r], odd[r]);
          even[r] = hn::Sub(even[r], zeros[r]);
          odd[r] = hn::Sub(odd[r], zeros[r]);
        }
        for (int m = 0; m < kCount; ++m) {
          const VF x = hn::LoadU(d, x_[m] + i), y = hn::LoadU(d, x_[m] + half_ + i);
          for (int r = 0; r < kRows; ++r)
            sum[r][m] = hn::MulAdd(odd[r], y, hn::MulAdd(even[r], x, sum[r][m]));
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      const VF scale = hn::Set(d, scales_[r][g]);
      for (int m = 0; m < kCount; ++m) total_[r][m] = hn::MulAdd(sum[r][m], scale, total_[r][m]);
    }
  }

  HWY_INLINE void add_rest(std::int64_t g, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (int r = 0; r < kRows; ++r) {
        const float q = (number_at<kBits>(rows_[r], i) - zero(r, g)) * scales_[r][g];
        for (int m = 0; m < kCount; ++m)
          rest_[r][m] += q * x_[m][kBits == 8 ? i : i / 2 + (i % 2 == 0 ? 0 : half_)];
      }
    }
  }

  // Weights come from memory: those of rows kAhead bytes behind are asked for, a cache line at a
  // time, since rows are often too short for the processor to do so.
  static constexpr std::int64_t kAhead = 4096;
  const QuantRows& w_;
  std::int64_t first_, half_;
  std::int64_t ahead_ = w_.pitch == 0 ? 0 : (kAhead + w_.pitch - 1) / w_.pitch * w_.pitch;
  const std::byte* rows_[kRows];
  const float* scales_[kRows];
  const float* x_[kCount];
  VF total_[kRows][kCount];
  float rest_[kRows][kCount] = {};
};

template <int kBits, Zeros kZeros, int kCount, class DF>
HWY_INLINE void dot_all(DF d, const QuantRows& w, std::int64_t first, std::int64_t rows,
                        const float* const* x, float* y, std::int64_t y_pitch) {
  constexpr int kRows = kCount == 1 || kManyRegisters ? kCount <= 2 ? 4 : 2 : kCount == 2 ? 2 : 1;
  std::int64_t r = 0;
  for (; r + kRows <= rows; r += kRows)
    DotBlock<kBits, kZeros, kRows, kCount, DF>(d, w, first + r, x).run(d, y + r, y_pitch);
  for (; r < rows; ++r)
    DotBlock<kBits, kZeros, 1, kCount, DF>(d, w, first + r, x).run(d, y + r, y_pitch);
}

template <int kBits, Zeros kZeros, class DF>
void dot_counted(DF d, const QuantRows& w, std::int64_t first, std::int64_t rows,
                 const float* const* x, std::int64_t count, float* y, std::int64_t y_pitch) {
  switch (count) {
    case 1: return dot_all<kBits, kZeros, 1>(d, w, first, rows, x, y, y_pitch);
    case 2: return dot_all<kBits, kZeros, 2>(d, w, first, rows, x, y, y_pitch);
    case 3: return dot_all<kBits, kZeros, 3>(d, w, first, rows, x, y, y_pitch);
    default: return dot_all<kBits, kZeros, 4>(d, w, first, rows, x, y, y_pitch);
  }
}

template <int kBits, class DF>
void dot_zeros(DF d, const QuantRows& w, std::int64_t first, std::int64_t rows,
               const float* const* x, std::int64_t count, float* y, std::int64_t y_pitch) {
  if (w.zeros != nullptr)
    dot_counted<kBits, Zeros::kIntegers>(d, w, first, rows, x, count, y, y_pitch);
  else if (w.float_zeros != nullptr)
    dot_counted<kBits, Zeros::kFloats>(d, w, first, rows, x, count, y, y_pitch);
  else
    dot_counted<kBits, Zeros::kNone>(d, w, first, rows, x, count, y, y_pitch);
}

std::int64_t vector_step(int bits, bool narrow) {
  const auto lanes =
      static_cast<std::int64_t>(narrow ? hn::Lanes(Narrow()) : hn::Lanes(hn::ScalableTag<float>()));
  return bits == 4 ? 2 * lanes : lanes;
}

bool takes_groups(const QuantRows& w, bool narrow) {
  return w.group >= w.k || w.group % vector_step(w.bits, narrow) == 0;
}

bool dots_vector_groups(const QuantRows& w) {
  return takes_groups(w, false) || takes_groups(w, true);
}

void dot_vectors(const QuantRows& w, std::int64_t first, std::int64_t rows, const float* const* x,
                 std::int64_t count, float* y, std::int64_t y_pitch) {
  const auto run = [&](auto d) {
    if (w.bits == 4)
      dot_zeros<4>(d, w, first, rows, x, count, y, y_pitch);
    else
      dot_zeros<8>(d, w, first, rows, x, count, y, y_pitch);
  };
  if (takes_groups(w, false))
    run(hn::ScalableTag<float>());
  else
    run(Narrow());
}

/// No wider than a panel's step.
using P = hn::CappedTag<float, kPanelStep>;

/// A square of bytes.
constexpr int kSide = kPanelStep;

/// to[i][r] = from[r][i].
HWY_INLINE void transpose_bytes(const std::byte* const* from, std::uint8_t (*to)[kSide]) {
#if HWY_TARGET == HWY_SCALAR
  for (int r = 0; r < kSide; ++r)
    for (int i = 0; i < kSide; ++i) to[i][r] = std::to_integer<std::uint8_t>(from[r][i]);
#else
  const hn::FixedTag<std::uint8_t, kSide> d;
  hn::VFromD<decltype(d)> rows[kSide], next[kSide];
  HWY_UNROLL(16)
  for (int r = 0; r < kSide; ++r)
    rows[r] = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from[r]));
  // Each time the bits of (row, place) move round by one, so that after half of them the two have
  // changed places.
  HWY_UNROLL(4)
  for (int bit = 0; bit < 4; ++bit) {
    HWY_UNROLL(8)
    for (int r = 0; r < kSide / 2; ++r) {
      next[2 * r] = hn::InterleaveLower(d, rows[r], rows[r + kSide / 2]);
      next[2 * r + 1] = hn::InterleaveUpper(d, rows[r], rows[r + kSide / 2]);
    }
    HWY_UNROLL(16)
    for (int r = 0; r < kSide; ++r) rows[r] = next[r];
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kSide; ++r) hn::StoreU(rows[r], d, to[r]);
#endif
}

template <int kBits>
void dequantise_bits(const QuantRows& w, std::int64_t first, std::int64_t columns,
                     std::int64_t begin, std::int64_t end, float* to, std::int64_t to_pitch) {
  constexpr std::int64_t kNumbers = kSide * 8 / kBits;  // of a square's row
  const P d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float scales[kSide] = {}, zeros[kSide] = {};
  HWY_ALIGN std::uint8_t square[kSide][kSide];
  std::byte parts[kSide][kSide] = {};  // rows that end within a square, or are none
  const std::byte* rows[kSide];
  std::int64_t group_end = begin;
  for (std::int64_t i = begin; i < end; i += kNumbers) {
    const std::int64_t count = end - i < kNumbers ? end - i : kNumbers;
    // Rows are too short for the processor to see a stream: those of the next panel are asked for.
    if (i * kBits / 8 % kLine == 0)
      for (std::int64_t c = 0; c < kSide; ++c)
        __builtin_prefetch(w.values + (first + kSide + c) * w.pitch + i * kBits / 8);
    for (std::int64_t c = 0; c < kSide; ++c) {
      rows[c] = c < columns ? w.values + (first + c) * w.pitch + i * kBits / 8 : parts[c];
      if (count == kNumbers || c >= columns) continue;
      std::memcpy(parts[c], rows[c], static_cast<std::size_t>((count * kBits + 7) / 8));
      rows[c] = parts[c];
    }
    transpose_bytes(rows, square);
    for (std::int64_t k = i; k < i + count; ++k, to += to_pitch) {
      if (k == group_end) {
        const std::int64_t g = k / w.group;
        group_end = (g + 1) * w.group;
        for (std::int64_t c = 0; c < columns; ++c) {
          scales[c] = w.scales[(first + c) * w.groups + g];
          zeros[c] = zero_of(w, first + c, g) + (kBits == 4 ? 8.0f : 0.0f);
        }
      }
      const auto* row = reinterpret_cast<const std::byte*>(square[(k - i) * kBits / 8]);
      for (std::int64_t c = 0; c < kSide; c += lanes) {
        hn::VFromD<P> q;
        if constexpr (kBits == 8) {
          q = widen_signed(d, row + c);
        } else {
          hn::VFromD<P> even, odd;
          widen_halves(d, row + c, even, odd);
          q = (k - i) % 2 == 0 ? even : odd;
        }
        hn::StoreU(hn::Mul(hn::Sub(q, hn::Load(d, zeros + c)), hn::Load(d, scales + c)), d, to + c);
      }
    }
  }
}

void dequantise_vectors(const QuantRows& w, std::int64_t first, std::int64_t columns,
                        std::int64_t begin, std::int64_t end, float* to, std::int64_t to_pitch) {
  if (w.bits == 8)
    dequantise_bits<8>(w, first, columns, begin, end, to, to_pitch);
  else
    dequantise_bits<4>(w, first, columns, begin, end, to, to_pitch);
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

HWY_EXPORT(dots_vector_groups);
HWY_EXPORT(dot_vectors);
HWY_EXPORT(dequantise_vectors);
HWY_EXPORT(finish_vectors);

std::int64_t quant_half(std::int64_t k) { return k / 2 + k % 2; }

bool dots_directly(const QuantRows& weights) {
  return HWY_DYNAMIC_DISPATCH(dots_vector_groups)(weights);
}

void dot_quantised(const QuantRows& weights, std::int64_t first, std::int64_t rows,
                   const float* const* x, std::int64_t count, float* y, std::int64_t y_pitch) {
  HWY_DYNAMIC_DISPATCH(dot_vectors)(weights, first, rows, x, count, y, y_pitch);
}

void dequantise_panel(const QuantRows& weights, std::int64_t first, std::int64_t columns,
                      std::int64_t begin, std::int64_t end, float* to, std::int64_t to_pitch) {
  HWY_DYNAMIC_DISPATCH(dequantise_vectors)(weights, first, columns, begin, end, to, to_pitch);
}

void finish_values(float* values, std::int64_t count, float alpha, const float* bias,
                   const float* residual, plan::fb::Activation activation) {
  HWY_DYNAMIC_DISPATCH(finish_vectors)(values, count, alpha, bias, residual, activation);
}

}  // namespace sinter::runtime::cpu
#endif
