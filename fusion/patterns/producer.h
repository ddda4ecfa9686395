// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "fusion/context.h"

namespace sinter::fusion {

/// The producer of `value` if it is an `op`, otherwise null.
inline const Node* producer_of(const Graph& graph, ValueId value, std::string_view op) {
  const Node* node = graph.producer(value);
  return node != nullptr && node->op->name == op ? node : nullptr;
}

}  // namespace sinter::fusion
