// SPDX-License-Identifier: Apache-2.0
// What all experts of a mixture compute: the same operators on rows of tokens, each expert with
// constants of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fusion/mixtures/expert_branch.h"
#include "fusion/mixtures/routing.h"
#include "ir/mixture/expert_rows.h"

namespace sinter::fusion {

class ExpertTemplate {
 public:
  /// `branches` are of one mixture, at least one.
  ExpertTemplate(const Graph& graph, const TargetTraits& target,
                 std::vector<ExpertBranch> branches);

  /// Whether the branches are alike, and their rows independent of each other.
  bool match();
  const std::string& why() const { return why_; }

  /// What emit() reads.
  const std::vector<ValueId>& reads() const { return reads_; }
  /// The sum of each token's experts [tokens, size]. `reads` are mapped.
  ValueId emit(GraphBuilder& builder, std::span<const ValueId> reads) const;
  const ExpertBranch& first() const { return branches_[0]; }
  std::size_t size() const { return branches_.size(); }

 private:
  enum class Kind {
    kOuter,    // a value of all branches, without rows
    kOwn,      // a constant of each expert
    kTokens,   // rows of each choice's token
    kChoices,  // an element for each choice, in every row
    kProduct,  // rows times a matrix of each expert
    kNode,     // another operator, row by row
  };
  struct Step {
    Kind kind = Kind::kNode;
    std::vector<ValueId> values;      // of each branch
    std::vector<std::size_t> inputs;  // steps
    ValueId data;                     // kTokens, kChoices: outside of the branches
    bool by_expert = false;           // kChoices: data is [tokens, experts], else as choices
    bool transposed = false;          // kProduct: matrices are [columns, k]
  };
  /// What is made while nodes are added.
  struct Emission;

  std::optional<std::size_t> fail(std::string why);
  std::optional<std::size_t> step_of(const std::vector<ValueId>& values);
  std::optional<std::size_t> step_without_rows(const std::vector<ValueId>& values);
  std::optional<std::size_t> step_of_rows(const std::vector<ValueId>& values);
  std::optional<std::size_t> take(const std::vector<ValueId>& values);
  std::optional<std::size_t> product(const std::vector<ValueId>& values);
  std::optional<std::size_t> node(const std::vector<ValueId>& values);
  std::size_t add(Step step);
  void find_route();
  void find_reads();

  std::optional<Step> taken(ValueId value, std::size_t branch);
  std::optional<std::size_t> row_axis(ValueId value, std::size_t branch) const;
  bool is_row_wise(const Node& node) const;
  bool is_scaled_by_shares(const Step& step, std::size_t& rows, std::size_t& shares) const;
  Attrs common_attrs(const Node& node, std::size_t branch) const;
  Shape common_shape(ValueId value) const;
  std::string target_lacks(const Node& matmul) const;

  ValueId choices(GraphBuilder& b, ValueId given) const;
  ValueId made(Emission& e, std::size_t step) const;
  ValueId shares(Emission& e, const Step& step) const;
  ValueId own_rows(Emission& e, const Step& own, const Shape& out, std::size_t axis) const;

  const Graph& graph_;
  const TargetTraits& target_;
  std::vector<ExpertBranch> branches_;
  std::vector<Step> steps_;
  std::map<ValueId, std::size_t> known_;  // by the first branch's value
  std::vector<ValueId> reads_;
  std::optional<Routing> routing_;
  std::size_t result_ = 0;
  Dim row_count_;
  std::string why_;
};

}  // namespace sinter::fusion
