// SPDX-License-Identifier: Apache-2.0
// What a loop's body computes, for all iterations at once: values that differ by iteration get a
// dimension in front.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

class LiftedBody {
 public:
  /// `body`: of a While of `trips` iterations.
  LiftedBody(const Graph& body, Dim trips) : body_(body), trips_(std::move(trips)) {}

  /// `value` is the same in all iterations.
  void invariant(ValueId value) { kinds_.emplace(value, false); }
  /// Which values can be lifted, if those `given` are: nothing else depends on a state. Operators
  /// of which no lifted form is known end it.
  void plan(std::span<const ValueId> given);
  bool has(ValueId value) const { return kinds_.contains(value); }
  bool differs(ValueId value) const { return kinds_.at(value); }

  /// Adds nodes for `value`, once; `bound` has the given ones, and the body's inputs.
  ValueId emit(GraphBuilder& builder, std::map<ValueId, ValueId>& bound, ValueId value) const;

 private:
  bool can_lift(const Node& node) const;
  /// The element of the iteration's own, along dimension `axis` of the data.
  bool is_element_of_iteration(const Node& node) const;
  ValueId lifted(GraphBuilder& builder, const Node& node, std::span<const ValueId> inputs) const;

  const Graph& body_;
  Dim trips_;
  std::map<ValueId, bool> kinds_;  // those that can be had: whether they differ by iteration
};

}  // namespace sinter::fusion
