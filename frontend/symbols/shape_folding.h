// SPDX-License-Identifier: Apache-2.0
// Symbolic evaluation of sizes: the contents of small integer tensors as Dims.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "frontend/symbols/default_ranges.h"
#include "frontend/symbols/size_arithmetic.h"
#include "ir/graph.h"

namespace sinter::frontend {

/// The elements of a small tensor of sizes in row-major order; nullopt if unknown.
using Contents = std::optional<std::vector<Dim>>;

/// Evaluates the shape arithmetic of a model (Shape -> Gather -> Mul -> Concat -> Reshape)
/// symbolically.
///
/// Every such tensor is also an ordinary value of the graph, so that it can be used as data; if it
/// only determines shapes, nothing reads the value and the builder drops it. The rules apply to
/// imported operators, not to ONNX's: one rule per kind of operator covers all ONNX operators that
/// are imported to it.
class ShapeFolder {
 public:
  ShapeFolder(ir::GraphBuilder& builder, DefaultRanges& default_ranges)
      : builder_(builder), default_ranges_(default_ranges) {}

  /// The contents of `value` in row-major order. It must be a small integer or boolean tensor
  /// (false is 0) whose contents depend only on constants and dimensions.
  Contents contents(ValueId value);
  /// Declares the value of `value`, an input of one element.
  void assume(ValueId value, const Dim& element) {
    contents_[value.index] = std::vector<Dim>{element};
  }
  /// The same for all elements.
  void assume(ValueId value, std::vector<Dim> elements) {
    contents_[value.index] = std::move(elements);
  }
  /// The same for a value that the import requires. If an integer quotient is negative for some
  /// sizes only, these sizes are excluded (see DefaultRanges), since no single expression covers
  /// both signs. If the contents are still unknown, records the value as need() does.
  Contents needed_contents(ValueId value);
  /// The tensor of `value`, if it depends only on constants and is not large.
  std::optional<ir::Tensor> constant(ValueId value);
  /// Records that the import needs the contents of `value`, which none of the above provides.
  void need(ValueId value);
  /// The graph inputs on which needed values depend.
  const std::set<ValueId>& needed_inputs() const { return needed_inputs_; }
  /// A constant equal to `value` if its contents are known integers, else `value`.
  ValueId simplified(ValueId value);

  /// An int64 value with the elements `dims`: a vector; scalar_of: a scalar.
  ValueId value_of(const std::vector<Dim>& dims);
  ValueId scalar_of(const Dim& dim);
  /// 0, 1, .., n-1 as a vector of `dtype`.
  ValueId iota(const Dim& n, DType dtype);
  /// n, if `value` has the elements of iota(n), possibly reshaped, repeated or of another type.
  std::optional<Dim> length_of_iota(ValueId value) const;

 private:
  Contents compute(ValueId value);
  /// Forgets that the contents of `value` and its operands are unknown.
  void forget_failures(ValueId value);
  struct InputContents {
    std::vector<std::vector<Dim>> elements;  // by input
    std::vector<ir::TensorType> types;
  };
  /// The contents of all inputs; nullopt if one is unknown.
  std::optional<InputContents> contents_of_inputs(const ir::Node& node);
  Contents fold_pointwise(const ir::Node& node, const ir::TensorType& type);
  /// The result of a Cast of floats that are computed from sizes.
  Contents from_floats(ValueId value);
  std::optional<std::vector<SizeRatio>> ratios(ValueId value);
  Contents fold_view(const ir::Node& node, const ir::TensorType& type);
  Contents fold_indexed(const ir::Node& node, const ir::TensorType& type);
  Contents fold_reduce(const ir::Node& node, const ir::TensorType& type);
  ValueId vector_of(const Dim& dim);

  ir::GraphBuilder& builder_;
  DefaultRanges& default_ranges_;
  bool excludes_negative_ = false;  // see needed_contents
  std::unordered_map<std::int32_t, Contents> contents_;
  std::unordered_map<std::int32_t, std::optional<ir::Tensor>> constants_;
  std::set<ValueId> needed_inputs_;
  int depth_ = 0;
};

}  // namespace sinter::frontend
