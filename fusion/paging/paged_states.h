// SPDX-License-Identifier: Apache-2.0
// States of decoders of many sequences: each in slots of a pool, which layers read and write.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "fusion/paging/decoder_states.h"

namespace sinter::fusion {

namespace paged_names {
/// Of decoders with states of fixed size, by token: how many of its sequence's tokens are in front
/// of it in the step, the slot with the state before these, and the slot that gets the state
/// behind it (below 0: zeros, and none); and the tokens that have such a slot.
inline constexpr char kStateOffsets[] = "state_offsets", kStateSources[] = "state_sources",
                      kStateSlots[] = "state_slots", kStateStores[] = "state_stores";
inline constexpr char kStores[] = "stores", kPooledStates[] = "pooled_states";
}  // namespace paged_names

class PagedStates {
 public:
  PagedStates(const Graph& graph, const std::vector<DecoderState>& states)
      : graph_(graph), states_(states), results_(states.size()) {}

  bool empty() const { return states_.empty(); }
  /// Inputs that declare_inputs() adds, if there are states.
  std::size_t inputs() const { return empty() ? 0 : 4; }

  /// Adds the inputs that say which slots tokens read and write.
  void declare_inputs(GraphBuilder& builder, const PagingOptions& options);
  /// Adds the pools, as inputs with the states' names.
  void declare_pools(GraphBuilder& builder);

  /// Whether `node` only brings a state to its layer or from there: nothing is left of it.
  bool is_around(NodeId node) const;
  const DecoderState* of_layer(NodeId node) const;
  const DecoderState* at_output(std::size_t output) const;

  /// The layer of `state` over the pool. `mapped` gives the new value of an old one, and
  /// `starts` are the sequences' first tokens. Returns the value of the node's first result.
  ValueId add_layer(GraphBuilder& builder, const DecoderState& state, ValueId starts,
                    const std::function<ValueId(ValueId)>& mapped);
  /// Adds what the last layer stores, behind what reads the pool: it is changed in place then.
  void add_stores(GraphBuilder& builder);
  /// The pool behind the run, if all is stored.
  ValueId result(const DecoderState& state) const { return results_[number(state)]; }

 private:
  std::size_t number(const DecoderState& state) const {
    return static_cast<std::size_t>(&state - states_.data());
  }

  static constexpr std::int64_t kMostStates = 1 << 16;

  const Graph& graph_;
  const std::vector<DecoderState>& states_;
  std::vector<ValueId> pools_, results_;  // by state
  ValueId offsets_, sources_, slots_, stores_;
  struct Waiting {
    std::size_t number;
    ValueId rows;
  };
  std::optional<Waiting> waiting_;  // a convolution whose inputs are to be stored
};

}  // namespace sinter::fusion
