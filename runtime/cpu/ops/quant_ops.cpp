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

/// At most a panel wide.
using P = hn::CappedTag<float, kPanelStep>;
using PV = hn::VFromD<P>;
constexpr int kPanelVectors = kPanelStep / static_cast<int>(hn::MaxLanes(P()));

/// Encoding of weights: 8-bit integers, 4-bit integers from -8 to 7, or 4-bit indices of a table.
enum class Codes { kBytes, kNibbles, kTable };

/// Terms beside the codes: none, zero points (before scaling), or also offsets (after scaling).
enum class Shift { kNone, kZeros, kOffsets };

/// The row of a panel's bytes that contains element k.
template <Codes kCodes>
HWY_INLINE const std::byte* row_of(const std::byte* panel, std::int64_t k) {
  return panel + (kCodes == Codes::kBytes ? k : k / 2) * kPanelStep;
}

#if HWY_TARGET == HWY_SCALAR
using Table = const std::int8_t*;
HWY_INLINE Table table_of(const QuantPanels& w) { return w.numbers.data(); }
#else
using TableTag = hn::FixedTag<std::int8_t, 16>;
using Table = hn::VFromD<TableTag>;
HWY_INLINE Table table_of(const QuantPanels& w) { return hn::LoadU(TableTag(), w.numbers.data()); }
#endif

/// Loads one weight for each lane of d. 4-bit codes are in the lower (even k) or upper (odd k) half
/// of a byte; they load as stored, 0 to 15, or through `table`.
template <Codes kCodes, bool kOdd>
HWY_INLINE PV widen(P d, const std::byte* p, [[maybe_unused]] Table table) {
  const hn::RebindToSigned<P> d32;
  [[maybe_unused]] const hn::Rebind<std::int8_t, P> d8;
  if constexpr (kCodes == Codes::kBytes) {
    return hn::ConvertTo(
        d, hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(p))));
  } else {
    const hn::Rebind<std::uint8_t, P> du8;
    const auto both = hn::LoadU(du8, reinterpret_cast<const std::uint8_t*>(p));
    const auto codes =
        kOdd ? hn::ShiftRight<4>(both) : hn::And(both, hn::Set(du8, std::uint8_t{15}));
    if constexpr (kCodes == Codes::kTable) {
#if HWY_TARGET == HWY_SCALAR
      return hn::Set(d, static_cast<float>(table[hn::GetLane(codes)]));
#else
      const auto numbers = hn::BitCast(d8, hn::TableLookupBytes(table, codes));
      return hn::ConvertTo(d, hn::PromoteTo(d32, numbers));
#endif
    } else {
      return hn::ConvertTo(d, hn::PromoteTo(d32, codes));
    }
  }
}

/// The stored value that means zero, for rows from `lane` on.
template <Codes kCodes>
HWY_INLINE PV zeros_of(P d, const QuantPanels& w, std::int64_t panel, std::int64_t group,
                       std::int64_t lane) {
  const std::int64_t at = (panel * w.groups + group) * kPanelStep + lane;
  const PV stored = hn::Set(d, kCodes == Codes::kNibbles ? 8.0f : 0.0f);
  if (w.float_zeros != nullptr) return hn::Add(hn::LoadU(d, w.float_zeros + at), stored);
  if (w.zeros == nullptr) return stored;
  const auto* const zeros = reinterpret_cast<const std::byte*>(w.zeros + at);
  return hn::Add(widen<Codes::kBytes, false>(d, zeros, table_of(w)), stored);
}

/// Calls `one(k, odd)` for k in [begin, end). `odd` is a type: true if element k is in the upper
/// half of a byte.
template <Codes kCodes, class One>
HWY_INLINE void for_each_k(std::int64_t begin, std::int64_t end, const One& one) {
  if constexpr (kCodes == Codes::kBytes) {
    for (std::int64_t k = begin; k < end; ++k) one(k, std::false_type());
  } else {
    if (begin % 2 != 0 && begin < end) one(begin++, std::true_type());
    for (; begin + 2 <= end; begin += 2) {
      one(begin, std::false_type());
      one(begin + 1, std::true_type());
    }
    if (begin < end) one(begin, std::false_type());
  }
}

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

template <Codes kCodes, Shift kShift>
constexpr bool kIsShifted = kCodes == Codes::kNibbles ||
                            (kShift != Shift::kNone && kCodes != Codes::kTable);

/// Dot products of kRows rows of x and a panel. Accumulates at most kSegment elements in kChains
/// sums, then adds them, scaled, to a compensated total. So a few large elements of x do not lose
/// the others' precision.
template <Codes kCodes, Shift kShift, int kRows>
HWY_INLINE void dot_rows(const QuantPanels& w, std::int64_t panel, const float* const* x, float* y,
                         std::int64_t y_pitch) {
  constexpr int kChains = kManyRegisters ? 4 : 2;
  constexpr std::int64_t kSegment = 128;
  const P d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Table table = table_of(w);
  const std::byte* values = w.values + panel * w.pitch * kPanelStep;
  PV total[kRows][kPanelVectors], lost[kRows][kPanelVectors];
  for (int m = 0; m < kRows; ++m)
    for (int v = 0; v < kPanelVectors; ++v) total[m][v] = lost[m][v] = hn::Zero(d);
  for (std::int64_t g = 0, begin = 0; begin < w.k;) {
    const std::int64_t group_end = (g + 1) * w.group < w.k ? (g + 1) * w.group : w.k,
                       end = begin + kSegment < group_end ? begin + kSegment : group_end;
    PV sum[kChains][kRows][kPanelVectors], zeros[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) {
      zeros[v] = zeros_of<kCodes>(d, w, panel, g, v * lanes);
      for (int c = 0; c < kChains; ++c)
        for (int m = 0; m < kRows; ++m) sum[c][m][v] = hn::Zero(d);
    }
    const auto add = [&](std::int64_t k, auto odd, int chain) HWY_ATTR {
      for (int v = 0; v < kPanelVectors; ++v) {
        PV q = widen<kCodes, decltype(odd)::value>(d, row_of<kCodes>(values, k) + v * lanes, table);
        if constexpr (kIsShifted<kCodes, kShift>) q = hn::Sub(q, zeros[v]);
        for (int m = 0; m < kRows; ++m)
          sum[chain][m][v] = hn::MulAdd(hn::Set(d, x[m][k]), q, sum[chain][m][v]);
      }
    };
    std::int64_t k = begin;
    if (kCodes != Codes::kBytes && k % 2 != 0) add(k++, std::true_type(), 0);
    for (; k + kChains <= end; k += kChains) {
      HWY_UNROLL(4)
      for (int c = 0; c < kChains; c += 2) {
        add(k + c, std::false_type(), c);
        add(k + c + 1, std::bool_constant<kCodes != Codes::kBytes>(), c + 1);
      }
    }
    for_each_k<kCodes>(k, end, [&](std::int64_t at, auto odd) HWY_ATTR { add(at, odd, 0); });
    for (int v = 0; v < kPanelVectors; ++v) {
      const PV scale = hn::LoadU(d, w.scales + (panel * w.groups + g) * kPanelStep + v * lanes);
      for (int m = 0; m < kRows; ++m) {
        PV all = hn::Add(sum[0][m][v], sum[1][m][v]);
        if constexpr (kChains == 4) all = hn::Add(all, hn::Add(sum[2][m][v], sum[3][m][v]));
        total[m][v] = add_exactly(total[m][v], hn::Mul(all, scale), lost[m][v]);
      }
    }
    if constexpr (kShift == Shift::kOffsets)
      for (int m = 0; m < kRows; ++m) {
        const PV x_sum = hn::Set(d, sum_of(x[m] + begin, end - begin));
        for (int v = 0; v < kPanelVectors; ++v) {
          const PV offset =
              hn::LoadU(d, w.offsets + (panel * w.groups + g) * kPanelStep + v * lanes);
          total[m][v] = add_exactly(total[m][v], hn::Mul(x_sum, offset), lost[m][v]);
        }
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

/// Calls `run` with the encoding and the shift, as types.
template <class Run>
HWY_INLINE void with_kind(const QuantPanels& w, const Run& run) {
  const bool zeros = w.zeros != nullptr || w.float_zeros != nullptr;
  using None = std::integral_constant<Shift, Shift::kNone>;
  using Zeros = std::integral_constant<Shift, Shift::kZeros>;
  using Offsets = std::integral_constant<Shift, Shift::kOffsets>;
  const auto with_shift = [&](auto codes) {
    if (w.offsets != nullptr) return run(codes, Offsets());
    if constexpr (codes.value != Codes::kTable)
      if (zeros) return run(codes, Zeros());
    run(codes, None());
  };
  if (w.has_numbers)
    with_shift(std::integral_constant<Codes, Codes::kTable>());
  else if (w.bits == 4)
    with_shift(std::integral_constant<Codes, Codes::kNibbles>());
  else
    with_shift(std::integral_constant<Codes, Codes::kBytes>());
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
  constexpr int kRows = kQuantRows;
  const P d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Table table = table_of(w);
  const std::byte* values[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t at = column + v * lanes;
    values[v] = w.values + (first + at / kPanelStep) * w.pitch * kPanelStep + at % kPanelStep;
  }
  y += column;
  made += column;
  for (std::int64_t from = begin; from < end;) {
    const std::int64_t g = from / w.group, to = (g + 1) * w.group < end ? (g + 1) * w.group : end;
    PV sum[kRows][kVectors], scales[kVectors], zeros[kVectors];
    [[maybe_unused]] PV offsets[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = column + v * lanes, panel = first + at / kPanelStep,
                         lane = at % kPanelStep;
      scales[v] = hn::LoadU(d, w.scales + (panel * w.groups + g) * kPanelStep + lane);
      zeros[v] = zeros_of<kCodes>(d, w, panel, g, lane);
      if constexpr (kShift == Shift::kOffsets)
        offsets[v] = hn::LoadU(d, w.offsets + (panel * w.groups + g) * kPanelStep + lane);
      HWY_UNROLL(8)
      for (int m = 0; m < kRows; ++m) sum[m][v] = hn::LoadU(d, y + m * y_pitch + v * lanes);
    }
    for_each_k<kCodes>(from, to, [&](std::int64_t k, auto odd) HWY_ATTR {
      PV right[kVectors];
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        right[v] = widen<kCodes, decltype(odd)::value>(d, row_of<kCodes>(values[v], k), table);
        if constexpr (kIsShifted<kCodes, kShift>) right[v] = hn::Sub(right[v], zeros[v]);
        if constexpr (kShift == Shift::kOffsets)
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
    });
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

/// Side of a square of bytes.
constexpr int kSide = kPanelStep;

/// to[i * kSide + r] = from[r][i].
HWY_INLINE void transpose_square(const std::byte* const* from, std::byte* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int r = 0; r < kSide; ++r)
    for (int i = 0; i < kSide; ++i) to[i * kSide + r] = from[r][i];
#else
  const hn::FixedTag<std::uint8_t, kSide> d;
  hn::VFromD<decltype(d)> rows[kSide], next[kSide];
  HWY_UNROLL(16)
  for (int r = 0; r < kSide; ++r)
    rows[r] = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from[r]));
  // Each pass rotates the 8 bits of (row, column) by one; 4 passes swap the two.
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
  for (int r = 0; r < kSide; ++r)
    hn::StoreU(rows[r], d, reinterpret_cast<std::uint8_t*>(to + r * kSide));
#endif
}

void panel_vectors(const std::byte* rows, std::int64_t count, std::int64_t pitch, std::byte* to) {
  std::int64_t i = 0;
  for (; count == kSide && i + kSide <= pitch; i += kSide) {
    const std::byte* from[kSide];
    for (int r = 0; r < kSide; ++r) from[r] = rows + r * pitch + i;
    transpose_square(from, to + i * kSide);
  }
  for (; i < pitch; ++i)
    for (std::int64_t r = 0; r < kSide; ++r)
      to[i * kSide + r] = r < count ? rows[r * pitch + i] : std::byte{0};
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
HWY_EXPORT(panel_vectors);
HWY_EXPORT(finish_vectors);

void write_panels(const std::byte* rows, std::int64_t n, std::int64_t pitch, std::byte* to) {
  for (std::int64_t first = 0; first < n; first += kPanelStep) HWY_DYNAMIC_DISPATCH(panel_vectors)
  (rows + first * pitch, std::min(kPanelStep, n - first), pitch, to + first * pitch);
}

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
