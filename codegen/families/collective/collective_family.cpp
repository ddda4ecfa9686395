// SPDX-License-Identifier: Apache-2.0
// Regions of one collective (ir/ops/collective.cpp); of a sum, on GPUs, with what reads it.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include <sinter/error.h>

#include "codegen/families/collective/emit_exchange.h"
#include "codegen/families/loops/loops_kernel.h"
#include "codegen/families/loops/merge_broadcast.h"
#include "codegen/families/operator_family.h"
#include "codegen/program/describe.h"
#include "codegen/program/loop_lowering.h"
#include "ir/op_def.h"
#include "ir/ranks/ranks.h"
#include "runtime/plan/ranks/peer_memory.h"

namespace sinter::codegen {
namespace {

Dim product(const Shape& shape, std::size_t first, std::size_t last) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(first),
                         shape.begin() + static_cast<std::ptrdiff_t>(last), Dim(1),
                         std::multiplies());
}

class OneCollectiveFamily final : public OperatorFamily {
 public:
  explicit OneCollectiveFamily(std::string_view op) : OperatorFamily(ir::kCollectiveKernel, op) {}

 private:
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    const auto bytes = [&](const ir::TensorType& type) {
      return ir::element_count(type.shape) * Dim(static_cast<std::int64_t>(size_of(type.dtype)));
    };
    const ir::TensorType& result = region.body.type(region.node.outputs[0]);
    return {bytes(region.type(0)), bytes(result), Dim(0)};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext& plan, StepT& step) const override {
    return exchange(region, region.region.outputs[0], plan, step);
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    const ExchangeProblem problem = problem_of(region, region.region.outputs[0]);
    const auto shape = [](const std::array<Dim, 5>& sizes) {
      return Shape(sizes.begin(), sizes.end());
    };
    return operator_step("collective", exprs, {{problem.from, shape(problem.operand)}},
                         {{problem.to, shape(problem.result)}},
                         {{"kind", static_cast<std::int64_t>(problem.kind)},
                          {"combine", static_cast<std::int64_t>(problem.combine)},
                          {"ranks", problem.ranks}});
  }

 public:
  /// The kernel that writes the result to buffer `to`.
  Tactic exchange(const OperatorRegion& region, std::uint32_t to, PlanContext& plan,
                  StepT& step) const {
    ExchangeProblem problem = problem_of(region, to);
    problem.peers = meet_in(step, plan);
    return emitted(region, problem.signature(), {problem.from, problem.to, problem.peers},
                   [problem](const KernelRequest& request, ExprTable& exprs) {
                     return emit_exchange(problem, request, exprs);
                   });
  }
  static ExchangeProblem problem_of(const OperatorRegion& region, std::uint32_t to) {
    const ir::Attrs& attrs = region.node.attrs;
    const std::string& op = region.node.op->name;
    const Shape& shape = region.shape(0);
    const auto axis = [&](std::string_view name) {
      return static_cast<std::size_t>(attrs.get_int(name));
    };
    const Dim ranks(attrs.get_int("ranks"));
    const auto part = [&](const Dim& dim) { return ir::divide_exactly(dim, ranks).value(); };
    ExchangeProblem problem;
    problem.from = region.buffer(0);
    problem.to = to;
    problem.type = region.type(0).dtype;
    problem.ranks = attrs.get_int("ranks");
    std::array<Dim, 5>&operand = problem.operand, &result = problem.result;
    operand = {Dim(1), ir::element_count(shape), Dim(1), Dim(1), Dim(1)}, result = operand;
    if (op == "AllGather") {
      problem.kind = CollectiveKind::kGather;
      const std::size_t at = axis("axis");
      operand = {product(shape, 0, at), product(shape, at, shape.size()), Dim(1), Dim(1), Dim(1)};
      result = operand;
      result[1] *= ranks;
    } else if (op == "ReduceScatter") {
      problem.kind = CollectiveKind::kScatter;
      const std::size_t at = axis("axis");
      operand = {product(shape, 0, at), product(shape, at, shape.size()), Dim(1), Dim(1), Dim(1)};
      result = operand;
      result[1] = part(shape[at]) * product(shape, at + 1, shape.size());
    } else if (op == "AllToAll") {
      const std::size_t split = axis("split"), concat = axis("concat");
      problem.kind = split <= concat ? CollectiveKind::kSplitFirst : CollectiveKind::kSplitLast;
      if (split == concat) {
        operand = {product(shape, 0, split), ranks, Dim(1), part(shape[split]),
                   product(shape, split + 1, shape.size())};
      } else {
        const std::size_t a = std::min(split, concat), b = std::max(split, concat);
        operand = {product(shape, 0, a), shape[a], product(shape, a + 1, b), shape[b],
                   product(shape, b + 1, shape.size())};
      }
      result = operand;
      const std::size_t cut = problem.kind == CollectiveKind::kSplitFirst ? 1 : 3, joined = 4 - cut;
      result[cut] = part(operand[cut]);
      result[joined] *= ranks;
    }
    if (op == "AllReduce" || op == "ReduceScatter") {
      int combine = 0;
      while (to_string(static_cast<Combine>(combine)) != attrs.get_string("combine")) ++combine;
      problem.combine = static_cast<Combine>(combine);
    }
    return problem;
  }

 private:
  /// The buffer through which ranks meet. Steps that do so are in order: all write it.
  static std::uint32_t meet_in(StepT& step, PlanContext& plan) {
    const std::uint32_t peers = plan.buffers.peers();
    if (std::ranges::find(step.writes, peers) == step.writes.end()) step.writes.push_back(peers);
    return peers;
  }
};

class CollectiveFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return ir::kCollectiveKernel; }
  std::string takes(const Region& region, const ir::TargetTraits&) const override {
    return region.kind() == ir::kCollectiveKernel ? "" : "it is no collective";
  }
  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const auto& nodes = region.node.body->nodes();
    const std::string_view op = nodes.empty() ? std::string_view() : nodes[0].op->name;
    const auto found = std::ranges::find(kOps, op);
    if (found == kOps.end())
      throw Error(ErrorCode::kUnsupported,
                  "a region of kind 'collective' begins with a collective");
    const OneCollectiveFamily& family = ops_[static_cast<std::size_t>(found - kOps.begin())];
    const bool is_sum = op == "AllReduce" && nodes[0].attrs.get_string("combine") == "sum";
    if (!plan.generates_kernels() || (nodes.size() == 1 && !is_sum))
      return family.lower(region, plan);
    return lower_sum(region, family, plan);
  }

 private:
  static constexpr std::array<std::string_view, 4> kOps = {"AllReduce", "AllGather",
                                                           "ReduceScatter", "AllToAll"};
  /// A sum over ranks and what reads it.
  static std::vector<StepTactics> lower_sum(const Region& region, const OneCollectiveFamily& family,
                                            PlanContext& plan) {
    const Graph& body = *region.node.body;
    const OperatorRegion sum{region, body, body.nodes()[0]};
    const std::uint32_t own = sum.buffer(0);
    const Dim count = ir::element_count(sum.shape(0));
    const bool is_alone = body.nodes().size() == 1;
    std::vector<StepTactics> steps;
    StepTactics& result = steps.emplace_back(StepTactics{step_of(region), {}});
    // As if what a rank has were the sum.
    LoopProgramT program =
        is_alone ? copy_program(count, own, region.outputs[0], sum.type(0), plan)
                 : lower_region(without_sum(body), region.inputs, region.outputs, plan.exprs);
    merge_broadcast_loops(program, plan.exprs);
    set_cost(result.step, cost_of(program, plan.exprs, plan.sizes()), plan.exprs);
    const std::int64_t ranks = sum.node.attrs.get_int("ranks");
    const std::uint32_t to =
        is_alone ? region.outputs[0] : plan.buffers.scratch({sum.type(0).dtype, {count}});
    Tactic in_parts = family.exchange(sum, to, plan, result.step);
    in_parts.name = "two-shot";
    if (may_load_sum(program, own, sum.type(0), count, plan)) {
      Tactic& loaded = result.tactics.emplace_back(
          only(region.name, loops_kernel_of_sum(LoopProgramT(program), plan.options,
                                                {own, plan.buffers.peers(), ranks})));
      loaded.name = "one-shot";
      loaded.conditions.emplace_back(plan.exprs.intern(count), 1, plan::kMostPackets);
    }
    if (!is_alone) {
      result.step.writes.push_back(to);
      std::ranges::replace(program.buffers, own, to);
      in_parts.parts[0].kernel = region.name + "_sum";
      in_parts.parts.push_back(
          std::move(only(region.name, loops_kernel(std::move(program), plan.options)).parts[0]));
    }
    result.tactics.push_back(std::move(in_parts));
    return steps;
  }

  static Graph without_sum(const Graph& body) {
    return ir::rewrite(body,
                       [](ir::GraphBuilder& builder, const Graph&, const Node& node,
                          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                         if (node.op->name == "AllReduce") return std::vector{inputs[0]};
                         if (node.body) return ir::inline_graph(builder, *node.body, inputs);
                         return std::nullopt;
                       });
  }

  static LoopProgramT copy_program(const Dim& count, std::uint32_t from, std::uint32_t to,
                                   const ir::TensorType& type, PlanContext& plan) {
    LoopProgramT program;
    program.extents = {plan.exprs.intern(count)};
    program.buffers = {from, to};
    for (std::uint32_t b = 0; b < 2; ++b) {
      auto access = std::make_unique<plan::fb::AccessT>();
      access->buffer = b;
      access->offset = plan.exprs.intern(Dim(0));
      access->strides = {plan.exprs.intern(Dim(1))};
      program.accesses.push_back(std::move(access));
      auto instr = std::make_unique<plan::fb::InstrT>();
      instr->kind = b == 0 ? plan::fb::InstrKind::Load : plan::fb::InstrKind::Store;
      instr->dtype = static_cast<std::uint8_t>(compute_type(type.dtype));
      instr->access = b;
      if (b == 1) instr->args = {0};
      program.instrs.push_back(std::move(instr));
    }
    return program;
  }

  /// Whether the program loads each element as part of one vector.
  static bool may_load_sum(const LoopProgramT& program, std::uint32_t own,
                           const ir::TensorType& type, const Dim& count, const PlanContext& plan) {
    const auto buffer = static_cast<std::uint32_t>(std::ranges::find(program.buffers, own) -
                                                   program.buffers.begin());
    const plan::fb::AccessT* only = nullptr;
    for (const auto& access : program.accesses)
      if (access->buffer == buffer && std::exchange(only, access.get()) != nullptr) return false;
    const std::array<Dim, 1> sizes = {count};
    return only != nullptr && only->gathers.empty() && only->guards.empty() &&
           only->nonaffine.empty() && is_arithmetic_float(type.dtype) && size_of(type.dtype) <= 4 &&
           !ir::is_from_data(sizes, plan.exprs.ranges());
  }

  const std::array<OneCollectiveFamily, 4> ops_ = {
      OneCollectiveFamily(kOps[0]), OneCollectiveFamily(kOps[1]), OneCollectiveFamily(kOps[2]),
      OneCollectiveFamily(kOps[3])};
};

}  // namespace

const KernelFamily& collective_family() {
  static const CollectiveFamily family;
  return family;
}

}  // namespace sinter::codegen
