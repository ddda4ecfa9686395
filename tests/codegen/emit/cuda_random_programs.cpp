// SPDX-License-Identifier: Apache-2.0
#ifdef SINTER_WITH_CUDA
#include "cuda_random_programs.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

namespace sinter::test {

using ir::Dim;
using plan::fb::ExprOp;

namespace {

class Generator {
 public:
  Generator(codegen::ExprTable& exprs, std::uint64_t seed) : exprs_(exprs), random_(seed) {}

  ProgramBuilder make() {
    const int inner = pick(3), outer = pick(3);
    std::vector<Dim> extents;
    std::int64_t budget = 6000;
    for (int d = 0; d < inner + outer; ++d) extents.push_back(extent(budget));
    ProgramBuilder p(exprs_, extents, inner);
    const DType compute = pick(8) == 0 ? DType::kFloat64 : DType::kFloat32;
    std::uint32_t value = input(p, compute);
    for (int n = pick(3); n > 0; --n)
      value = p.op(pick(2) != 0 ? ScalarOp::kAdd : ScalarOp::kMul, {value, input(p, compute)});
    value = unary(p, value);
    if (inner > 0) value = reductions(p, value);
    if (inner == 0 || pick(3) != 0) p.store(output(p, all_dims(p)), value);
    return p;
  }

 private:
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  Dim extent(std::int64_t& budget) {
    constexpr std::int64_t sizes[] = {1, 2, 3, 5, 8, 12, 16, 24, 40, 64, 100, 384, 520, 1024, 2304};
    if (pick(5) == 0 && budget >= 64 * 40) {
      budget /= 64;
      return Dim::symbol(pick(2) != 0 ? "s" : "t");
    }
    std::int64_t size = 0;
    do size = sizes[pick(15)];
    while (size > budget);
    budget /= size;
    return size;
  }

  static std::vector<int> all_dims(const ProgramBuilder& p) {
    std::vector<int> dims(p.extents.size());
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }

  DType storage(DType compute) {
    if (compute == DType::kFloat64) return compute;
    constexpr DType types[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32};
    return types[pick(3)];
  }

  std::uint32_t output(ProgramBuilder& p, std::vector<int> dims) {
    if (pick(4) == 0) std::shuffle(dims.begin(), dims.end(), random_);
    return p.dense(storage(outputs_), dims);
  }

  std::uint32_t input(ProgramBuilder& p, DType compute) {
    outputs_ = compute;
    std::vector<int> dims = all_dims(p);
    const DType type = storage(compute);
    switch (pick(8)) {
      case 0: std::shuffle(dims.begin(), dims.end(), random_); break;
      case 1: std::erase_if(dims, [&](int) { return pick(2) == 0; }); break;
      case 2: return sliced(p, type);
      case 3: return gathered(p, type);
      case 4: return padded(p, type);
      case 5: return repeated(p, type);
      default: break;
    }
    return p.load(p.dense(type, dims));
  }

  /// Part of a larger tensor, from its end or its beginning.
  std::uint32_t sliced(ProgramBuilder& p, DType type) {
    std::vector<Dim> strides(p.extents.size());
    const std::int64_t margin = pick(2) != 0 ? 8 : 3;
    Dim stride = 1, offset = 0;
    for (std::size_t d = p.extents.size(); d-- > 0;) {
      const bool reversed = pick(3) == 0;
      strides[d] = reversed ? Dim(0) - stride : stride;
      offset = offset + (reversed ? p.extents[d] + Dim(margin - 1) : Dim(margin)) * stride;
      stride = stride * (p.extents[d] + Dim(margin));
    }
    return p.load(p.access(p.buffer(type, stride), strides, offset));
  }

  /// Rows of a table, chosen by an index per first dimension or per element.
  std::uint32_t gathered(ProgramBuilder& p, DType type) {
    if (p.extents.empty()) return p.load(p.dense(type, {}));
    const std::int64_t rows = 7;
    const int last = static_cast<int>(p.extents.size()) - 1;
    std::vector<int> dims = {0};
    if (pick(2) != 0) dims = all_dims(p);
    const auto indices = p.dense(pick(2) != 0 ? DType::kInt64 : DType::kInt32, dims);
    p.ranges[p.at(indices).buffer] = {-rows, rows};
    const auto index = p.load(indices);
    const Dim& width = p.extents.back();
    std::vector<Dim> strides(p.extents.size(), Dim(0));
    strides[static_cast<std::size_t>(last)] = 1;
    const auto table = p.access(p.buffer(type, width * Dim(rows)), strides);
    p.at(table).gathers.emplace_back(index, exprs_.intern(rows), exprs_.intern(width));
    return p.load(table);
  }

  /// A dense tensor shifted along one dimension; a constant comes in from outside.
  std::uint32_t padded(ProgramBuilder& p, DType type) {
    if (p.extents.empty()) return p.load(p.dense(type, {}));
    const int d = pick(static_cast<int>(p.extents.size()));
    const std::int64_t shift = pick(2) != 0 ? 8 : 1 + pick(3);
    const auto access = p.dense(type, all_dims(p));
    const Dim stride = exprs_.dim(p.at(access).strides[static_cast<std::size_t>(d)]);
    p.at(access).offset = exprs_.intern(Dim(0) - stride * Dim(shift));
    const auto index = p.node(ExprOp::Sub, p.node_loop(d), p.node_size(shift));
    p.at(access).guards.emplace_back(index, exprs_.intern(p.extents[static_cast<std::size_t>(d)]));
    p.at(access).fill = 0.25;
    return p.load(access);
  }

  /// Every second row (or column) of a smaller tensor, twice: i / 2 is not affine.
  std::uint32_t repeated(ProgramBuilder& p, DType type) {
    if (p.extents.empty()) return p.load(p.dense(type, {}));
    const int d = pick(static_cast<int>(p.extents.size()));
    std::vector<Dim> strides(p.extents.size(), Dim(0));
    Dim stride = 1, own = 1;
    for (std::size_t e = p.extents.size(); e-- > 0;) {
      if (static_cast<int>(e) == d) {
        own = stride;
        stride = stride * ir::ceil_div(p.extents[e], 2);
      } else {
        strides[e] = stride;
        stride = stride * p.extents[e];
      }
    }
    const auto access = p.access(p.buffer(type, stride), strides);
    const auto half = p.node(ExprOp::FloorDiv, p.node_loop(d), p.node_size(2));
    p.at(access).nonaffine.push_back(p.node(ExprOp::Mul, half, p.node_size(own)));
    return p.load(access);
  }

  std::uint32_t unary(ProgramBuilder& p, std::uint32_t value) {
    switch (pick(6)) {
      case 0: return p.op(ScalarOp::kTanh, {value});
      case 1: return p.op(ScalarOp::kErf, {value});
      case 2: return p.op(ScalarOp::kMax, {value, p.constant(p.type_of(value), 0)});
      case 3: {
        const auto negative = p.op(ScalarOp::kLess, {value, p.constant(p.type_of(value), 0.1)});
        const auto half = p.op(ScalarOp::kMul, {value, p.constant(p.type_of(value), 0.5)});
        return p.op(ScalarOp::kSelect, p.type_of(value), {negative, half, value});
      }
      default: return value;
    }
  }

  /// One to three reductions, each of values that depend on the one before; at times with weights
  /// for the elements of a row, which several of them may share.
  std::uint32_t reductions(ProgramBuilder& p, std::uint32_t value) {
    const DType type = p.type_of(value);
    Dim length = 1;
    std::vector<int> rows, elements;
    for (std::size_t d = 0; d < p.extents.size(); ++d) {
      if (d + p.program.inner_dims < p.extents.size()) {
        rows.push_back(static_cast<int>(d));
        continue;
      }
      elements.push_back(static_cast<int>(d));
      length = length * p.extents[d];
    }
    std::optional<std::uint32_t> weight;
    for (int n = 1 + pick(3); n > 0; --n) {
      constexpr Combine combines[] = {Combine::kSum, Combine::kMax, Combine::kMin};
      const Combine combine = combines[pick(3)];
      std::uint32_t result = p.reduce(combine, value);
      if (combine == Combine::kSum) result = p.op(ScalarOp::kDiv, {result, p.size(type, length)});
      if (n == 1 || pick(3) == 0) p.store(output(p, rows), result);
      if (n == 1 && pick(3) == 0) return result;
      switch (pick(3)) {
        case 0: value = p.op(ScalarOp::kSub, {value, result}); break;
        case 1: {
          const auto size = p.op(ScalarOp::kAbs, {result});
          value = p.op(ScalarOp::kDiv, {value, p.op(ScalarOp::kAdd, {size, p.constant(type, 1)})});
          break;
        }
        default: value = p.op(ScalarOp::kTanh, {p.op(ScalarOp::kAdd, {value, result})});
      }
      if (pick(2) == 0) continue;
      if (!weight || pick(4) == 0) weight = p.load(p.dense(storage(type), elements));
      value = p.op(ScalarOp::kMul, {value, *weight});
      if (n > 1 && pick(2) == 0) p.store(output(p, all_dims(p)), value);
    }
    return value;
  }

  codegen::ExprTable& exprs_;
  std::mt19937_64 random_;
  DType outputs_ = DType::kFloat32;
};

}  // namespace

ProgramBuilder random_program(codegen::ExprTable& exprs, std::uint64_t seed) {
  return Generator(exprs, seed).make();
}

}  // namespace sinter::test
#endif
