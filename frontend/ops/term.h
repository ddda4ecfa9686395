// SPDX-License-Identifier: Apache-2.0
// Operator overloads for values, in which index computations are written as formulas.
#pragma once

#include <cstddef>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// A value of the node being imported. Operators broadcast as in numpy; both operands have the same
/// element type, and a number takes the other operand's type.
class Term {
 public:
  Term(NodeContext& node, ValueId value) : node_(&node), value_(value) {}

  ValueId value() const { return value_; }
  NodeContext& node() const { return *node_; }
  DType dtype() const { return node_->dtype(value_); }
  Shape shape() const { return node_->shape(value_); }

  /// Adds operator `op` of ir on this and `other`.
  Term with(std::string_view op, const Term& other) const {
    return {*node_, node_->add(op, {value_, other.value_})};
  }
  Term with(std::string_view op, double other) const { return with(op, number(other)); }
  Term apply(std::string_view op) const { return {*node_, node_->add(op, {value_})}; }
  Term number(double value) const { return {*node_, node_->constant(dtype(), value)}; }
  Term cast(DType dtype) const { return {*node_, node_->cast(value_, dtype)}; }
  Term reshape(const Shape& shape) const { return {*node_, node_->reshape(value_, shape)}; }

  friend Term operator+(const Term& a, const Term& b) { return a.with("Add", b); }
  friend Term operator-(const Term& a, const Term& b) { return a.with("Sub", b); }
  friend Term operator*(const Term& a, const Term& b) { return a.with("Mul", b); }
  friend Term operator/(const Term& a, const Term& b) { return a.with("Div", b); }
  friend Term operator+(const Term& a, double b) { return b == 0 ? a : a.with("Add", b); }
  friend Term operator-(const Term& a, double b) { return b == 0 ? a : a.with("Sub", b); }
  friend Term operator*(const Term& a, double b) { return b == 1 ? a : a.with("Mul", b); }
  friend Term operator/(const Term& a, double b) { return b == 1 ? a : a.with("Div", b); }
  friend Term operator-(double a, const Term& b) { return b.number(a) - b; }

 private:
  NodeContext* node_;
  ValueId value_;
};

inline Term floor(const Term& x) { return x.apply("Floor"); }
inline Term ceil(const Term& x) { return x.apply("Ceil"); }
inline Term abs(const Term& x) { return x.apply("Abs"); }
/// `x` clamped to [low, high].
inline Term clamp(const Term& x, const Term& low, const Term& high) {
  return x.with("Max", low).with("Min", high);
}
inline Term clamp(const Term& x, double low, const Term& high) {
  return clamp(x, x.number(low), high);
}
inline Term select(const Term& condition, const Term& yes, const Term& no) {
  NodeContext& node = condition.node();
  return {node, node.add("Where", {condition.value(), yes.value(), no.value()})};
}

/// 0, 1, .. n-1 along dimension `axis` of `rank`; the other dimensions are 1.
inline Term iota(NodeContext& node, const Dim& n, std::size_t axis, std::size_t rank,
                 DType dtype = DType::kInt64) {
  Shape shape(rank, Dim(1));
  shape[axis] = n;
  return {node, node.add("Iota", {},
                         {{"shape", std::move(shape)},
                          {"axis", static_cast<std::int64_t>(axis)},
                          {"dtype", dtype}})};
}

/// A size as a scalar value.
inline Term size_of_dim(NodeContext& node, const Dim& dim, DType dtype = DType::kInt64) {
  if (dim.is_constant()) return {node, node.constant(dtype, static_cast<double>(dim.value()))};
  return {node, node.add("Size", {}, {{"value", std::vector<Dim>{dim}}, {"dtype", dtype}})};
}

/// The type for indices up to `length`: one of 32 bits is twice as fast.
inline DType index_type(NodeContext& node, const Dim& length) {
  const auto most = ir::upper_bound(length, node.builder().ranges());
  return most && *most < INT32_MAX ? DType::kInt32 : DType::kInt64;
}

/// `count` elements of `x` from index `first` on along dimension `axis`.
inline Term slice_some(const Term& x, std::size_t axis, const Dim& first, const Dim& count) {
  Shape shape = x.shape();
  std::vector<Dim> starts(shape.size(), Dim(0));
  Ints steps(shape.size(), 1);
  starts[axis] = first;
  shape[axis] = count;
  return {x.node(), x.node().add("Slice", {x.value()},
                                 {{"starts", std::move(starts)},
                                  {"steps", std::move(steps)},
                                  {"shape", std::move(shape)}})};
}

/// The elements of `x` with index `i` along dimension `axis`, which becomes 1.
inline Term slice_one(const Term& x, std::size_t axis, const Dim& i) {
  return slice_some(x, axis, i, 1);
}

/// data[indices[0], indices[1], ..].
inline Term take(const Term& data, const std::vector<Term>& indices) {
  std::vector<ValueId> inputs = {data.value()};
  for (const Term& index : indices) inputs.push_back(index.value());
  return {data.node(), data.node().add("Take", std::move(inputs))};
}

/// Reduces one dimension with `op` of ir; drops the dimension.
inline Term reduce(std::string_view op, const Term& x, std::size_t axis, bool keepdims = false) {
  return {x.node(), x.node().add(op, {x.value()},
                                 {{"axes", Ints{static_cast<std::int64_t>(axis)}},
                                  {"keepdims", std::int64_t{keepdims}}})};
}

}  // namespace sinter::frontend
