#include "runtime/cpu/ops/vector_moves.h"

#include "runtime/cpu/ops/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/vector_moves.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of D while they fit; moves `i` on. A vector reads the elements between those it takes,
/// and behind the last: one more must follow, so that nothing is read outside.
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
HWY_INLINE void interleave_vectors(D d, const std::uint32_t* source, std::int64_t rows,
                                   std::int64_t row_step, std::uint32_t* target, std::int64_t count,
                                   std::int64_t& i) {
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + n <= count; i += n) {
    std::uint32_t* to = target + i * rows;
    const std::uint32_t* from = source + i;
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

void interleave_vector(const std::uint32_t* source, std::int64_t rows, std::int64_t row_step,
                       std::uint32_t* target, std::int64_t count) {
  std::int64_t i = 0;
  interleave_vectors(hn::ScalableTag<std::uint32_t>(), source, rows, row_step, target, count, i);
  for (; i < count; ++i)
    for (std::int64_t r = 0; r < rows; ++r) target[i * rows + r] = source[r * row_step + i];
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(take_each_vector);
HWY_EXPORT(interleave_vector);

void take_each(const std::uint32_t* source, std::int64_t step, std::uint32_t* target,
               std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(take_each_vector)(source, step, target, count);
}

void interleave(const std::uint32_t* source, std::int64_t rows, std::int64_t row_step,
                std::uint32_t* target, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(interleave_vector)(source, rows, row_step, target, count);
}

}  // namespace sinter::runtime::cpu
#endif
