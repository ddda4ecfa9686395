// SPDX-License-Identifier: Apache-2.0
// What operators share that are unrolled at import.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// Steps that a loop or a recurrent layer is unrolled to: enough for stacks of equal layers and the
/// sequences that exporters write as loops; a longer one would make a graph that no one wants.
inline constexpr std::int64_t kMaxIterations = 1024;

/// Element `at` of `value` along `axis`, without that dimension.
ValueId element(NodeContext& node, ValueId value, std::int64_t axis, std::int64_t at);
/// Elements [begin, begin + count) of `value` along `axis`.
ValueId part(NodeContext& node, ValueId value, std::int64_t axis, const Dim& begin,
             const Dim& count);
/// `values`, all of `type`, along a new dimension `axis`; an empty tensor if there are none.
/// Throws Error(kUnsupported) if a value has another type.
ValueId stack(NodeContext& node, std::vector<ValueId> values, const ir::TensorType& type,
              std::int64_t axis);

}  // namespace sinter::frontend
