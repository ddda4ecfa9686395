// SPDX-License-Identifier: Apache-2.0
// Caches in blocks: rows are written at their slots, and attention reads by block tables.
#pragma once

#include <vector>

#include "fusion/paging/paged_graph.h"

namespace sinter::fusion {

class PagedAttention {
 public:
  explicit PagedAttention(PagedGraph& graph) : g_(graph) {}

  /// The cache whose rows `node` writes, or null.
  const DecoderCache* writes(NodeId node) const;
  /// The cache with this step's rows at their slots.
  ValueId write(const Node& node, const DecoderCache& cache);
  /// The Attention `node` over caches, or over what an encoder gives.
  ValueId attend(const Node& node);
  /// Whether there was one over caches.
  bool has_any() const { return has_any_; }

 private:
  /// The cache that `value` is a view of, with keys in order.
  const DecoderCache* cache_of(ValueId value) const;
  /// Rows see the keys before their `limits`, whose blocks `tables` name.
  ValueId paged(const Node& node, std::int64_t window, ValueId limits, ValueId tables,
                const std::vector<ValueId>& scales = {}, const DistanceBias* bias = nullptr);

  PagedGraph& g_;
  bool has_any_ = false;
};

}  // namespace sinter::fusion
