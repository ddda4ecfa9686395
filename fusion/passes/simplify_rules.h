// The rules of pass simplify. Each looks at one node about to be added and may give a value that is
// the same.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "fusion/context.h"

namespace sinter::fusion {

/// A node that is about to be added to `builder` with these inputs and this result type.
struct Site {
  GraphBuilder& builder;
  const Node& node;
  std::span<const ValueId> inputs;
  const TensorType& type;

  bool is(std::string_view op) const { return node.op->name == op; }
  const TensorType& input_type(std::size_t i) const { return builder.type(inputs[i]); }
  /// The node behind an input if it is an `op`, or null.
  const Node* input_node(std::size_t i, std::string_view op) const;
  /// The value that all elements of a constant input have.
  std::optional<double> constant(std::size_t i) const;
  /// `value`, expanded to the site's shape if it has another.
  ValueId fitted(ValueId value) const;
};

/// A rule reads as: where it matches, the value that replaces the node's result.
struct SimplifyRule {
  std::string_view name;
  std::optional<ValueId> (*apply)(const Site& site);
};
std::span<const SimplifyRule> pointwise_rules();
std::span<const SimplifyRule> view_rules();

}  // namespace sinter::fusion
