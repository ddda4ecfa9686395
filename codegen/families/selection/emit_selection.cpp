// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/selection/emit_selection.h"

#include <fmt/format.h>

#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {

EmittedKernel emit_selection(const SelectionProblem& problem, const KernelRequest& request,
                             ExprTable& exprs) {
  constexpr int kThreads = 256;
  KernelParameters parameters(exprs);
  parameters.buffer("const b8* __restrict__ flags", problem.flags);
  parameters.buffer("const i64* __restrict__ before", problem.before);
  parameters.buffer("i64* __restrict__ y", problem.indices);
  const std::string count = parameters.dim(problem.count);
  const std::string end = parameters.end_of_blocks(problem.tiles, "blockIdx.x");
  EmittedKernel kernel;
  kernel.step.args = parameters.args();
  const std::string schedule = fmt::format("selection tile={} threads={}", problem.tile, kThreads);
  kernel.source = fmt::format(
      "{}#include \"selection.cuh\"\n\n// schedule: {}\n"
      "extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}{}"
      "  const i64 tile = blockIdx.x;\n"
      "  select_indices<{}, {}>(flags + tile * {}, tile * {}, before[tile], y, {});\n}}\n",
      kernel_heading(request.name, request.origins), schedule, kThreads,
      signature_text(request.name, parameters.texts()), parameters.lines(), end, kThreads,
      problem.tile, problem.tile, problem.tile, count);
  auto variant = std::make_unique<KernelVariantT>();
  variant->function = request.name;
  variant->grid = {exprs.intern(problem.tiles), exprs.intern(1), exprs.intern(1)};
  variant->block = {kThreads, 1, 1};
  variant->schedule = schedule;
  kernel.step.variants.push_back(std::move(variant));
  return kernel;
}

}  // namespace sinter::codegen
