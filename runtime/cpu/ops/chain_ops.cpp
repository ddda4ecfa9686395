// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/ops/chain_ops.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/chain_ops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this order: after foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "runtime/cpu/ops/chain_links-inl.h"
#include "runtime/cpu/ops/vectors/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// How a block's four vectors lie in rows: whole in one row, or in `rows` narrow ones.
struct Place {
  std::size_t rows = 1;
  std::size_t one(std::int64_t row_stride) const {
    return rows == 4 ? static_cast<std::size_t>(row_stride) : hn::Lanes(D());
  }
  std::size_t two(std::int64_t row_stride) const {
    return rows == 1 ? 2 * hn::Lanes(D()) : static_cast<std::size_t>(row_stride) * (rows / 2);
  }
};

HWY_INLINE void bind_second(D d, std::int64_t r, const ChainLink& link, const Place& place,
                            Link& bound) {
  const auto row_of = [r](const View& view) {
    return const_cast<float*>(static_cast<const float*>(view.data) + r * view.row_stride);
  };
  const bool columns = link.other.per_column, second = link.second.per_column;
  const ChainKernels& kernels = link.kernels;
  bound.run = reinterpret_cast<Function>(columns  ? second ? kernels.columns : kernels.second_row
                                         : second ? kernels.row
                                                  : kernels.rows);
  float *yes = row_of(link.other), *no = row_of(link.second);
  bound.other = columns ? yes : nullptr;
  bound.second = second ? no : nullptr;
  bound.second_one = place.one(link.second.row_stride);
  bound.second_two = place.two(link.second.row_stride);
  bound.value = hn::Set(d, *yes);
  bound.second_value = hn::Set(d, *no);
}

/// Sets up the links for row r.
void bind_links(const ChainArgs& t, std::int64_t r, const Place& place, Link* links) {
  const D d;
  for (std::size_t k = 0; k < t.links.size(); ++k) {
    const ChainLink& link = t.links[k];
    links[k].other = links[k].second = nullptr;
    links[k].run = reinterpret_cast<Function>(link.kernels.columns);
    if (link.other.data == nullptr) continue;
    links[k].one = place.one(link.other.row_stride);
    links[k].two = place.two(link.other.row_stride);
    if (link.second.data != nullptr) {
      bind_second(d, r, link, place, links[k]);
      continue;
    }
    const float* other = static_cast<const float*>(link.other.data) + r * link.other.row_stride;
    if (link.other.per_column) {
      links[k].other = const_cast<float*>(other);
      continue;
    }
    links[k].run = reinterpret_cast<Function>(link.kernels.row);
    links[k].value = hn::Set(d, *other);
    // Division by a row's value, as in divide() of vector_ops.cpp: results must be equal.
    if (!link.kernels.divides) continue;
    const float reciprocal = 1.0f / *other;
    if (std::isnormal(reciprocal)) {
      links[k].run = binary_link<MulOp, false, true>;
      links[k].value = hn::Set(d, reciprocal);
    }
  }
  const auto size = static_cast<std::int64_t>(size_of(t.result_type));
  std::byte* result = static_cast<std::byte*>(t.result) + r * t.result_stride * size;
  constexpr std::size_t kVector = hn::MaxLanes(D()) * sizeof(float);
  const bool aligned = reinterpret_cast<std::uintptr_t>(result) % kVector == 0;
  links[t.links.size()] = {size == 1                                    ? store_bytes_link
                           : t.past_cache && aligned && place.rows == 1 ? stream_link
                                                                        : store_link,
                           result,
                           nullptr,
                           hn::Zero(d),
                           hn::Zero(d),
                           place.one(t.result_stride),
                           place.two(t.result_stride),
                           0,
                           0};
}

/// Elements from i on of a row at `from`, in the chain's representation.
template <typename Byte>
HWY_INLINE V load_bytes(D, const std::byte* from, std::size_t i) {
  const hn::Rebind<Byte, D> bytes;
  return as_held(hn::PromoteTo(DI(), hn::LoadU(bytes, reinterpret_cast<const Byte*>(from) + i)));
}
HWY_INLINE V load_start(D d, DType type, const std::byte* from, std::size_t i) {
  if (type == DType::kUInt8) return load_bytes<std::uint8_t>(d, from, i);
  if (type == DType::kInt8) return load_bytes<std::int8_t>(d, from, i);
  return hn::LoadU(d, reinterpret_cast<const float*>(from) + i);
}
HWY_INLINE V one_start(D d, DType type, const std::byte* from) {
  if (type == DType::kUInt8) return as_held(hn::Set(DI(), std::to_integer<int>(*from)));
  if (type == DType::kInt8)
    return as_held(hn::Set(DI(), static_cast<std::int8_t>(std::to_integer<int>(*from))));
  return hn::Set(d, *reinterpret_cast<const float*>(from));
}

/// Whether rows differ in addresses alone, and are whole blocks of four vectors or parts of one.
bool is_steady(const ChainArgs& t) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D())), block = 4 * lanes;
  if (t.cols % block != 0 && (t.cols % lanes != 0 || block % t.cols != 0)) return false;
  if (!t.start.per_column) return false;
  const auto fits = [](const View& view) {
    return view.data == nullptr || view.per_column || view.row_stride == 0;
  };
  for (const ChainLink& link : t.links)
    if (!fits(link.other) || !fits(link.second)) return false;
  return t.cols >= block || size_of(t.result_type) > 1 || t.result_stride == t.cols;
}

void run_links(const ChainArgs& t) {
  constexpr std::size_t kMostBlock = 4 * hn::MaxLanes(D());
  const D d;
  const std::size_t lanes = hn::Lanes(d), block = 4 * lanes, n = static_cast<std::size_t>(t.cols);
  if (n == 0) return;
  const std::size_t start_size = size_of(t.start_type), result_size = size_of(t.result_type);
  Link links[kMaxChain + 1];
  HWY_ALIGN float padded[kMaxChain + 2][kMostBlock], seconds[kMaxChain][kMostBlock];
  std::int64_t first_row = 0;
  if (const Place place{n < block ? block / n : 1};
      t.rows > 1 && is_steady(t) && !t.past_cache && std::cmp_less_equal(place.rows, t.rows)) {
    const auto together = static_cast<std::int64_t>(place.rows);
    const std::size_t one = place.one(t.start.row_stride), two = place.two(t.start.row_stride);
    const auto* start = static_cast<const std::byte*>(t.start.data);
    bind_links(t, 0, place, links);
    Link& last = links[t.links.size()];
    for (;;) {
      const auto vector = [&](std::size_t at) { return load_start(d, t.start_type, start, at); };
      for (std::size_t i = 0; i < n; i += block)
        links[0].run(links, i, vector(i), vector(i + one), vector(i + two), vector(i + one + two));
      first_row += together;
      if (first_row + together > t.rows) break;
      // The next rows: addresses alone change.
      start += together * t.start.row_stride * static_cast<std::int64_t>(start_size);
      last.other = static_cast<std::byte*>(last.other) +
                   together * t.result_stride * static_cast<std::int64_t>(result_size);
      for (std::size_t k = 0; k < t.links.size(); ++k) {
        Link& link = links[k];
        if (link.other != nullptr)
          link.other = static_cast<float*>(link.other) + together * t.links[k].other.row_stride;
        if (link.second != nullptr)
          link.second = static_cast<float*>(link.second) + together * t.links[k].second.row_stride;
      }
    }
  }
  for (std::int64_t r = first_row; r < t.rows; ++r) {
    bind_links(t, r, Place{}, links);
    const std::byte* start = static_cast<const std::byte*>(t.start.data) +
                             r * t.start.row_stride * static_cast<std::int64_t>(start_size);
    const V same = t.start.per_column ? hn::Zero(d) : one_start(d, t.start_type, start);
    const auto run = [&](const std::byte* from, std::size_t i) {
      const auto vector = [&](std::size_t v) {
        return load_start(d, t.start_type, from, i + v * lanes);
      };
      if (t.start.per_column)
        links[0].run(links, i, vector(0), vector(1), vector(2), vector(3));
      else
        links[0].run(links, i, same, same, same, same);
    };
    std::size_t i = 0;
    for (; i + block <= n; i += block) run(start, i);
    if (i == n) continue;
    // The tail of a row, computed in padded copies: operands and results must not be accessed
    // beyond the row's end.
    const auto pad = [&](float* to, const void* from, std::size_t size) {
      std::memset(to, 0, block * sizeof(float));
      std::memcpy(to, static_cast<const std::byte*>(from) + i * size, (n - i) * size);
    };
    for (std::size_t k = 0; k < t.links.size(); ++k) {
      if (links[k].other != nullptr) {
        pad(padded[k], links[k].other, sizeof(float));
        links[k].other = padded[k];
      }
      if (links[k].second == nullptr) continue;
      pad(seconds[k], links[k].second, sizeof(float));
      links[k].second = seconds[k];
    }
    float *first = padded[kMaxChain], *result = padded[kMaxChain + 1];
    if (t.start.per_column) pad(first, start, start_size);
    std::byte* target = static_cast<std::byte*>(links[t.links.size()].other) + i * result_size;
    links[t.links.size()].run = result_size == 1 ? store_bytes_link : store_link;
    links[t.links.size()].other = result;
    run(reinterpret_cast<const std::byte*>(first), 0);
    std::memcpy(target, result, (n - i) * result_size);
  }
  if (t.past_cache) hwy::FlushStream();
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  // Links leave the upper halves of registers in use, as their arguments are: code for SSE behind
  // would wait for hundreds of cycles on some processors.
  _mm256_zeroupper();
#endif
}

/// One link as a separate kernel.
template <ScalarOp kOp>
void integer_kernel(const OpArgs& t) {
  const bool left = t.args[0].per_column || !t.args[1].per_column;
  const ChainLink link{find_integer_kernels(kOp, left ? ChainSide::kLeft : ChainSide::kRight),
                       t.args[left ? 1 : 0]};
  run_links({t.rows,
             t.cols,
             t.result,
             t.result_stride,
             t.args[left ? 0 : 1],
             DType::kInt32,
             DType::kInt32,
             {&link, 1},
             false});
}
template <DType kFrom, DType kTo>
void cast_kernel(const OpArgs& t) {
  const ChainLink link{find_cast(kFrom, kTo), {}};
  run_links({t.rows, t.cols, t.result, t.result_stride, t.args[0], kFrom, kTo, {&link, 1}, false});
}

template <DType kFrom>
OpKernel find_cast_from(DType to) {
  switch (to) {
    case DType::kInt8: return cast_kernel<kFrom, DType::kInt8>;
    case DType::kUInt8: return cast_kernel<kFrom, DType::kUInt8>;
    case DType::kInt32: return cast_kernel<kFrom, DType::kInt32>;
    case DType::kFloat32: return cast_kernel<kFrom, DType::kFloat32>;
    default: return nullptr;
  }
}

OpKernel find_cast_kernel(DType from, DType to) {
  if (from == to) return nullptr;
  switch (from) {
    case DType::kInt8: return find_cast_from<DType::kInt8>(to);
    case DType::kUInt8: return find_cast_from<DType::kUInt8>(to);
    case DType::kInt32: return find_cast_from<DType::kInt32>(to);
    case DType::kFloat32:
      return to == DType::kFloat32 ? nullptr : find_cast_from<DType::kFloat32>(to);
    default: return nullptr;
  }
}

OpKernel find_integer_kernel(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd: return integer_kernel<ScalarOp::kAdd>;
    case ScalarOp::kSub: return integer_kernel<ScalarOp::kSub>;
    case ScalarOp::kMul: return integer_kernel<ScalarOp::kMul>;
    case ScalarOp::kMin: return integer_kernel<ScalarOp::kMin>;
    case ScalarOp::kMax: return integer_kernel<ScalarOp::kMax>;
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_kernels);
HWY_EXPORT(find_integer_kernels);
HWY_EXPORT(find_cast);
HWY_EXPORT(find_difference);
HWY_EXPORT(find_test);
HWY_EXPORT(find_dequantize);
HWY_EXPORT(find_quantize);
HWY_EXPORT(find_choice);
HWY_EXPORT(find_cast_kernel);
HWY_EXPORT(find_integer_kernel);
HWY_EXPORT(run_links);

ChainKernels find_chain_kernels(ScalarOp op, DType type, ChainSide side, bool small) {
  if (type == DType::kInt32) return HWY_DYNAMIC_DISPATCH(find_integer_kernels)(op, side);
  return type == DType::kFloat32 ? HWY_DYNAMIC_DISPATCH(find_kernels)(op, side, small)
                                 : ChainKernels{};
}

ChainKernels find_chain_test(ScalarOp op, ChainSide side) {
  return HWY_DYNAMIC_DISPATCH(find_test)(op, side);
}
ChainKernels find_chain_dequantize() { return HWY_DYNAMIC_DISPATCH(find_dequantize)(); }
ChainKernels find_chain_quantize(DType to) { return HWY_DYNAMIC_DISPATCH(find_quantize)(to); }
ChainKernels find_chain_choice() { return HWY_DYNAMIC_DISPATCH(find_choice)(); }

ChainKernels find_chain_difference() { return HWY_DYNAMIC_DISPATCH(find_difference)(); }

ChainKernels find_chain_cast(DType from, DType to) {
  return HWY_DYNAMIC_DISPATCH(find_cast)(from, to);
}

OpKernel find_vector_integer_kernel(ScalarOp op, DType operand, DType result) {
  if (op == ScalarOp::kCast) return HWY_DYNAMIC_DISPATCH(find_cast_kernel)(operand, result);
  return operand == DType::kInt32 && result == DType::kInt32
             ? HWY_DYNAMIC_DISPATCH(find_integer_kernel)(op)
             : nullptr;
}

void run_chain(const ChainArgs& args) { HWY_DYNAMIC_DISPATCH(run_links)(args); }

}  // namespace sinter::runtime::cpu
#endif
