// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/weight_bytes.h"

#include <algorithm>
#include <map>

#include "runtime/plan/plan_data.h"
#include "runtime/plan_access.h"
#include "tools/compiler/inspect/step_list.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::tools {

std::uint64_t weight_bytes_read(const Plan& plan, const Shapes& shapes) {
  const auto& meta = PlanAccess::data(plan)->meta;
  const auto values = bind_shapes(meta, shapes);
  // A step that gathers rows of a table says that it reads as much as these have.
  std::map<std::uint32_t, std::int64_t> read;
  const plan::StepRange steps = steps_for(meta, values);
  for (std::size_t i = 0; i < meta.steps.size(); ++i) {
    if (!steps.contains(i)) continue;
    const auto& step = *meta.steps[i];
    for (const std::uint32_t buffer : step.reads)
      if (meta.buffers[buffer]->kind == plan::fb::BufferKind::Weight)
        read[buffer] = std::max(
            read[buffer], std::min(values[meta.buffers[buffer]->bytes], values[step.bytes_read]));
  }
  std::int64_t bytes = 0;
  for (const auto& [buffer, most] : read) bytes += most;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace sinter::tools
