// SPDX-License-Identifier: Apache-2.0
// Data-dependent sizes: symbols whose values the run determines.
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

/// Creates symbols for data-dependent sizes, each with an Extent node that computes it (see
/// ir/ops/extent.cpp).
class DataSizes {
 public:
  DataSizes(ir::GraphBuilder& builder, ShapeFolder& folder) : builder_(builder), folder_(folder) {}

  /// Sets the user's bounds, by name.
  void start(std::map<std::string, std::int64_t> bounds) { bounds_ = std::move(bounds); }

  /// The size in `count`, a scalar integer: a known size, or a new symbol `name` bounded by `most`
  /// or by the user. Throws Error(kUnsupported), which explains how to give a bound, if there is
  /// none.
  Dim size(ValueId count, const std::string& name, const std::optional<Dim>& most);
  /// Runs fail, and name `name`, in which `value`, an i64 scalar, is not 0.
  void require_zero(ValueId value, const std::string& name);
  /// If the user bounded the value that the model calls `name`, its elements become such sizes.
  void note_value(ValueId value, const std::string& name);
  /// Replaces long formulas of data-dependent sizes in the dimensions of `value` by new symbols.
  /// Otherwise formulas grow without limit, as when the selections of many classes are
  /// concatenated.
  ValueId with_short_sizes(ValueId value, const std::string& name);
  /// Two sizes must be equal for a node to fit, but one depends on data, so no proof is possible.
  /// Replaces the longer expression by the other one in the node's `inputs`. If the sizes are
  /// equal, no element changes; a single element is repeated, as in broadcasting. Other cases are
  /// invalid models. False if no input has such a size.
  bool fit(std::vector<ValueId>& inputs, const Dim& a, const Dim& b);
  /// Values that a user can bound so that the contents of `value` become known: those it is
  /// assembled from, which are sizes. Their own operands may be negative.
  std::vector<ValueId> sources(ValueId value);
  /// The user's bound of the size `name`.
  std::optional<std::int64_t> bound_of(const std::string& name);
  /// Names of unused bounds.
  std::vector<std::string> unused() const;

 private:
  bool give(std::vector<ValueId>& inputs, const Dim& from, const Dim& to);
  /// `value` with size `to` in place of `from`.
  ValueId with_size(ValueId value, const Dim& from, const Dim& to);
  /// The same for places of flags all of which are true, as `to` is the most that `from` may be.
  std::optional<ValueId> with_all_places(ValueId value, const Dim& from, const Dim& to);
  std::string unique(const std::string& name) const;
  /// `count` is an i64 scalar.
  Dim new_size(ValueId count, const std::string& name, const std::optional<Dim>& most);

  ir::GraphBuilder& builder_;
  ShapeFolder& folder_;
  std::map<std::string, std::int64_t> bounds_;
  std::set<std::string> used_;
  std::map<ValueId, Dim> known_;  // by the value that holds the size
  std::map<Dim, Dim> short_;      // by formula
};

}  // namespace sinter::frontend
