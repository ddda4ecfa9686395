// SPDX-License-Identifier: Apache-2.0
// The layouts in which a node can be done, with the requirements of each kind of operator.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/layouts/layout.h"

namespace sinter::fusion {

/// Layouts of a node's operands and of all its results.
struct Form {
  std::vector<Perm> operands;
  std::vector<Perm> results;
  friend bool operator==(const Form&, const Form&) = default;
};

/// The initial form of a node: the model's layouts, with two exceptions. A Transpose only relabels
/// its operand; and a target may support an operator in one layout only (convolutions with channels
/// last).
Form first_form(const Graph& graph, const Node& node, const TargetTraits& target);
/// Another form that a node may have from the start: the model's layouts, where the target takes
/// both.
std::optional<Form> second_form(const Graph& graph, const Node& node, const TargetTraits& target);
/// The form, if any, in which operand `operand` has layout `perm`, or the nearest that the node
/// allows.
std::optional<Form> form_of_operand(const Graph& graph, const Node& node, std::size_t operand,
                                    const Perm& perm, const TargetTraits& target);
/// The same for the node's only result.
std::optional<Form> form_of_result(const Graph& graph, const Node& node, const Perm& perm,
                                   const TargetTraits& target);

/// The results of `node` of `graph`, built in `form` from `inputs`.
std::vector<ValueId> build_form(GraphBuilder& builder, const Graph& graph, const Node& node,
                                const Form& form, std::span<const ValueId> inputs,
                                const TargetTraits& target);

}  // namespace sinter::fusion
