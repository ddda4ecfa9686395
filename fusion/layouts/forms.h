// In which layouts a node can be done: what each kind of operator asks of its operands.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fusion/layouts/layout.h"

namespace sinter::fusion {

/// A way to do a node: layouts of its operands, and of all its results.
struct Form {
  std::vector<Perm> operands;
  std::vector<Perm> results;
  friend bool operator==(const Form&, const Form&) = default;
};

/// The form that a node begins with: as the model has it, but for what moves nothing in another
/// one (a Transpose is another reading of its operand) and what a target has in another one alone
/// (convolutions with channels last).
Form first_form(const Graph& graph, const Node& node, const TargetTraits& target);
/// The form, if there is one, for which operand `operand` is in layout `perm`, or as near to it as
/// the node allows.
std::optional<Form> form_of_operand(const Graph& graph, const Node& node, std::size_t operand,
                                    const Perm& perm, const TargetTraits& target);
/// The same of the node's only result.
std::optional<Form> form_of_result(const Graph& graph, const Node& node, const Perm& perm,
                                   const TargetTraits& target);

/// The results of `node` of `graph`, done in `form` on `inputs`.
std::vector<ValueId> build_form(GraphBuilder& builder, const Graph& graph, const Node& node,
                                const Form& form, std::span<const ValueId> inputs,
                                const TargetTraits& target);

}  // namespace sinter::fusion
