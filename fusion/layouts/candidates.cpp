// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/candidates.h"

#include <algorithm>

namespace sinter::fusion {
namespace {

// Models have up to three: plain, channels last, and what a Transpose prefers.
constexpr std::size_t kMostForms = 6;

class Finder {
 public:
  Finder(const Graph& graph, const TargetTraits& target, const std::vector<bool>& is_static)
      : graph_(graph), target_(target), is_static_(is_static), in_move_(graph.nodes().size(), -1) {
    for (const Node& node : graph.nodes()) {
      found_.forms.push_back({first_form(graph, node, target)});
      spread_.push_back({false});
      const auto second = second_form(graph, node, target);
      if (!second) continue;
      found_.forms.back().push_back(*second);
      spread_.back().push_back(false);
      found_.moves.push_back({{static_cast<int>(found_.forms.size()) - 1, 1}});
    }
  }

  Candidates run() {
    for (const bool conv : {true, false})
      for (std::size_t i = 0; i < graph_.nodes().size(); ++i) seed(i, conv);
    for (std::size_t i = 0; i < left_.size(); ++i) grow(left_[i]);
    return std::move(found_);
  }

 private:
  using Choice = LayoutProblem::Choice;

  void seed(std::size_t i, bool conv) {
    const Node& node = graph_.nodes()[i];
    if (is_static_[node.outputs[0].position()]) return;
    const int index = static_cast<int>(i);
    if (conv && node.op->name == "Conv") grow({index, 0});
    if (conv || node.op->name != "Transpose") return;
    grow({index, 0});
    const Perm plain = identity_perm(graph_.type(node.outputs[0]).shape.size());
    if (const auto form = form_of_result(graph_, node, plain, target_))
      if (const int choice = add(i, *form); choice >= 0) grow({index, choice});
  }

  /// The index of `form` among the node's choices; -1 if there are too many.
  int add(std::size_t node, const Form& form) {
    auto& forms = found_.forms[node];
    const auto known = std::ranges::find(forms, form);
    if (known != forms.end()) return static_cast<int>(known - forms.begin());
    if (forms.size() == kMostForms) return -1;
    forms.push_back(form);
    spread_[node].push_back(false);
    return static_cast<int>(forms.size()) - 1;
  }

  /// Collects a move: all forms that agree with `first`, unless it has spread from there before.
  void grow(Choice first) {
    if (has_spread(first)) return;
    move_.clear();
    ++number_;
    join(first);
    for (std::size_t i = 0; i < move_.size(); ++i) {
      const Choice choice = move_[i];
      if (has_spread(choice)) continue;
      spread_[static_cast<std::size_t>(choice.node)][static_cast<std::size_t>(choice.choice)] =
          true;
      // A copy, as forms are added in the loop.
      const Form form = found_.forms[static_cast<std::size_t>(choice.node)]
                                    [static_cast<std::size_t>(choice.choice)];
      const Node& node = graph_.nodes()[static_cast<std::size_t>(choice.node)];
      for (std::size_t operand = 0; operand < node.inputs.size(); ++operand)
        spread(node.inputs[operand], form.operands[operand]);
      for (std::size_t result = 0; result < node.outputs.size(); ++result)
        spread(node.outputs[result], form.results[result]);
    }
    if (move_.size() > 1) found_.moves.push_back(move_);
  }

  bool has_spread(Choice choice) const {
    return spread_[static_cast<std::size_t>(choice.node)][static_cast<std::size_t>(choice.choice)];
  }

  void spread(ValueId value, const Perm& perm) {
    if (is_static_[value.position()] || is_identity(perm)) return;
    if (const Node* producer = graph_.producer(value))
      if (const auto form = form_of_result(graph_, *producer, perm, target_))
        offer(graph_.value(value).producer, *form);
    for (const NodeId user : graph_.users(value)) {
      const Node& node = graph_.node(user);
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] == value)
          if (const auto form = form_of_operand(graph_, node, i, perm, target_)) offer(user, *form);
    }
  }

  void offer(NodeId node, const Form& form) {
    const int choice = add(node.position(), form);
    if (choice < 0) return;
    if (in_move_[node.position()] != number_)
      join({node.index, choice});
    else
      left_.push_back({node.index, choice});
  }

  void join(Choice choice) {
    in_move_[static_cast<std::size_t>(choice.node)] = number_;
    move_.push_back(choice);
  }

  const Graph& graph_;
  const TargetTraits& target_;
  const std::vector<bool>& is_static_;
  Candidates found_;
  std::vector<std::vector<bool>> spread_;  // by form
  std::vector<Choice> left_;               // forms of nodes that have another form in a move
  std::vector<Choice> move_;               // the move under construction
  std::vector<int> in_move_;               // number of the last move that contains the node
  int number_ = 0;
};

}  // namespace

std::vector<bool> static_values(const Graph& graph) {
  std::vector<bool> result(graph.values().size(), false);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = graph.values()[i].constant != nullptr;
  for (const Node& node : graph.nodes()) {
    const bool known =
        std::ranges::all_of(node.inputs, [&](ValueId input) { return result[input.position()]; });
    for (const ValueId output : node.outputs) result[output.position()] = known;
  }
  return result;
}

Candidates find_candidates(const Graph& graph, const TargetTraits& target,
                           const std::vector<bool>& is_static) {
  return Finder(graph, target, is_static).run();
}

}  // namespace sinter::fusion
