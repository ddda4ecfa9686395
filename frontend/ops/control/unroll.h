// SPDX-License-Identifier: Apache-2.0
// Shared by operators that are unrolled at import.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Maximum unrolled steps of a loop or recurrent layer: enough for stacks of equal layers and
/// exporters' loops over sequences; more would make a huge graph.
inline constexpr std::int64_t kMaxIterations = 1024;

/// Tells the nodes of iteration `i` apart.
inline std::string iteration_label(std::int64_t i) { return fmt::format("[{}]", i); }

/// Element `at` of `value` along `axis`; drops that dimension.
ValueId element(NodeContext& node, ValueId value, std::int64_t axis, std::int64_t at);
/// Elements [begin, begin + count) of `value` along `axis`.
ValueId part(NodeContext& node, ValueId value, std::int64_t axis, const Dim& begin,
             const Dim& count);
/// Stacks `values`, all of `type`, along a new dimension `axis`; an empty tensor for no values.
/// Throws Error(kUnsupported) if a value has another type.
ValueId stack(NodeContext& node, std::vector<ValueId> values, const ir::TensorType& type,
              std::int64_t axis);

}  // namespace sinter::frontend
