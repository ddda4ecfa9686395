// SPDX-License-Identifier: Apache-2.0
// Regions of one GroupByIndex, LastByIndex, CombineGroups or CombineTable.
#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/groups/emit_groups.h"
#include "codegen/families/operator_family.h"

namespace sinter::codegen {
namespace {

/// Elements of a table that a block holds, and its widest row.
constexpr std::int64_t kMostTable = 4096, kWidestTable = 16;

Dim bytes_of(const ir::TensorType& type) {
  return ir::element_count(type.shape) * Dim(static_cast<std::int64_t>(size_of(type.dtype)));
}

std::int64_t number_of(Combine combine) { return static_cast<std::int64_t>(combine); }

Combine combine_of(const OperatorRegion& region) {
  const std::string& name = region.node.attrs.get_string("combine");
  for (int c = 0; c < kCombineCount; ++c)
    if (name == to_string(static_cast<Combine>(c))) return static_cast<Combine>(c);
  throw Error(ErrorCode::kInternal, fmt::format("nothing combines by '{}'", name));
}

Dim extent_of(const OperatorRegion& region) { return region.node.attrs.get_dims("extent").at(0); }

const ir::TensorType& result_type(const OperatorRegion& region) {
  return region.body.type(region.node.outputs[0]);
}

/// All kernels of a tactic that has more than one.
Tactic in_sequence(Tactic tactic, const char* name, std::size_t kernels) {
  if (kernels > 1) {
    tactic.name = name;
    tactic.parts.resize(kernels);
  }
  return tactic;
}

std::uint32_t scratch_of(PlanContext& plan, StepT& step, const Dim& bytes) {
  const std::uint32_t buffer = plan.buffers.scratch({DType::kUInt8, {bytes}});
  step.writes.push_back(buffer);
  return buffer;
}

std::string sizes_text(std::initializer_list<Dim> sizes) {
  std::string text;
  for (const Dim& size : sizes) text += " " + size.to_string();
  return text;
}

class GroupByIndexFamily final : public OperatorFamily {
 public:
  GroupByIndexFamily() : OperatorFamily("group_by_index", "GroupByIndex") {}

 private:
  static IndexGroups problem_of(const OperatorRegion& region) {
    IndexGroups groups;
    groups.index = region.buffer(0);
    groups.index_type = region.type(0).dtype;
    groups.order = region.region.outputs[0];
    groups.starts = region.region.outputs[1];
    groups.count = region.shape(0)[0];
    groups.rows = extent_of(region);
    return groups;
  }
  StepCost cost(const OperatorRegion& region, const PlanContext& plan) const override {
    const IndexGroups groups = problem_of(region);
    const Dim passes = groups.is_tile(plan.exprs) ? Dim(1) : Dim(groups.passes(plan.exprs));
    const Dim moved = groups.count * Dim(8) * passes;
    return {bytes_of(region.type(0)) + moved, moved + (groups.rows + Dim(1)) * Dim(4),
            groups.count * passes * Dim(8)};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext& plan, StepT& step) const override {
    const IndexGroups groups = problem_of(region);
    std::vector<std::uint32_t> scratch;
    for (const Dim& bytes : groups.scratch_bytes(plan.exprs))
      scratch.push_back(scratch_of(plan, step, bytes));
    std::vector<std::uint32_t> buffers = {groups.index, groups.order, groups.starts};
    buffers.insert(buffers.end(), scratch.begin(), scratch.end());
    return in_sequence(
        emitted(region, "group_by_index" + sizes_text({groups.count, groups.rows}), buffers,
                [groups, scratch](const KernelRequest& request, ExprTable& exprs) {
                  return emit_index_groups(groups, scratch, request, exprs);
                }),
        "group_by_index", 1 + kernels_behind(groups, plan.exprs));
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    return operator_step("group_by_index", exprs, {region.input(0)},
                         {region.output(0), region.output(1)});
  }
};

class LastByIndexFamily final : public OperatorFamily {
 public:
  LastByIndexFamily() : OperatorFamily("last_by_index", "LastByIndex") {}

 private:
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    return {bytes_of(region.type(0)), bytes_of(result_type(region)) + bytes_of(region.type(0)),
            region.shape(0)[0]};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext&, StepT&) const override {
    LastIndex last;
    last.index = region.buffer(0);
    last.index_type = region.type(0).dtype;
    last.last = region.region.outputs[0];
    last.count = region.shape(0)[0];
    last.rows = extent_of(region);
    return in_sequence(emitted(region, "last_by_index" + sizes_text({last.count, last.rows}),
                               {last.index, last.last},
                               [last](const KernelRequest& request, ExprTable& exprs) {
                                 return emit_last_index(last, request, exprs);
                               }),
                       "last_by_index", 2);
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    return operator_step("last_by_index", exprs, {region.input(0)}, {region.output(0)});
  }
};

class CombineGroupsFamily final : public OperatorFamily {
 public:
  CombineGroupsFamily() : OperatorFamily("combine_groups", "CombineGroups") {}

 private:
  static GroupSums problem_of(const OperatorRegion& region) {
    GroupSums sums;
    sums.data = region.buffer(0);
    sums.values = region.buffer(1);
    sums.order = region.buffer(2);
    sums.starts = region.buffer(3);
    if (region.node.inputs.size() > 4) sums.factors = region.buffer(4);
    sums.rows_buffer = region.region.outputs[0];
    sums.dtype = region.type(0).dtype;
    sums.order_type = region.type(2).dtype;
    sums.combine = combine_of(region);
    const Shape& shape = result_type(region).shape;
    sums.rows = shape[0];
    sums.width = shape[1];
    sums.sources = region.shape(1)[0];
    sums.count = region.shape(2)[0];
    sums.is_filled = region.shape(0) != shape;
    return sums;
  }
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    const Dim updates = region.shape(2)[0] * region.shape(1)[1];
    const Dim moved = updates * Dim(static_cast<std::int64_t>(size_of(region.type(0).dtype)));
    return {moved + bytes_of(region.type(0)) + bytes_of(region.type(2)) + bytes_of(region.type(3)),
            bytes_of(result_type(region)), updates};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext& plan, StepT& step) const override {
    const GroupSums sums = problem_of(region);
    std::optional<std::uint32_t> parts;
    if (sums.may_be_long(plan.exprs)) parts = scratch_of(plan, step, sums.parts_bytes(plan.exprs));
    std::vector<std::uint32_t> buffers = {sums.data, sums.values, sums.order, sums.starts,
                                          sums.rows_buffer};
    if (sums.factors) buffers.push_back(*sums.factors);
    if (parts) buffers.push_back(*parts);
    return in_sequence(emitted(region,
                               fmt::format("combine_groups {} {} {}", number_of(sums.combine),
                                           sums.factors.has_value(), sums.is_filled) +
                                   sizes_text({sums.rows, sums.width, sums.sources, sums.count}),
                               buffers,
                               [sums, parts](const KernelRequest& request, ExprTable& exprs) {
                                 return emit_group_sums(sums, parts, request, exprs);
                               }),
                       "combine_groups", parts ? 2 : 1);
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    OperatorOperand factors = {region.buffer(1), {Dim(0)}};
    if (region.node.inputs.size() > 4) factors = region.input(4);
    return operator_step(
        "combine_groups", exprs,
        {region.input(0), region.input(1), region.input(2), region.input(3), factors},
        {region.output(0)}, {{"combine", number_of(combine_of(region))}});
  }
};

class CombineTableFamily final : public OperatorFamily {
 public:
  CombineTableFamily() : OperatorFamily("combine_table", "CombineTable") {}

 private:
  /// Whether a block's shared memory holds the result, so that kernels add to copies of it.
  static bool fits_block(const OperatorRegion& region) {
    const Shape& shape = result_type(region).shape;
    return region.node.attrs.get_string("combine") != "none" && region.shape(2).size() == 1 &&
           shape[0].is_constant() && shape[1].is_constant() && shape[1].value() <= kWidestTable &&
           shape[0].value() * shape[1].value() <= kMostTable;
  }
  static CellSums cells_of(const OperatorRegion& region) {
    CellSums sums;
    sums.data = region.buffer(0);
    sums.values = region.buffer(1);
    sums.index = region.buffer(2);
    sums.rows_buffer = region.region.outputs[0];
    sums.dtype = region.type(0).dtype;
    sums.index_type = region.type(2).dtype;
    if (region.node.attrs.get_string("combine") != "none") sums.combine = combine_of(region);
    if (sums.combine && (sums.combine == Combine::kProd ||
                         (sums.combine == Combine::kSum && sums.dtype == DType::kFloat64)))
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a table of {} that is combined by '{}' must fit a block",
                              to_string(sums.dtype), to_string(*sums.combine)));
    const Shape& shape = result_type(region).shape;
    sums.rows = shape[0];
    sums.width = shape[1];
    sums.count = region.shape(1)[0];
    sums.is_filled = region.shape(0) != shape;
    sums.by_element = region.shape(2).size() == 2;
    return sums;
  }
  static TableSums problem_of(const OperatorRegion& region) {
    TableSums sums;
    sums.data = region.buffer(0);
    sums.values = region.buffer(1);
    sums.index = region.buffer(2);
    sums.rows_buffer = region.region.outputs[0];
    sums.dtype = region.type(0).dtype;
    sums.index_type = region.type(2).dtype;
    sums.combine = combine_of(region);
    const Shape& shape = result_type(region).shape;
    sums.rows = shape[0].value();
    sums.width = shape[1].value();
    sums.count = region.shape(2)[0];
    sums.is_filled = region.shape(0) != shape;
    return sums;
  }
  StepCost cost(const OperatorRegion& region, const PlanContext&) const override {
    return {bytes_of(region.type(0)) + bytes_of(region.type(1)) + bytes_of(region.type(2)),
            bytes_of(result_type(region)), ir::element_count(region.shape(1))};
  }
  Tactic kernels(const OperatorRegion& region, PlanContext& plan, StepT& step) const override {
    if (!fits_block(region)) return cell_kernels(region, plan, step);
    const TableSums sums = problem_of(region);
    Dim bytes = 0;
    for (const DeviceModel* device : plan.devices)
      bytes = ir::max(bytes, sums.parts_bytes(*device, plan.exprs), plan.exprs.ranges());
    const std::uint32_t parts = scratch_of(plan, step, bytes);
    return in_sequence(
        emitted(region,
                fmt::format("combine_table {} {}", number_of(sums.combine), sums.is_filled) +
                    sizes_text({Dim(sums.rows), Dim(sums.width), sums.count}),
                {sums.data, sums.values, sums.index, sums.rows_buffer, parts},
                [sums, parts](const KernelRequest& request, ExprTable& exprs) {
                  return emit_table_sums(sums, parts, request, exprs);
                }),
        "combine_table", 2);
  }
  static Tactic cell_kernels(const OperatorRegion& region, PlanContext& plan, StepT& step) {
    const CellSums sums = cells_of(region);
    std::vector<std::uint32_t> scratch;
    for (const Dim& bytes : sums.scratch_bytes()) scratch.push_back(scratch_of(plan, step, bytes));
    std::vector<std::uint32_t> buffers = {sums.data, sums.values, sums.index, sums.rows_buffer};
    buffers.insert(buffers.end(), scratch.begin(), scratch.end());
    return in_sequence(emitted(region,
                               fmt::format("combine_any_order {} {} {}",
                                           sums.combine ? number_of(*sums.combine) : kCombineCount,
                                           sums.is_filled, sums.by_element) +
                                   sizes_text({sums.rows, sums.width, sums.count}),
                               buffers,
                               [sums, scratch](const KernelRequest& request, ExprTable& exprs) {
                                 return emit_cell_sums(sums, scratch, request, exprs);
                               }),
                       "combine_any_order", sums.kernels(plan.exprs));
  }
  plan::fb::OperatorStepT call(const OperatorRegion& region, ExprTable& exprs) const override {
    OperatorOperand index = region.input(2);
    if (index.shape.size() == 1) index.shape.emplace_back(1);
    const bool replaces = region.node.attrs.get_string("combine") == "none";
    const std::int64_t combine = replaces ? kCombineCount : number_of(combine_of(region));
    return operator_step("combine_table", exprs, {region.input(0), region.input(1), index},
                         {region.output(0)}, {{"combine", combine}});
  }
};

/// The four are one family: what groups indices, and what combines by groups.
class GroupsFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "groups"; }
  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    for (const OperatorFamily* family : all())
      if (family->takes(region, target).empty()) return "";
    return "it neither groups indices nor combines by groups";
  }
  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const auto families = all();
    const auto own = std::ranges::find_if(
        families, [&](const OperatorFamily* each) { return each->name() == region.kind(); });
    return (*own)->lower(region, plan);
  }

 private:
  static std::vector<const OperatorFamily*> all() {
    static const GroupByIndexFamily group;
    static const LastByIndexFamily last;
    static const CombineGroupsFamily groups;
    static const CombineTableFamily table;
    return {&group, &last, &groups, &table};
  }
};

}  // namespace

const KernelFamily& groups_family() {
  static const GroupsFamily family;
  return family;
}

}  // namespace sinter::codegen
