// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/collective/emit_exchange.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"
#include "codegen/emit/print_instr.h"
#include "runtime/plan/ranks/peer_memory.h"

namespace sinter::codegen {
namespace {

constexpr int kThreads = 512, kVectorBytes = 16;
/// From which on another block sends, too.
constexpr std::int64_t kBlockBytes = 8 << 10;

Dim product(const std::array<Dim, 5>& sizes) {
  Dim all(1);
  for (const Dim& size : sizes) all *= size;
  return all;
}

}  // namespace

std::string ExchangeProblem::signature() const {
  std::string text = fmt::format("exchange {} {} {} {}", static_cast<int>(kind), to_string(combine),
                                 ranks, to_string(type));
  for (const auto* sizes : {&operand, &result})
    for (const Dim& size : *sizes) text += " " + size.to_string();
  return text;
}

Dim ExchangeProblem::row() const {
  switch (kind) {
    case CollectiveKind::kReduce: return product(operand);
    case CollectiveKind::kGather: return operand[1] * operand[2] * operand[3] * operand[4];
    case CollectiveKind::kScatter: return result[1] * result[2] * result[3] * result[4];
    case CollectiveKind::kSplitFirst: return operand[3] * operand[4];
    case CollectiveKind::kSplitLast: return result[3] * result[4];
  }
  return Dim(1);
}

Dim ExchangeProblem::message() const {
  switch (kind) {
    case CollectiveKind::kReduce: return ir::ceil_div(product(operand), Dim(ranks));
    case CollectiveKind::kGather: return product(operand);
    case CollectiveKind::kScatter: return product(result);
    case CollectiveKind::kSplitFirst:
      return operand[0] * result[1] * operand[2] * operand[3] * operand[4];
    case CollectiveKind::kSplitLast:
      return operand[0] * operand[1] * operand[2] * result[3] * result[4];
  }
  return Dim(1);
}

EmittedKernel emit_exchange(const ExchangeProblem& problem, const KernelRequest& request,
                            ExprTable& exprs) {
  const std::string type = storage_name(problem.type);
  const auto size = static_cast<std::int64_t>(size_of(problem.type));
  KernelParameters parameters(exprs);
  parameters.buffer(fmt::format("const {}* __restrict__ x", type), problem.from);
  parameters.buffer(fmt::format("{}* __restrict__ y", type), problem.to);
  parameters.buffer("Peers* peers", problem.peers);
  std::vector<std::string> sizes;
  for (const Dim& dim : problem.operand) sizes.push_back(parameters.dim(dim));
  sizes.push_back(parameters.dim(problem.result[1]));
  sizes.push_back(parameters.dim(problem.result[3]));
  EmittedKernel kernel;
  kernel.step.args = parameters.args();
  kernel.source =
      fmt::format("{}#include \"exchange.cuh\"\n", kernel_heading(request.name, request.origins));
  const std::int64_t piece = kBlockBytes / size;
  const Dim blocks = ir::min(ir::ceil_div(problem.message(), Dim(piece)),
                             Dim(static_cast<std::int64_t>(plan::kPeerBlocks)));
  const std::uint32_t row = exprs.intern(problem.row());
  for (const std::int64_t vector : {kVectorBytes / size, std::int64_t{1}}) {
    const bool fits = exprs.is_constant(row) && exprs.constant(row) % vector == 0;
    if (vector > 1 && exprs.is_constant(row) && !fits) continue;
    auto variant = std::make_unique<KernelVariantT>();
    if (vector > 1 && !fits)
      variant->conditions.emplace_back(row, static_cast<std::uint64_t>(vector), INT64_MAX);
    variant->function =
        kernel.step.variants.empty() ? request.name : fmt::format("{}_elements", request.name);
    variant->grid = {exprs.intern(blocks), exprs.intern(1), exprs.intern(1)};
    variant->block = {kThreads, 1, 1};
    variant->schedule = fmt::format("exchange vector={} threads={}", vector, kThreads);
    kernel.source += fmt::format(
        "\n// schedule: {}\nextern \"C\" __global__ void __launch_bounds__({})\n{} {{\n"
        "{}  exchange_values<{}, {}, {}, {}, {}, {}>(x, y, {{{}}}, peers);\n}}\n",
        variant->schedule, kThreads, signature_text(variant->function, parameters.texts()),
        parameters.lines(), static_cast<int>(problem.kind), combine_name(problem.combine), type,
        vector, problem.ranks, kThreads, fmt::join(sizes, ", "));
    kernel.step.variants.push_back(std::move(variant));
    if (fits) break;
  }
  return kernel;
}

}  // namespace sinter::codegen
