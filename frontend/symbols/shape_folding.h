// Sizes as values: what small integer tensors hold, as Dims.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "frontend/symbols/default_ranges.h"
#include "frontend/symbols/size_ratios.h"
#include "ir/graph.h"

namespace sinter::frontend {

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
  std::optional<std::vector<ir::Dim>> contents(ir::ValueId value);
  /// Says what `value`, an input of one element, holds.
  void assume(ir::ValueId value, const ir::Dim& element) {
    contents_[value.index] = std::vector<ir::Dim>{element};
  }
  /// Likewise of a value that import cannot do without. Where integers are divided that have a
  /// negative quotient for some sizes only, these sizes are excluded (see DefaultRanges): no one
  /// expression would do. Where the contents are not known all the same, notes as need() does.
  std::optional<std::vector<ir::Dim>> needed_contents(ir::ValueId value);
  /// The tensor behind `value` if it follows from constants alone and is not large.
  std::optional<ir::Tensor> constant(ir::ValueId value);
  /// Notes that importing needs what `value` holds, which neither of the above gives.
  void need(ir::ValueId value);
  /// The graph inputs that needed values are computed from.
  const std::set<ir::ValueId>& needed_inputs() const { return needed_inputs_; }
  /// A constant equal to `value` if its contents are known integers, else `value`.
  ir::ValueId simplified(ir::ValueId value);

  /// An int64 value that holds `dims`: a vector, or a scalar for `shape` {}.
  ir::ValueId value_of(const std::vector<ir::Dim>& dims);
  ir::ValueId scalar_of(const ir::Dim& dim);
  /// 0, 1, .., n-1 as a vector of `dtype`.
  ir::ValueId iota(const ir::Dim& n, DType dtype);
  /// n, if `value` holds the numbers of iota(n), perhaps reshaped, repeated or of another type.
  std::optional<ir::Dim> length_of_iota(ir::ValueId value) const;

 private:
  std::optional<std::vector<ir::Dim>> compute(ir::ValueId value);
  /// Of `value` and what it is computed from: that their contents are not known.
  void forget_failures(ir::ValueId value);
  struct InputContents {
    std::vector<std::vector<ir::Dim>> elements;  // of each input
    std::vector<ir::TensorType> types;
  };
  /// What all inputs hold; nothing if one is not known.
  std::optional<InputContents> contents_of_inputs(const ir::Node& node);
  std::optional<std::vector<ir::Dim>> fold_pointwise(const ir::Node& node,
                                                     const ir::TensorType& type);
  /// What Cast makes of floats that are computed from sizes.
  std::optional<std::vector<ir::Dim>> from_floats(ir::ValueId value);
  std::optional<std::vector<SizeRatio>> ratios(ir::ValueId value);
  std::optional<std::vector<ir::Dim>> fold_view(const ir::Node& node, const ir::TensorType& type);
  std::optional<std::vector<ir::Dim>> fold_indexed(const ir::Node& node,
                                                   const ir::TensorType& type);
  std::optional<std::vector<ir::Dim>> fold_reduce(const ir::Node& node, const ir::TensorType& type);
  ir::ValueId vector_of(const ir::Dim& dim);

  ir::GraphBuilder& builder_;
  DefaultRanges& default_ranges_;
  bool excludes_negative_ = false;  // see needed_contents
  std::unordered_map<std::int32_t, std::optional<std::vector<ir::Dim>>> contents_;
  std::unordered_map<std::int32_t, std::optional<ir::Tensor>> constants_;
  std::set<ir::ValueId> needed_inputs_;
  int depth_ = 0;
};

}  // namespace sinter::frontend
