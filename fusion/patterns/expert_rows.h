// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts in a graph: values whose rows are tokens' choices, sorted by expert
// (ir/mixture/expert_rows.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// What a value is in a mixture of T tokens with k choices each.
enum class RowRole : std::uint8_t {
  kChoices,  // [T k]: the experts of all tokens' choices, in order
  kOrder,    // [T k]: the numbers of choices, sorted by expert
  kTokens,   // [T k]: the token of each sorted row
  kOffsets,  // where each expert's rows begin
  kInverse,  // [T k], [T, k]: the sorted row of each choice
  kRows,     // [T k, ..]: one row for each sorted choice, computed from that choice alone
};

class ExpertRows {
 public:
  explicit ExpertRows(const Graph& graph);

  /// Nothing: it is outside of mixtures, or a result.
  std::optional<RowRole> role(ValueId value) const;
  /// The choices [T, k] behind a value of role kChoices, and the number of experts.
  ValueId choices(ValueId value) const;
  std::int64_t experts(ValueId value) const;
  /// Whether the node belongs to a mixture, from the sorting of its choices to the rows put back in
  /// the order of tokens: then each token's result depends on that token alone.
  bool is_inside(const Node& node) const { return inside_[position(node)]; }

 private:
  struct Member {
    std::size_t mixture;
    RowRole role;
  };
  struct Mixture {
    ValueId choices, flat;
    Dim tokens, rows;
    std::int64_t chosen = 0, experts = 0;
  };
  std::size_t position(const Node& node) const {
    return static_cast<std::size_t>(&node - graph_.nodes().data());
  }
  const std::optional<Member>& member(ValueId value) const { return members_[value.position()]; }
  bool is(ValueId value, std::size_t mixture, RowRole role) const;
  void find_choices(const Node& node);
  void visit(const Node& node);
  std::optional<RowRole> result(const Node& node, std::size_t mixture, bool& ends) const;
  bool is_row_wise(const Node& node, std::size_t mixture) const;
  bool has_tokens(ValueId value, const Mixture& mixture) const;

  const Graph& graph_;
  std::vector<Mixture> mixtures_;
  std::vector<std::optional<Member>> members_;  // by value
  std::vector<bool> inside_;                    // by node
};

}  // namespace sinter::fusion
