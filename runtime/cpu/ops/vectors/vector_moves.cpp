// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/vectors/vector_moves.h"

#include <algorithm>

#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/vectors/vector_moves.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Moves whole vectors of D and advances `i`. Loads include the elements between those taken, also
/// after the last. So at least one element must remain, or loads would leave the source.
template <typename D>
HWY_INLINE void take_vectors(D d, const std::uint32_t* source, std::int64_t step,
                             std::uint32_t* target, std::int64_t count, std::int64_t& i) {
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Undefined(d), b = a, c = a, e = a;
  for (; i + n < count; i += n) {
    const std::uint32_t* from = source + i * step;
    if (step == 2)
      hn::LoadInterleaved2(d, from, a, b);
    else if (step == 3)
      hn::LoadInterleaved3(d, from, a, b, c);
    else
      hn::LoadInterleaved4(d, from, a, b, c, e);
    hn::StoreU(a, d, target + i);
  }
}

void take_each_vector(const std::uint32_t* source, std::int64_t step, std::uint32_t* target,
                      std::int64_t count) {
  std::int64_t i = 0;
  take_vectors(hn::ScalableTag<std::uint32_t>(), source, step, target, count, i);
  take_vectors(hn::CappedTag<std::uint32_t, 4>(), source, step, target, count, i);
  for (; i < count; ++i) target[i] = source[i * step];
}

template <typename D>
HWY_INLINE void interleave_vectors(D d, const hn::TFromD<D>* source, std::int64_t rows,
                                   std::int64_t row_step, hn::TFromD<D>* target, std::int64_t count,
                                   std::int64_t& i) {
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + n <= count; i += n) {
    hn::TFromD<D>* to = target + i * rows;
    const hn::TFromD<D>* from = source + i;
    const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + row_step);
    if (rows == 2) {
      hn::StoreInterleaved2(a, b, d, to);
      continue;
    }
    const auto c = hn::LoadU(d, from + 2 * row_step);
    if (rows == 3)
      hn::StoreInterleaved3(a, b, c, d, to);
    else
      hn::StoreInterleaved4(a, b, c, hn::LoadU(d, from + 3 * row_step), d, to);
  }
}

template <typename T>
void interleave_vector(const T* source, std::int64_t rows, std::int64_t row_step, T* target,
                       std::int64_t count) {
  std::int64_t i = 0;
  interleave_vectors(hn::ScalableTag<T>(), source, rows, row_step, target, count, i);
  interleave_vectors(hn::CappedTag<T, 16 / sizeof(T)>(), source, rows, row_step, target, count, i);
  for (; i < count; ++i)
    for (std::int64_t r = 0; r < rows; ++r) target[i * rows + r] = source[r * row_step + i];
}

void interleave_words(const std::uint32_t* source, std::int64_t rows, std::int64_t row_step,
                      std::uint32_t* target, std::int64_t count) {
  interleave_vector(source, rows, row_step, target, count);
}
void interleave_bytes(const std::uint8_t* source, std::int64_t rows, std::int64_t row_step,
                      std::uint8_t* target, std::int64_t count) {
  interleave_vector(source, rows, row_step, target, count);
}

// Squares of a vector's lanes are transposed by perfect shuffles: vectors i and i + half are
// interleaved to 2 i and 2 i + 1, as often as the side can be halved.
#if HWY_TARGET != HWY_SCALAR
template <typename T>
struct Square {
  static constexpr std::int64_t kSide = 16 / sizeof(T);
  using Tag = hn::FixedTag<T, kSide>;
  template <class V>
  static HWY_INLINE V lower(V a, V b) {
    return hn::InterleaveLower(Tag(), a, b);
  }
  template <class V>
  static HWY_INLINE V upper(V a, V b) {
    return hn::InterleaveUpper(Tag(), a, b);
  }
};
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
template <>
struct Square<std::uint32_t> {
  static constexpr std::int64_t kSide = 16;
  using Tag = hn::FixedTag<std::uint32_t, kSide>;
  template <class V>
  static HWY_INLINE V lower(V a, V b) {
    const __m512i lanes = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return V{_mm512_permutex2var_epi32(a.raw, lanes, b.raw)};
  }
  template <class V>
  static HWY_INLINE V upper(V a, V b) {
    const __m512i lanes =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return V{_mm512_permutex2var_epi32(a.raw, lanes, b.raw)};
  }
};
#endif

template <typename T>
HWY_INLINE void transpose_square(const T* from, std::int64_t from_step, T* to,
                                 std::int64_t to_step) {
  constexpr std::int64_t kSide = Square<T>::kSide, kHalf = kSide / 2;
  const typename Square<T>::Tag d;
  hn::VFromD<typename Square<T>::Tag> a[kSide], b[kSide];
  HWY_UNROLL(16)
  for (std::int64_t i = 0; i < kSide; ++i) a[i] = hn::LoadU(d, from + i * from_step);
  HWY_UNROLL(4)
  for (std::int64_t done = 1; done < kSide; done *= 2) {
    HWY_UNROLL(8)
    for (std::int64_t i = 0; i < kHalf; ++i) {
      b[2 * i] = Square<T>::lower(a[i], a[i + kHalf]);
      b[2 * i + 1] = Square<T>::upper(a[i], a[i + kHalf]);
    }
    HWY_UNROLL(16)
    for (std::int64_t i = 0; i < kSide; ++i) a[i] = b[i];
  }
  HWY_UNROLL(16)
  for (std::int64_t i = 0; i < kSide; ++i) hn::StoreU(a[i], d, to + i * to_step);
}
#endif

template <typename T>
void transpose_of(const std::byte* source, std::int64_t source_step, std::byte* target,
                  std::int64_t target_step, std::int64_t rows, std::int64_t columns) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  std::int64_t whole_rows = 0, whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::int64_t kSide = Square<T>::kSide;
  whole_rows = rows / kSide * kSide;
  whole_columns = columns / kSide * kSide;
  for (std::int64_t c = 0; c < whole_columns; c += kSide)
    for (std::int64_t r = 0; r < whole_rows; r += kSide)
      transpose_square(from + c * source_step + r, source_step, to + r * target_step + c,
                       target_step);
#endif
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[r * target_step + c] = from[c * source_step + r];
}

void transpose_any(std::size_t size, const std::byte* source, std::int64_t source_step,
                   std::byte* target, std::int64_t target_step, std::int64_t rows,
                   std::int64_t columns) {
  const auto as = [&]<typename T>() {
    transpose_of<T>(source, source_step, target, target_step, rows, columns);
  };
  switch (size) {
    case 1: return as.operator()<std::uint8_t>();
    case 2: return as.operator()<std::uint16_t>();
    case 4: return as.operator()<std::uint32_t>();
    default: return as.operator()<std::uint64_t>();
  }
}

std::uint8_t any_bits_of(const std::uint8_t* bytes, std::int64_t count) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  std::int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    a = hn::Or(a, hn::LoadU(d, bytes + i));
    b = hn::Or(b, hn::LoadU(d, bytes + i + n));
    c = hn::Or(c, hn::LoadU(d, bytes + i + 2 * n));
    e = hn::Or(e, hn::LoadU(d, bytes + i + 3 * n));
  }
  HWY_ALIGN std::uint8_t lanes[hn::MaxLanes(hn::ScalableTag<std::uint8_t>())];
  hn::Store(hn::Or(hn::Or(a, b), hn::Or(c, e)), d, lanes);
  std::uint8_t found = 0;
  for (std::int64_t k = 0; k < n; ++k) found |= lanes[k];
  for (; i < count; ++i) found |= bytes[i];
  return found;
}

#if HWY_TARGET == HWY_SCALAR
void find_lookups_vector(const std::int32_t*, std::int64_t, std::int32_t*) {}
void look_up_vector(const std::uint32_t* source, std::int64_t, const std::int32_t* offsets,
                    const std::int32_t*, std::int64_t count, std::uint32_t* target) {
  for (std::int64_t i = 0; i < count; ++i) target[i] = source[offsets[i]];
}
#else
void find_lookups_vector(const std::int32_t* offsets, std::int64_t count, std::int32_t* starts) {
  const hn::ScalableTag<std::int32_t> d;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lower = hn::FirstN(d, static_cast<std::size_t>(n / 2));
  for (std::int64_t i = 0; i + n <= count; i += n) {
    const auto start_of = [&](auto some) -> std::int32_t {
      const std::int32_t least = hn::GetLane(hn::MinOfLanes(d, some));
      return hn::GetLane(hn::MaxOfLanes(d, some)) - least < n ? least : -1;
    };
    // The other half repeats one of this half's elements.
    const auto all = hn::LoadU(d, offsets + i), first = hn::Set(d, offsets[i]),
               middle = hn::Set(d, offsets[i + n / 2]);
    const std::int32_t whole = start_of(all);
    *starts++ = whole >= 0 ? whole : start_of(hn::IfThenElse(lower, all, first));
    *starts++ = whole >= 0 ? whole : start_of(hn::IfThenElse(lower, middle, all));
  }
}

void look_up_vector(const std::uint32_t* source, std::int64_t readable, const std::int32_t* offsets,
                    const std::int32_t* starts, std::int64_t count, std::uint32_t* target) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  const auto half = hn::FirstN(d, static_cast<std::size_t>(n / 2));
  const auto last = hn::Set(di, static_cast<std::int32_t>(n - 1));
  std::int64_t i = 0;
  for (; i + n <= count; i += n) {
    const std::int32_t low = *starts++, high = *starts++;
    if (std::min(low, high) >= 0 && std::max(low, high) + n <= readable) {
      const auto block = hn::LoadU(di, offsets + i);
      const auto found = [&](std::int32_t start) {
        const auto lanes = hn::And(hn::Sub(block, hn::Set(di, start)), last);
        return hn::TableLookupLanes(hn::LoadU(d, source + start), hn::IndicesFromVec(d, lanes));
      };
      const auto lower = found(low);
      hn::StoreU(low == high ? lower : hn::IfThenElse(half, lower, found(high)), d, target + i);
      continue;
    }
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3  // narrower gathers take longer than single loads
    hn::StoreU(hn::GatherIndex(d, source, hn::LoadU(di, offsets + i)), d, target + i);
#else
    for (std::int64_t k = i; k < i + n; ++k) target[k] = source[offsets[k]];
#endif
  }
  for (; i < count; ++i) target[i] = source[offsets[i]];
}
#endif

void look_up_each_row(const std::uint32_t* source, std::int64_t readable,
                      std::span<const std::int64_t> rows, const std::int32_t* offsets,
                      const std::int32_t* starts, std::int64_t count, std::uint32_t* target) {
  for (const std::int64_t row : rows) {
    look_up_vector(source + row, readable - row, offsets, starts, count, target);
    target += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(take_each_vector);
HWY_EXPORT(interleave_words);
HWY_EXPORT(interleave_bytes);
HWY_EXPORT(transpose_any);
HWY_EXPORT(any_bits_of);
HWY_EXPORT(find_lookups_vector);
HWY_EXPORT(look_up_vector);
HWY_EXPORT(look_up_each_row);

void take_each(const std::uint32_t* source, std::int64_t step, std::uint32_t* target,
               std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(take_each_vector)(source, step, target, count);
}

void transpose(std::size_t size, const std::byte* source, std::int64_t source_step,
               std::byte* target, std::int64_t target_step, std::int64_t rows,
               std::int64_t columns) {
  HWY_DYNAMIC_DISPATCH(transpose_any)
  (size, source, source_step, target, target_step, rows, columns);
}

std::uint8_t any_bits(const std::uint8_t* bytes, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(any_bits_of)(bytes, count);
}

void interleave(std::size_t size, const std::byte* source, std::int64_t rows, std::int64_t row_step,
                std::byte* target, std::int64_t count) {
  if (size == 1) HWY_DYNAMIC_DISPATCH(interleave_bytes)
  (reinterpret_cast<const std::uint8_t*>(source), rows, row_step,
   reinterpret_cast<std::uint8_t*>(target), count);
  else HWY_DYNAMIC_DISPATCH(interleave_words)(reinterpret_cast<const std::uint32_t*>(source), rows,
                                              row_step, reinterpret_cast<std::uint32_t*>(target),
                                              count);
}

void find_lookups(const std::int32_t* offsets, std::int64_t count, std::int32_t* starts) {
  HWY_DYNAMIC_DISPATCH(find_lookups_vector)(offsets, count, starts);
}

void look_up(const std::uint32_t* source, std::int64_t readable, const std::int32_t* offsets,
             const std::int32_t* starts, std::int64_t count, std::uint32_t* target) {
  HWY_DYNAMIC_DISPATCH(look_up_vector)(source, readable, offsets, starts, count, target);
}

void look_up_rows(const std::uint32_t* source, std::int64_t readable,
                  std::span<const std::int64_t> rows, const std::int32_t* offsets,
                  const std::int32_t* starts, std::int64_t count, std::uint32_t* target) {
  HWY_DYNAMIC_DISPATCH(look_up_each_row)(source, readable, rows, offsets, starts, count, target);
}

}  // namespace sinter::runtime::cpu
#endif
