// SPDX-License-Identifier: Apache-2.0
// Regions of one collective (ir/ops/collective.cpp).
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include <sinter/error.h>

#include "codegen/families/operator_family.h"
#include "ir/op_def.h"
#include "ir/ranks/ranks.h"

namespace sinter::codegen {
namespace {

/// OperatorDef "collective" has the same.
enum class Kind : std::int64_t { kReduce, kGather, kScatter, kSplitFirst, kSplitLast };

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
  Tactic kernels(const OperatorRegion&, PlanContext&, StepT&) const override {
    throw Error(ErrorCode::kUnsupported, "collectives have no kernels for GPUs yet");
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    const ir::Attrs& attrs = region.node.attrs;
    const std::string& op = region.node.op->name;
    const Shape& shape = region.shape(0);
    const auto axis = [&](std::string_view name) {
      return static_cast<std::size_t>(attrs.get_int(name));
    };
    const Dim ranks(attrs.get_int("ranks"));
    const auto part = [&](const Dim& dim) { return ir::divide_exactly(dim, ranks).value(); };
    Kind kind = Kind::kReduce;
    Shape from = {Dim(1), ir::element_count(shape), Dim(1), Dim(1), Dim(1)}, to = from;
    if (op == "AllGather") {
      kind = Kind::kGather;
      const std::size_t at = axis("axis");
      from = {product(shape, 0, at), product(shape, at, shape.size()), Dim(1), Dim(1), Dim(1)};
      to = from;
      to[1] *= ranks;
    } else if (op == "ReduceScatter") {
      kind = Kind::kScatter;
      const std::size_t at = axis("axis");
      from = {product(shape, 0, at), product(shape, at, shape.size()), Dim(1), Dim(1), Dim(1)};
      to = from;
      to[1] = part(shape[at]) * product(shape, at + 1, shape.size());
    } else if (op == "AllToAll") {
      const std::size_t split = axis("split"), concat = axis("concat");
      kind = split <= concat ? Kind::kSplitFirst : Kind::kSplitLast;
      if (split == concat) {
        from = {product(shape, 0, split), ranks, Dim(1), part(shape[split]),
                product(shape, split + 1, shape.size())};
      } else {
        const std::size_t a = std::min(split, concat), b = std::max(split, concat);
        from = {product(shape, 0, a), shape[a], product(shape, a + 1, b), shape[b],
                product(shape, b + 1, shape.size())};
      }
      to = from;
      const std::size_t cut = kind == Kind::kSplitFirst ? 1 : 3, joined = 4 - cut;
      to[cut] = part(from[cut]);
      to[joined] *= ranks;
    }
    std::int64_t combine = 0;
    if (op == "AllReduce" || op == "ReduceScatter")
      while (to_string(static_cast<Combine>(combine)) != attrs.get_string("combine")) ++combine;
    return operator_step("collective", exprs, {{region.buffer(0), from}},
                         {{region.region.outputs[0], to}},
                         {{"kind", static_cast<std::int64_t>(kind)},
                          {"combine", combine},
                          {"ranks", attrs.get_int("ranks")}});
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
      throw Error(ErrorCode::kUnsupported, "a region of kind 'collective' is of one collective");
    return ops_[static_cast<std::size_t>(found - kOps.begin())].lower(region, plan);
  }

 private:
  static constexpr std::array<std::string_view, 4> kOps = {"AllReduce", "AllGather",
                                                           "ReduceScatter", "AllToAll"};
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
