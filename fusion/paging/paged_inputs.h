// SPDX-License-Identifier: Apache-2.0
// Inputs of a decoder of many sequences, in place of those of one.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fusion/paging/paged_graph.h"
#include "fusion/paging/token_sampler.h"

namespace sinter::fusion {

class PagedInputs {
 public:
  explicit PagedInputs(PagedGraph& graph);

  /// Adds all inputs, and maps the old ones and constants. `vocabulary`: of the logits.
  void declare(const Dim& vocabulary);
  /// A size or a shape of the old graph in the new one.
  Dim resized(const Dim& dim) const;
  Shape resized(Shape shape) const;

  const TokenSampler& sampler() const { return sampler_; }

  /// Refuses nodes that read the former counts of tokens.
  void check(const Graph& paged) const;
  /// The model's position tables limit the length of a sequence.
  void limit_positions(const Graph& paged, Context& context);
  /// The graph without unread inputs, and with the caches and pools as states.
  Graph without_old(const Graph& paged, const std::vector<std::size_t>& dropped_outputs) const;

 private:
  /// `bound`: what it is never larger than, either.
  void range(const char* symbol, std::int64_t least, std::int64_t most,
             const std::optional<Dim>& bound = {});
  /// Whether a symbol is the number of tokens, of previous tokens, or of both.
  bool is_replaced(const std::string& symbol) const;
  /// Vectors in place of tokens' embeddings, and positions of several axes.
  void declare_given();
  /// Of all sequences: slots of the same number of blocks.
  void declare_crossed();
  /// Whether input `i` of the new graph is one of the former token counts, which follow its own
  /// inputs, the caches, the pools and what an encoder gives.
  bool is_old(std::size_t i) const;

  PagedGraph& g_;
  TokenSampler sampler_;
  std::map<std::string, Dim, std::less<>> sizes_;
  std::set<std::string> sliding_;  // symbols of the lengths of sliding windows
  std::int64_t positions_ = 0;
};

}  // namespace sinter::fusion
