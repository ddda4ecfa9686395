// SPDX-License-Identifier: Apache-2.0
// Sizes as values: what small integer tensors hold, as Dims.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "frontend/symbols/default_ranges.h"
#include "frontend/symbols/size_arithmetic.h"
#include "ir/graph.h"

namespace sinter::frontend {

/// What a small tensor of sizes holds in row-major order; nothing if it is not known.
using Contents = std::optional<std::vector<Dim>>;

/// Follows the shape arithmetic of a model (Shape -> Gather -> Mul -> Concat -> Reshape) by value.
///
/// Every such tensor is an ordinary value of the graph as well, so that it may also be used as
/// data; where it only feeds shapes nothing reads that value and the builder drops it. The
/// arithmetic is followed on the imported operators, not on ONNX's: one rule for each kind of
/// operator covers every ONNX operator that is imported to it.
class ShapeFolder {
 public:
  ShapeFolder(ir::GraphBuilder& builder, DefaultRanges& default_ranges)
      : builder_(builder), default_ranges_(default_ranges) {}

  /// The contents of `value` in row-major order, if it is a small integer or boolean tensor (false
  /// is 0) whose contents follow from constants and dimensions alone.
  Contents contents(ValueId value);
  /// Says what `value`, an input of one element, holds.
  void assume(ValueId value, const Dim& element) {
    contents_[value.index] = std::vector<Dim>{element};
  }
  /// The same of each element.
  void assume(ValueId value, std::vector<Dim> elements) {
    contents_[value.index] = std::move(elements);
  }
  /// Likewise of a value that import cannot do without. Where integers are divided that have a
  /// negative quotient for some sizes only, these sizes are excluded (see DefaultRanges): no one
  /// expression would do. Where the contents are not known all the same, notes as need() does.
  Contents needed_contents(ValueId value);
  /// The tensor behind `value` if it follows from constants alone and is not large.
  std::optional<ir::Tensor> constant(ValueId value);
  /// Notes that importing needs what `value` holds, which neither of the above gives.
  void need(ValueId value);
  /// The graph inputs that needed values are computed from.
  const std::set<ValueId>& needed_inputs() const { return needed_inputs_; }
  /// A constant equal to `value` if its contents are known integers, else `value`.
  ValueId simplified(ValueId value);

  /// An int64 value that holds `dims`: a vector, or a scalar for `shape` {}.
  ValueId value_of(const std::vector<Dim>& dims);
  ValueId scalar_of(const Dim& dim);
  /// 0, 1, .., n-1 as a vector of `dtype`.
  ValueId iota(const Dim& n, DType dtype);
  /// n, if `value` holds the numbers of iota(n), perhaps reshaped, repeated or of another type.
  std::optional<Dim> length_of_iota(ValueId value) const;

 private:
  Contents compute(ValueId value);
  /// Of `value` and what it is computed from: that their contents are not known.
  void forget_failures(ValueId value);
  struct InputContents {
    std::vector<std::vector<Dim>> elements;  // of each input
    std::vector<ir::TensorType> types;
  };
  /// What all inputs hold; nothing if one is not known.
  std::optional<InputContents> contents_of_inputs(const ir::Node& node);
  Contents fold_pointwise(const ir::Node& node, const ir::TensorType& type);
  /// What Cast makes of floats that are computed from sizes.
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
