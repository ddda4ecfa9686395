// SPDX-License-Identifier: Apache-2.0
// One token's update of a state, as recurrent PyTorch code and bodies of loops spell it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "fusion/recurrences/operands.h"

namespace sinter::fusion {

/// after = exp(decay) before + what the rule of LinearAttention adds.
struct TokenStep {
  const Node* node = nullptr;     // the Add
  std::optional<ValueId> before;  // of the same shape; none: zeros
  ValueId after;
  std::vector<Dim> symbols;             // of the dimensions of `after`
  std::optional<std::size_t> key_axis;  // known before what reads it, or with it
  std::string_view rule;
  std::optional<StepOperand> decay, beta, erase_a, erase_b;
  StepOperand written;  // the product of keys and values; with delta, keys alone
  StepOperand key, value;
  // Known with what reads it.
  StateIndex index;
  std::vector<std::size_t> order;  // the dimensions of batch, heads, keys, values; 4: none
  /// sum over keys of after * query.
  struct ReadOut {
    ValueId value;
    std::vector<Dim> index;  // of it, over `index`
    StepOperand query;
  };
  ReadOut out;
};

class TokenSteps {
 public:
  explicit TokenSteps(const Graph& graph)
      : graph_(graph),
        terms_(graph, [this](const ElementAt& element) { return is_leaf(element); }) {}

  /// The step that `node`, an Add, ends, as far as it is known without what reads its state.
  std::optional<TokenStep> match(const Node& node);
  /// Finds what reads the step's state, when match() has seen all steps; then all is known.
  bool complete(TokenStep& step);
  Terms& terms() { return terms_; }

 private:
  bool is_leaf(const ElementAt& element);
  void reach(ValueId value, NodeId last);
  bool is_outer_product(const ElementAt& element) const;
  ProductTerm product(const ElementAt& element);
  bool repeats(const ElementAt& element, const Dim& symbol, int depth) const;
  ElementAt narrowed(ElementAt element) const;
  bool find_before(TokenStep& step, const std::vector<ElementAt>& parts);
  /// The dimension along which `element`, of the state before, is at `summed` and not at the
  /// step's symbol.
  std::optional<std::size_t> key_axis_of(const ElementAt& element, const Dim& summed) const;
  bool take_delta(TokenStep& step, ProductTerm& written);
  bool take_erased(TokenStep& step, const ProductTerm& erased);
  bool find_read_out(TokenStep& step, ValueId value);
  bool set_roles(TokenStep& step) const;
  bool reads_state(const ProductTerm& term) const;

  const Graph& graph_;
  Terms terms_;
  std::map<Shape, std::vector<Dim>> symbols_;
  std::vector<ValueId> held_;  // what a step reads for its own update
  // Of the step that is looked at.
  std::vector<Dim> index_;
  ValueId after_;
  std::optional<ValueId> target_;  // the state that elements may depend on
  std::set<ValueId> reached_;      // values that do
  bool is_zero_ = false, reads_out_ = false;
};

}  // namespace sinter::fusion
