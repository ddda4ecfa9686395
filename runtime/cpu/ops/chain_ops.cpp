#include "runtime/cpu/ops/chain_ops.h"

#include <cmath>
#include <cstring>

#include "runtime/cpu/ops/vector_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/cpu/ops/chain_ops.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "runtime/cpu/ops/vector_primitives-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::runtime::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Link;
/// Every link ends by calling the next one with its results for elements i and on: the compiler
/// makes jumps of these calls, and the vectors stay in the registers that pass them.
using Function = void (*)(const Link*, std::size_t i, V a, V b, V c, V d);

struct Link {
  Function run;
  float* other;  // the first of the row
  float value;   // of a row
};

template <class Op>
void unary_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  return link[1].run(link + 1, i, Op::apply(d, a), Op::apply(d, b), Op::apply(d, c),
                     Op::apply(d, e));
}

template <class Op>
void both_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  return link[1].run(link + 1, i, Op::apply(d, a, a), Op::apply(d, b, b), Op::apply(d, c, c),
                     Op::apply(d, e, e));
}

/// kLeft: the chain's value is the left operand.
template <class Op, bool kColumns, bool kLeft>
void binary_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  const auto apply = [&](std::size_t vector, V value) {
    const V other =
        kColumns ? hn::LoadU(d, link->other + i + vector * hn::Lanes(d)) : hn::Set(d, link->value);
    return kLeft ? Op::apply(d, value, other) : Op::apply(d, other, value);
  };
  return link[1].run(link + 1, i, apply(0, a), apply(1, b), apply(2, c), apply(3, e));
}

/// The end of a chain; `other` is where the results go.
void store_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  float* at = link->other + i;
  hn::StoreU(a, d, at);
  hn::StoreU(b, d, at + hn::Lanes(d));
  hn::StoreU(c, d, at + 2 * hn::Lanes(d));
  hn::StoreU(e, d, at + 3 * hn::Lanes(d));
}

/// The same past the caches, for what is large: memory is not read before it is written. Results
/// must lie on a vector's boundary.
void stream_link(const Link* link, std::size_t i, V a, V b, V c, V e) {
  const D d;
  float* at = link->other + i;
  hn::Stream(a, d, at);
  hn::Stream(b, d, at + hn::Lanes(d));
  hn::Stream(c, d, at + 2 * hn::Lanes(d));
  hn::Stream(e, d, at + 3 * hn::Lanes(d));
}

ChainFunction opaque(Function function) { return reinterpret_cast<ChainFunction>(function); }

template <class Op>
ChainKernels unary() {
  const ChainFunction function = opaque(unary_link<Op>);
  return {function, function};
}

template <class Op>
ChainKernels binary(ChainSide side) {
  if (side == ChainSide::kBoth) return {opaque(both_link<Op>), opaque(both_link<Op>)};
  if (side == ChainSide::kLeft)
    return {opaque(binary_link<Op, true, true>), opaque(binary_link<Op, false, true>)};
  return {opaque(binary_link<Op, true, false>), opaque(binary_link<Op, false, false>)};
}

ChainKernels find_kernels(ScalarOp op, ChainSide side, bool small) {
  switch (op) {
#define SINTER_CASE(name) \
  case ScalarOp::k##name: return unary<name##Op>();
    SINTER_UNARY_OPS(SINTER_CASE)
#undef SINTER_CASE
#define SINTER_CASE(name) \
  case ScalarOp::k##name: return binary<name##Op>(side);
    SINTER_BINARY_OPS(SINTER_CASE)
#undef SINTER_CASE
    case ScalarOp::kDiv: {
      ChainKernels kernels = binary<DivOp>(side);
      kernels.divides = side == ChainSide::kLeft;
      return kernels;
    }
    case ScalarOp::kQuotient: return binary<DivOp>(side);
    case ScalarOp::kSin: return small ? unary<SmallSinOp>() : unary<SinOp>();
    case ScalarOp::kCos: return small ? unary<SmallCosOp>() : unary<CosOp>();
    default: return {};
  }
}

/// The links of row r.
void bind_links(const ChainArgs& t, std::int64_t r, Link* links) {
  for (std::size_t k = 0; k < t.links.size(); ++k) {
    const ChainLink& link = t.links[k];
    links[k].other = nullptr;
    links[k].run = reinterpret_cast<Function>(link.kernels.columns);
    if (link.other.data == nullptr) continue;
    const float* other = static_cast<const float*>(link.other.data) + r * link.other.row_stride;
    if (link.other.per_column) {
      links[k].other = const_cast<float*>(other);
      continue;
    }
    links[k].run = reinterpret_cast<Function>(link.kernels.row);
    links[k].value = *other;
    // As the operator by itself does it: see divide() in vector_ops.cpp.
    const float reciprocal = 1.0f / *other;
    if (link.kernels.divides && std::isnormal(reciprocal)) {
      links[k].run = binary_link<MulOp, false, true>;
      links[k].value = reciprocal;
    }
  }
  float* result = t.result + r * t.result_stride;
  constexpr std::size_t kVector = hn::MaxLanes(D()) * sizeof(float);
  const bool aligned = reinterpret_cast<std::uintptr_t>(result) % kVector == 0;
  links[t.links.size()] = {t.past_cache && aligned ? stream_link : store_link, result, 0};
}

void run_links(const ChainArgs& t) {
  constexpr std::size_t kMostBlock = 4 * hn::MaxLanes(D());
  const D d;
  const std::size_t lanes = hn::Lanes(d), block = 4 * lanes, n = static_cast<std::size_t>(t.cols);
  if (n == 0) return;
  Link links[kMaxChain + 1];
  HWY_ALIGN float padded[kMaxChain + 2][kMostBlock];
  for (std::int64_t r = 0; r < t.rows; ++r) {
    bind_links(t, r, links);
    const float* start = static_cast<const float*>(t.start.data) + r * t.start.row_stride;
    const V same = hn::Set(d, *start);
    const auto run = [&](const float* from, std::size_t i) {
      if (t.start.per_column)
        links[0].run(links, i, hn::LoadU(d, from + i), hn::LoadU(d, from + i + lanes),
                     hn::LoadU(d, from + i + 2 * lanes), hn::LoadU(d, from + i + 3 * lanes));
      else
        links[0].run(links, i, same, same, same, same);
    };
    std::size_t i = 0;
    for (; i + block <= n; i += block) run(start, i);
    if (i == n) continue;
    // The last elements, fewer than a block: neither side of a row may be touched beyond its end.
    const std::size_t bytes = (n - i) * sizeof(float);
    const auto pad = [&](float* to, const float* from) {
      std::memset(to, 0, block * sizeof(float));
      std::memcpy(to, from, bytes);
    };
    for (std::size_t k = 0; k < t.links.size(); ++k) {
      if (links[k].other == nullptr) continue;
      pad(padded[k], links[k].other + i);
      links[k].other = padded[k];
    }
    float *first = padded[kMaxChain], *result = padded[kMaxChain + 1];
    if (t.start.per_column) pad(first, start + i);
    float* target = links[t.links.size()].other + i;
    links[t.links.size()] = {store_link, result, 0};
    run(first, 0);
    std::memcpy(target, result, bytes);
  }
  if (t.past_cache) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::runtime::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::runtime::cpu {

HWY_EXPORT(find_kernels);
HWY_EXPORT(run_links);

ChainKernels find_chain_kernels(ScalarOp op, ChainSide side, bool small) {
  return HWY_DYNAMIC_DISPATCH(find_kernels)(op, side, small);
}

void run_chain(const ChainArgs& args) { HWY_DYNAMIC_DISPATCH(run_links)(args); }

}  // namespace sinter::runtime::cpu
#endif
