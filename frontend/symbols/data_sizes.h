// SPDX-License-Identifier: Apache-2.0
// Sizes that follow from data: symbols whose value the run finds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/symbols/shape_folding.h"
#include "ir/graph.h"

namespace sinter::frontend {

/// Makes the symbols, each with an Extent node that says what it is (see ir/ops/extent.cpp).
class DataSizes {
 public:
  DataSizes(ir::GraphBuilder& builder, ShapeFolder& folder) : builder_(builder), folder_(folder) {}

  /// Bounds that the user gave, by name.
  void start(std::map<std::string, std::int64_t> bounds) { bounds_ = std::move(bounds); }

  /// The number that `count` holds, one integer: a known size, or a symbol called `name`, whose
  /// bound is `most` or the user's. Throws Error(kUnsupported) saying how to give one if there is
  /// none.
  Dim size(ValueId count, const std::string& name, const std::optional<Dim>& most);
  /// Where the user gave a bound for the value that the model calls `name`, its elements are such
  /// sizes.
  void note_value(ValueId value, const std::string& name);
  /// `value` with short names for dimensions that are long formulas of such sizes, as where the
  /// selections of many classes come together: formulas of formulas would grow without end.
  ValueId with_short_sizes(ValueId value, const std::string& name);
  /// Two sizes must be equal for a node to fit, one of which the run finds, so that nothing can
  /// prove it: gives those of the node's `inputs` that have the one which is said with more the
  /// other one. Where they are equal no element changes, and one element is repeated as
  /// broadcasting does; no other model is valid. False if no input has such a size.
  bool fit(std::vector<ValueId>& inputs, const Dim& a, const Dim& b);
  /// What a user can bound so that the contents of `value` are known: the values that it is put
  /// together of. Such are sizes; what these are computed from may be negative.
  std::vector<ValueId> sources(ValueId value);
  /// Names of bounds that have not been used.
  std::vector<std::string> unused() const;

 private:
  bool give(std::vector<ValueId>& inputs, const Dim& from, const Dim& to);
  /// `value` with the size `to` where it has `from`.
  ValueId with_size(ValueId value, const Dim& from, const Dim& to);
  std::string unique(const std::string& name) const;
  /// Of `count`, an i64 scalar.
  Dim new_size(ValueId count, const std::string& name, const std::optional<Dim>& most);

  ir::GraphBuilder& builder_;
  ShapeFolder& folder_;
  std::map<std::string, std::int64_t> bounds_;
  std::set<std::string> used_;
  std::map<ValueId, Dim> known_;  // by the value that holds it
  std::map<Dim, Dim> short_;      // by the formula
};

}  // namespace sinter::frontend
