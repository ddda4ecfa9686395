// SPDX-License-Identifier: Apache-2.0
// The rules of pass simplify. Each inspects a node that is about to be added and may return an
// equivalent value.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "fusion/context.h"

namespace sinter::fusion {

/// A node that is about to be added to `builder`, with its inputs and result type.
struct Site {
  GraphBuilder& builder;
  const Node& node;
  std::span<const ValueId> inputs;
  const TensorType& type;

  bool is(std::string_view op) const { return node.op->name == op; }
  const TensorType& input_type(std::size_t i) const { return builder.type(inputs[i]); }
  /// The producer of an input if it is an `op`, otherwise null.
  const Node* input_node(std::size_t i, std::string_view op) const;
  /// The value of a constant input whose elements are all equal.
  std::optional<double> constant(std::size_t i) const;
  /// `value`, expanded to the site's shape if needed.
  ValueId fitted(ValueId value) const;
};

/// A rule: if it matches, returns the value that replaces the node's result.
struct SimplifyRule {
  std::string_view name;
  std::optional<ValueId> (*apply)(const Site& site);
};
std::span<const SimplifyRule> pointwise_rules();
std::span<const SimplifyRule> view_rules();

}  // namespace sinter::fusion
