// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/explain_layouts.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fusion/layouts/costs.h"
#include "fusion/regions/cost.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

class Explainer {
 public:
  Explainer(const Graph& graph, const Candidates& candidates, const LayoutProblem& problem,
            const std::vector<int>& labels)
      : graph_(graph),
        candidates_(candidates),
        problem_(problem),
        labels_(labels),
        terms_of_(terms_of_nodes(problem)) {}

  std::vector<LayoutChoice> run() {
    std::vector<LayoutChoice> result;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (node.op->kind == OpKind::kView || node.outputs.size() != 1) continue;
      const auto& forms = candidates_.forms[n];
      const Perm& perm = forms[chosen(n)].results[0];
      if (forms.size() == 1 && is_identity(perm)) continue;
      if (auto choice = explain(n, perm)) result.push_back(std::move(*choice));
    }
    return result;
  }

 private:
  std::size_t chosen(std::size_t node) const { return static_cast<std::size_t>(labels_[node]); }

  std::optional<LayoutChoice> explain(std::size_t n, const Perm& perm) {
    const Node& node = graph_.nodes()[n];
    LayoutChoice choice{describe(node), node.origins, cost(n), 0, {}};
    choice.reason =
        fmt::format("its result lies as [{}]", fmt::join(perm, ", ")) +
        (choice.bytes > 0 ? fmt::format(", for which {} are moved", bytes_text(choice.bytes)) : "");
    const std::string apart = neighbours(n, terms_apart(n));
    if (!apart.empty()) choice.reason += " between it and " + apart;
    std::optional<std::size_t> best;
    const int own = labels_[n];
    for (std::size_t c = 0; c < candidates_.forms[n].size(); ++c) {
      if (candidates_.forms[n][c].results[0] == perm) continue;
      labels_[n] = static_cast<int>(c);
      const double other = cost(n);
      if (best && other >= choice.other_bytes) continue;
      best = c;
      choice.other_bytes = other;
    }
    if (!best) {
      labels_[n] = own;
      choice.reason += "; there is no kernel for another order";
      return choice;
    }
    labels_[n] = static_cast<int>(*best);
    const std::string deciding = neighbours(n, terms_apart(n));
    labels_[n] = own;
    const Perm& other = candidates_.forms[n][*best].results[0];
    choice.reason += fmt::format("; as [{}] it would be {}", fmt::join(other, ", "),
                                 bytes_text(choice.other_bytes));
    if (!deciding.empty()) choice.reason += ", because of " + deciding;
    return choice;
  }

  /// Bytes of traffic that a node's form causes.
  double cost(std::size_t n) const {
    double weights = 0;
    for (const std::size_t term : terms_of_[n])
      weights += static_cast<double>(cost_of(problem_.terms[term], labels_));
    return std::floor(weights / kWeightOfByte);
  }

  std::vector<std::size_t> terms_apart(std::size_t n) const {
    std::vector<std::size_t> result;
    for (const std::size_t term : terms_of_[n])
      if (static_cast<double>(cost_of(problem_.terms[term], labels_)) >= kWeightOfByte)
        result.push_back(term);
    return result;
  }

  /// The other ends of these terms.
  std::string neighbours(std::size_t n, const std::vector<std::size_t>& terms) const {
    constexpr std::size_t kMost = 3;
    std::vector<std::string> names;
    const auto add = [&](const LayoutProblem::Side& side) {
      if (side.node == static_cast<int>(n)) return;
      const std::string name = side.node < 0
                                   ? "the model's border"
                                   : describe(graph_.nodes()[static_cast<std::size_t>(side.node)]);
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    };
    for (const std::size_t i : terms) {
      const LayoutProblem::Term& term = problem_.terms[i];
      if (term.made.node != static_cast<int>(n)) {
        add(term.made);
        continue;
      }
      const int made = key_of(term.made, labels_);
      for (const auto& reader : term.readers)
        if (key_of(reader, labels_) != made) add(reader);
    }
    const std::size_t more = names.size() > kMost ? names.size() - kMost : 0;
    names.resize(names.size() - more);
    return fmt::format("{}", fmt::join(names, ", ")) +
           (more > 0 ? fmt::format(" and {} more", more) : "");
  }

  const Graph& graph_;
  const Candidates& candidates_;
  const LayoutProblem& problem_;
  std::vector<int> labels_;
  std::vector<std::vector<std::size_t>> terms_of_;  // by node
};

}  // namespace

std::vector<LayoutChoice> explain_layouts(const Graph& graph, const Candidates& candidates,
                                          const LayoutProblem& problem,
                                          const std::vector<int>& labels) {
  return Explainer(graph, candidates, problem, labels).run();
}

}  // namespace sinter::fusion
