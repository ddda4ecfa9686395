// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/row_ops.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/row_ops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks.
#include <hwy/highway.h>

#include "runtime/cpu/ops/vectors/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What rows are stored as: a vector of floats at an element, and one of them.
struct StoredF32 {
  using T = float;
  static HWY_INLINE V load(D d, const T* p) { return hn::LoadU(d, p); }
  static float one(const T* p) { return *p; }
};
struct StoredF16 {
  using T = std::uint16_t;
  static HWY_INLINE V load(D d, const T* p) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
  }
  static float one(const T* p) { return half_to_float(*p); }
};
struct StoredBF16 {
  using T = std::uint16_t;
  static HWY_INLINE V load(D d, const T* p) {
    const hn::Rebind<hwy::bfloat16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::bfloat16_t*>(p)));
  }
  static float one(const T* p) { return bfloat_to_float(*p); }
};

template <class Op, Combine kCombine, class Stored, bool kScaled>
HWY_INLINE void combine_row(float* sums, const typename Stored::T* row, float factor,
                            std::size_t count) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const V scale = hn::Set(d, factor);
  std::size_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    V x = Stored::load(d, row + c);
    if constexpr (kScaled) x = hn::Mul(x, scale);
    hn::StoreU(Op::apply(d, hn::LoadU(d, sums + c), x), d, sums + c);
  }
  for (; c < count; ++c) {
    float x = Stored::one(row + c);
    if constexpr (kScaled) x *= factor;
    sums[c] = combine_values<float>(kCombine, sums[c], x);
  }
}

template <class Op, Combine kCombine, class Stored>
void combine_stored(void* sums, const void* row, const void* factor, std::int64_t count) {
  auto* to = static_cast<float*>(sums);
  const auto* from = static_cast<const typename Stored::T*>(row);
  const auto n = static_cast<std::size_t>(count);
  if (factor == nullptr)
    combine_row<Op, kCombine, Stored, false>(to, from, 1, n);
  else
    combine_row<Op, kCombine, Stored, true>(
        to, from, Stored::one(static_cast<const typename Stored::T*>(factor)), n);
}

template <class Stored>
RowCombiner combiner_of(Combine combine) {
  switch (combine) {
    case Combine::kSum: return combine_stored<AddOp, Combine::kSum, Stored>;
    case Combine::kProd: return combine_stored<MulOp, Combine::kProd, Stored>;
    case Combine::kMax: return combine_stored<MaxOp, Combine::kMax, Stored>;
    case Combine::kMin: return combine_stored<MinOp, Combine::kMin, Stored>;
  }
  return nullptr;
}

RowCombiner find_float_combiner(Combine combine, DType type) {
  if (type == DType::kFloat16) return combiner_of<StoredF16>(combine);
  if (type == DType::kBFloat16) return combiner_of<StoredBF16>(combine);
  return combiner_of<StoredF32>(combine);
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {
namespace {

HWY_EXPORT(find_float_combiner);

template <Combine kCombine, typename T>
void combine_numbers(void* sums, const void* row, const void* factor, std::int64_t count) {
  auto* to = static_cast<T*>(sums);
  const auto* from = static_cast<const T*>(row);
  if (factor == nullptr) {
    for (std::int64_t c = 0; c < count; ++c) to[c] = combine_values<T>(kCombine, to[c], from[c]);
    return;
  }
  const T scale = *static_cast<const T*>(factor);
  for (std::int64_t c = 0; c < count; ++c)
    to[c] = combine_values<T>(kCombine, to[c], combine_values<T>(Combine::kProd, from[c], scale));
}

}  // namespace

RowCombiner find_row_combiner(Combine combine, DType type) {
  if (compute_type(type) == DType::kFloat32)
    return HWY_DYNAMIC_DISPATCH(find_float_combiner)(combine, type);
  return with_number_type(type, [&](auto number) -> RowCombiner {  // no bools
    using T = decltype(number);
    switch (combine) {
      case Combine::kSum: return combine_numbers<Combine::kSum, T>;
      case Combine::kProd: return combine_numbers<Combine::kProd, T>;
      case Combine::kMax: return combine_numbers<Combine::kMax, T>;
      case Combine::kMin: return combine_numbers<Combine::kMin, T>;
    }
    return nullptr;
  });
}

}  // namespace sinter::runtime::cpu
#endif
