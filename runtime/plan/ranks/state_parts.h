// SPDX-License-Identifier: Apache-2.0
// States of which ranks have parts, where callers give and see the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/format_error.h"
#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Whether each rank has a part of input `index`, of which the caller gives all.
inline bool has_parts(const fb::PlanT& plan, std::size_t index) {
  const fb::BufferT& buffer = *plan.buffers[plan.inputs[index]->buffer];
  return buffer.kind == fb::BufferKind::State && plan.states[buffer.binding]->axis >= 0;
}

/// The shape of what each rank has of input `index`, of which the caller gives all. Throws
/// Error(kUsage) if the ranks' parts do not divide it.
inline std::vector<std::int64_t> shape_of_part(const fb::PlanT& plan, std::size_t index,
                                               std::vector<std::int64_t> shape) {
  if (!has_parts(plan, index)) return shape;
  const fb::BindingT& binding = *plan.inputs[index];
  const fb::StateT& state = *plan.states[plan.buffers[binding.buffer]->binding];
  const auto axis = static_cast<std::size_t>(state.axis);
  if (axis >= shape.size()) return shape;  // another rank, which is refused
  if (shape[axis] % state.parts != 0)
    throw usage_error("dimension {} of input '{}' is {}, and ranks have {} equal parts of it", axis,
                      binding.name, shape[axis], state.parts);
  shape[axis] /= state.parts;
  return shape;
}

}  // namespace sinter::plan
