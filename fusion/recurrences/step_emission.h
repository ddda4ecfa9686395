// SPDX-License-Identifier: Apache-2.0
// Steps of tokens as one LinearAttention.
#pragma once

#include <optional>
#include <vector>

#include "fusion/recurrences/token_step.h"

namespace sinter::fusion {

/// Steps one behind the other, or one that a loop repeats, with the sizes of their states.
struct StepChain {
  std::vector<TokenStep> steps;
  Dim batch, heads, keys, values;
  bool by_channel = false;  // the decay, of the keys
};
/// Nothing if the steps differ, or have operands that LinearAttention does not take.
std::optional<StepChain> with_sizes(const Graph& graph, std::vector<TokenStep> steps);

class StepEmission {
 public:
  /// `graph`: of the steps.
  StepEmission(const Graph& graph, const StepChain& chain, GraphBuilder& builder,
               TokenSource source)
      : graph_(graph), chain_(chain), b_(builder), source_(std::move(source)) {}

  /// The operator's results; `state` is the state before, if it is not zero.
  std::vector<ValueId> run(DType type, std::optional<ValueId> state) const;
  /// [batch, heads, keys, values] as the states of the steps.
  ValueId state_out(ValueId state, const TensorType& type) const;
  /// Token `t` of the outputs, in the order of a step's result.
  ValueId result(ValueId outputs, std::int64_t t, const TensorType& type) const;
  /// All tokens, which are dimension `axis` of `type`.
  ValueId results(ValueId outputs, std::size_t axis, const TensorType& type) const;

 private:
  template <typename Get>
  ValueId tokens(const Get& get, const Dim& channel, const Dim& channels, DType type) const;
  ValueId state_in(ValueId state) const;
  Ints order_of_result() const;
  ValueId dropped(ValueId value, Ints& kept) const;
  ValueId shaped(ValueId value, const Ints& perm, const TensorType& type) const;

  const Graph& graph_;
  const StepChain& chain_;
  GraphBuilder& b_;
  TokenSource source_;
};

}  // namespace sinter::fusion
