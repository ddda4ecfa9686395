// SPDX-License-Identifier: Apache-2.0
// All experts computed for all tokens, and summed with shares of which most are zero.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusion/mixtures/elements.h"
#include "ir/mixture/expert_rows.h"

namespace sinter::fusion {

/// For a rewrite that calls visit() for each node.
class DenseExperts {
 public:
  DenseExperts(const Graph& graph, const TargetTraits& target) : graph_(graph), target_(target) {}

  /// Notes the new values of a node's inputs.
  void visit(const Node& node, std::span<const ValueId> inputs);
  /// The result of `node`, if it sums over experts what each computes of each token, times shares
  /// that are zero but for chosen experts: from these alone. Else nothing; why() says why if it
  /// looks like one.
  std::optional<ValueId> sum(GraphBuilder& builder, const Node& node);
  const std::string& why() const { return why_; }
  const ir::ExpertRows& rows() const { return rows_; }

 private:
  /// The shares of the choices [tokens, chosen].
  struct Shares {
    ValueId values, choices;
  };
  /// Those that are spread over [tokens, experts], read at this element.
  std::optional<Shares> spread_shares(const Place& place) const;
  std::optional<Shares> scattered_shares(const Node& node) const;
  std::optional<Shares> tested_shares(const Node& node, const Place& place) const;
  /// Rows [choices, columns] or [choices, 1] of `value` at `index`, in terms of expert_, token_ and
  /// column_.
  std::optional<ValueId> rows(GraphBuilder& b, ValueId value, std::vector<Dim> index,
                              std::int64_t columns);
  std::optional<ValueId> stored_rows(GraphBuilder& b, const Place& place, std::int64_t columns);
  std::optional<ValueId> product(GraphBuilder& b, const Node& node, const Place& place,
                                 std::int64_t columns);
  std::optional<ValueId> pointwise(GraphBuilder& b, const Node& node, const Place& place,
                                   std::int64_t columns);
  std::optional<Place> trace(ValueId value, std::span<const Dim> index,
                             const std::function<bool(const Node&)>& through = {}) const;
  bool reads(const std::vector<Dim>& index, const Dim& symbol) const;
  void set_columns(std::int64_t columns);
  std::nullopt_t fail(std::string why);

  const Graph& graph_;
  const TargetTraits& target_;
  std::map<ValueId, ValueId> new_;
  Ranges ranges_;
  Dim expert_, token_, column_, inner_;
  Dim flat_token_;  // token_, in terms of the dimensions of what is summed
  ir::ExpertRows rows_;
  std::string why_;
};

/// Mixtures that compute all experts for all tokens compute the chosen ones. kFound: says nothing
/// of what looks like one.
enum class Explains { kAll, kFound };
Graph without_idle_experts(const Graph& graph, Context& context, Explains explains);

}  // namespace sinter::fusion
