// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/transform/emit_transform.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {
namespace {

/// Numbers of a block, of which a thread has as many as the largest radix: small blocks copy while
/// others compute.
constexpr std::int64_t kNumbers = 2048, kOfThread = 16;

}  // namespace

std::string TransformProblem::text() const {
  const ir::Dft& t = transform;
  return fmt::format("transform {} {} {} {} {} {} {} {} {} {} {}", t.length, t.count, t.step,
                     t.complex, t.half, t.inverse, window.has_value(), to_string(type),
                     rows.to_string(), pitch.to_string(), frames.to_string());
}

EmittedKernel emit_transform(const TransformProblem& problem, const KernelRequest& request,
                             ExprTable& exprs) {
  const ir::Dft& t = problem.transform;
  const std::string type = storage_name(problem.type);
  KernelParameters parameters(exprs);
  parameters.buffer(fmt::format("const {}* __restrict__ x", type), problem.x);
  parameters.buffer("const float* __restrict__ roots", problem.roots);
  if (problem.window)
    parameters.buffer(fmt::format("const {}* __restrict__ window", type), *problem.window);
  parameters.buffer(fmt::format("{}* __restrict__ y", type), problem.y);
  const std::string rows = parameters.dim(problem.rows), pitch = parameters.dim(problem.pitch),
                    frames = parameters.dim(problem.frames);
  const std::int64_t pairs = t.complex && !t.half ? 1 : 2;
  std::int64_t together = std::max<std::int64_t>(kNumbers / t.length, 1);
  if (problem.rows.is_constant())  // every multiprocessor gets a block
    while (together > 1 &&
           problem.rows.value() < together * pairs * request.device->multiprocessors)
      together /= 2;
  const std::int64_t threads =
      std::clamp<std::int64_t>((together * t.length / kOfThread + 31) / 32 * 32, 32, 256);
  const Dim blocks = ir::ceil_div(problem.rows, Dim(together * pairs), exprs.ranges());
  const std::string end = parameters.end_of_blocks(blocks, "blockIdx.x");

  // TransformRows::kSharedBytes: a copy of the rows, if stages pass them on.
  const std::vector<int> radices = ir::transform_radices(t.length);
  const std::int64_t copies = radices.size() > 1 || (pairs == 2 && !t.half) ? 1 : 0;
  const std::int64_t shared_bytes = copies * together * (t.length + t.length / 16 + 1) * 8;

  EmittedKernel kernel;
  kernel.step.args = parameters.args();
  const std::string schedule = fmt::format("transform rows={} threads={}", together, threads);
  kernel.source = fmt::format(
      "{}#include \"transform.cuh\"\n\n// schedule: {}\n"
      "extern \"C\" __global__ void __launch_bounds__({})\n{} {{\n{}{}"
      "  typedef TransformRows<{}, {}, {}, {}, {}, {}, {}, {}> Rows;\n"
      "  static_assert(Rows::kSharedBytes == {}, \"what the launch reserves\");\n"
      "  Rows::run<{}>(x, roots, {}, y, {}, {}, {}, {}, blockIdx.x);\n}}\n",
      kernel_heading(request.name, request.origins), schedule, threads,
      signature_text(request.name, parameters.texts()), parameters.lines(), end, t.length, t.count,
      (t.complex ? 1 : 0) + (t.half ? 2 : 0), t.inverse, problem.window.has_value(), together,
      threads, fmt::join(radices, ", "), shared_bytes, type, problem.window ? "window" : "nullptr",
      rows, pitch, frames, t.step);
  auto variant = std::make_unique<KernelVariantT>();
  variant->function = request.name;
  variant->grid = {exprs.intern(blocks), exprs.intern(1), exprs.intern(1)};
  variant->block = {static_cast<std::uint32_t>(threads), 1, 1};
  variant->schedule = schedule;
  variant->shared_bytes = static_cast<std::uint32_t>(shared_bytes);
  kernel.step.variants.push_back(std::move(variant));
  return kernel;
}

}  // namespace sinter::codegen
