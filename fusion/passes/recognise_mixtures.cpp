// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts that are written as one part of the graph for each expert.
#include <algorithm>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "fusion/mixtures/dense_experts.h"
#include "fusion/mixtures/expert_template.h"
#include "fusion/mixtures/nodes.h"
#include "fusion/mixtures/split_rows.h"
#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

class MixtureFinder {
 public:
  MixtureFinder(const Graph& graph, Context& context)
      : graph_(graph),
        context_(context),
        selections_(selections(graph)),
        is_inside_(graph.values().size()) {}

  std::vector<Piece> find() {
    std::vector<Piece> pieces = routes();
    if (selections_.empty()) return pieces;
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node)
      if ((node->op->name == "Add" || node->op->name == "Scatter") &&
          !is_inside_[node->outputs[0].position()])
        if (auto piece = at(*node)) pieces.push_back(std::move(*piece));
    return pieces;
  }

 private:
  /// What is added up to one value.
  struct Sum {
    std::vector<ExpertBranch> branches;
    std::vector<ValueId> others, inside;
  };

  /// Whether rows are grouped, or matrices gathered, by the choices, behind views and casts of
  /// them.
  bool choose_experts(ValueId choices) {
    std::vector<ValueId> open{choices};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      for (const NodeId id : graph_.users(value)) {
        const Node& user = graph_.node(id);
        if (user.op->name == "GroupByIndex") return true;
        if (user.op->name == "Gather" && user.inputs[1] == value &&
            user.attrs.get_int("axis") == 0 && graph_.type(user.inputs[0]).shape.size() == 3)
          return true;
        if (user.op->name == "Reshape" || user.op->name == "Cast") open.push_back(user.outputs[0]);
      }
    }
    return false;
  }

  /// Routes of mixtures whose experts' matrices are gathered (group_gathered).
  std::vector<Piece> routes() {
    std::vector<Piece> pieces;
    for (const Node& sort : graph_.nodes()) {
      if (sort.op->name != "ArgSort" || graph_.type(sort.outputs[0]).shape.size() != 2 ||
          !choose_experts(sort.outputs[0]))
        continue;
      const ValueId choices = sort.outputs[0];
      const auto routing = find_routing(graph_, choices);
      if (!routing) continue;
      const ValueId shares = routing->shares;
      const Node& last = shares.valid() ? *graph_.producer(shares) : sort;
      decide(context_, sort, last, true, "the routing of a mixture of experts");
      Piece piece{.reads = {routing->logits}, .writes = {choices}};
      if (routing->bias.valid()) piece.reads.push_back(routing->bias);
      if (shares.valid()) piece.writes.push_back(shares);
      piece.emit = [this, routing, writes = piece.writes](GraphBuilder& b,
                                                          std::span<const ValueId> reads) {
        std::vector<ValueId> routed = add_route(b, *routing, reads[0], reads.back());
        routed.resize(writes.size());
        for (std::size_t i = 0; i < writes.size(); ++i)
          routed[i] = mixtures::cast(b, routed[i], graph_.type(writes[i]).dtype);
        return routed;
      };
      pieces.push_back(std::move(piece));
    }
    return pieces;
  }

  bool is_zero(ValueId value) {
    const std::vector<Dim> index(graph_.type(value).shape.size(), Dim(0));
    const auto source = Elements(graph_).source(value, index);
    return source && splat_value(graph_, source->value) == 0;
  }

  /// Adds the terms of `value` to `sum`.
  void flatten(ValueId root, Sum& sum) {
    std::vector<ValueId> open{root};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      const Node* node = graph_.producer(value);
      const bool is_own =
          value == root || (graph_.users(value).size() == 1 && !graph_.is_output(value));
      if (node != nullptr && is_own && node->op->name == "Add" &&
          graph_.type(node->inputs[0]) == graph_.type(node->inputs[1])) {
        sum.inside.push_back(value);
        open.insert(open.end(), {node->inputs[0], node->inputs[1]});
        continue;
      }
      std::string why;
      auto branch =
          node != nullptr && is_own ? find_branch(graph_, selections_, *node, why) : std::nullopt;
      // Rows that are replaced are added where nothing was.
      if (branch && node->attrs.get_string("combine") == "none" && !is_zero(node->inputs[0])) {
        branch.reset();
        why = "its results replace what was there";
      }
      if (branch) {
        sum.inside.push_back(value);
        sum.branches.push_back(std::move(*branch));
        if (!is_zero(node->inputs[0])) open.push_back(node->inputs[0]);
      } else if (value == root || graph_.producer(value) == nullptr || !is_zero(value)) {
        if (node != nullptr && !why.empty()) refuse(*node, why);
        sum.others.push_back(value);
      }
    }
  }

  void refuse(const Node& scatter, const std::string& why) {
    const Node* rows = graph_.producer(scatter.inputs[1]);
    if (rows == nullptr || !refused_.insert(&scatter).second) return;
    decide(context_, *rows, scatter, false, "not recognised as an expert: " + why);
    context_.decisions.back().sought = "GroupedMatMul";
  }

  std::optional<Piece> at(const Node& node) {
    Sum sum;
    flatten(node.outputs[0], sum);
    for (const ValueId value : sum.inside) is_inside_[value.position()] = true;
    if (sum.branches.size() < 2) return std::nullopt;
    const ExpertBranch& first = sum.branches[0];
    const bool is_one = std::ranges::all_of(sum.branches, [&](const ExpertBranch& each) {
      return each.choices == first.choices && each.tokens == first.tokens;
    });
    const Node &scatter = *sum.branches.back().scatter, &last = *first.scatter;
    const auto refused = [&](const std::string& why) {
      decide(context_, scatter, last, false, "no mixture of experts: " + why);
      context_.decisions.back().sought = "GroupedMatMul";
      return std::nullopt;
    };
    if (!is_one) return refused("its parts belong to several choices");
    auto experts =
        std::make_shared<ExpertTemplate>(graph_, context_.target, std::move(sum.branches));
    if (!experts->match()) return refused(experts->why());
    decide(context_, scatter, last, true,
           fmt::format("a mixture of {} experts, {} for each token: rows are sorted by expert",
                       experts->size(), experts->first().chosen));
    Piece piece{.reads = experts->reads(), .writes = {node.outputs[0]}};
    const std::size_t count = piece.reads.size();
    piece.reads.insert(piece.reads.end(), sum.others.begin(), sum.others.end());
    piece.emit = [experts, count](GraphBuilder& b, std::span<const ValueId> reads) {
      ValueId result = experts->emit(b, reads.first(count));
      for (const ValueId other : reads.subspan(count)) result = b.add("Add", {other, result});
      return std::vector{result};
    };
    return piece;
  }

  const Graph& graph_;
  Context& context_;
  Selections selections_;
  std::vector<bool> is_inside_;  // values that a sum above has
  std::set<const Node*> refused_;
};

}  // namespace

Graph recognise_mixtures(const Graph& given, Context& context) {
  const Graph graph = with_joined_rows(given, context);
  MixtureFinder finder(graph, context);
  const std::vector<Piece> pieces = finder.find();
  return without_idle_experts(pieces.empty() ? graph : rebuild(graph, pieces), context,
                              Explains::kAll);
}

}  // namespace sinter::fusion
