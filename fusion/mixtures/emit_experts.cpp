// SPDX-License-Identifier: Apache-2.0
// The grouped matmuls of a mixture whose experts are alike.
#include <algorithm>

#include "fusion/mixtures/expert_template.h"
#include "fusion/mixtures/nodes.h"
#include "fusion/regions/rebuild.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

std::vector<std::string> origins_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> origins;
  for (const ValueId value : values)
    if (const Node* node = graph.producer(value))
      origins.insert(origins.end(), node->origins.begin(), node->origins.end());
  ir::sort_unique(origins);
  return origins;
}

}  // namespace

struct ExpertTemplate::Emission {
  GraphBuilder& b;
  std::map<ValueId, ValueId> reads;
  ir::ExpertRows rows;
  std::map<std::size_t, ValueId> made;  // by step
};

/// Each choice's branch, i32 [tokens, chosen]; their number where it has none.
ValueId ExpertTemplate::choices(GraphBuilder& b, ValueId given) const {
  const ExpertBranch& branch = branches_[0];
  const auto count = std::ssize(branches_);
  const auto number = [&](std::int64_t value) {
    return b.scalar(DType::kInt32, static_cast<double>(value));
  };
  ValueId value = mixtures::reshape(b, mixtures::cast(b, given, DType::kInt32),
                                    {branch.tokens, Dim(branch.chosen)});
  const auto sorted = sorted_experts(graph_, branch.choices);
  const std::int64_t last = branches_.back().expert;
  if (sorted && *sorted == count && last == count - 1) return value;
  std::vector<std::int32_t> table(static_cast<std::size_t>(last) + 2,
                                  static_cast<std::int32_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    table[static_cast<std::size_t>(branches_[static_cast<std::size_t>(i)].expert)] =
        static_cast<std::int32_t>(i);
  const ValueId is_out =
      b.add("Or", {b.add("Less", {value, number(0)}), b.add("Greater", {value, number(last)})});
  value = b.add("Where", {is_out, number(last + 1), value});
  return b.add("Gather", {b.constant(Tensor::of(DType::kInt32, {last + 2}, table)), value},
               {{"axis", std::int64_t{0}}});
}

/// f32 [tokens, chosen].
ValueId ExpertTemplate::shares(Emission& e, const Step& step) const {
  const ExpertBranch& branch = branches_[0];
  ValueId value = e.reads.at(step.data);
  if (step.by_expert) {
    const ValueId choice =
        mixtures::reshape(e.b, e.reads.at(branch.choices), {branch.tokens, Dim(branch.chosen)});
    const ValueId token = e.b.add("Iota", {},
                                  {{"shape", Shape{branch.tokens, Dim(1)}},
                                   {"axis", std::int64_t{0}},
                                   {"dtype", DType::kInt64}});
    value = e.b.add("Take", {value, token, mixtures::cast(e.b, choice, DType::kInt64)});
  }
  return mixtures::reshape(e.b, value, {branch.tokens, Dim(branch.chosen)});
}

/// Constants of each expert, in the rows of its choices; they broadcast to `out`.
ValueId ExpertTemplate::own_rows(Emission& e, const Step& own, const Shape& out,
                                 std::size_t axis) const {
  const Tensor& one = *graph_.value(own.values[0]).constant;
  const std::int64_t size = one.element_count();
  const ValueId all = mixtures::stacked(e.b, graph_, own.values, {1, size});
  const ValueId table = mixtures::reshape(e.b, all, {Dim(std::ssize(own.values)), Dim(size)});
  Shape shape(out.size(), Dim(1));
  const std::size_t missing = out.size() - one.shape().size();
  for (std::size_t d = 0; d < one.shape().size(); ++d) shape[d + missing] = Dim(one.shape()[d]);
  shape[axis] = row_count_;
  return mixtures::reshape(e.b, ir::take_experts(e.b, e.rows, table), shape);
}

ValueId ExpertTemplate::made(Emission& e, std::size_t at) const {
  if (const auto known = e.made.find(at); known != e.made.end()) return known->second;
  const Step& step = steps_[at];
  const Node* first = graph_.producer(step.values[0]);
  std::vector<ValueId> inputs;
  const Shape shape = common_shape(step.values[0]);
  for (const std::size_t input : step.inputs)
    inputs.push_back(steps_[input].kind == Kind::kOwn ? ValueId() : made(e, input));
  const ir::GraphBuilder::OriginScope scope(e.b, origins_of(graph_, step.values));
  ValueId result;
  switch (step.kind) {
    case Kind::kOuter: result = e.reads.at(step.values[0]); break;
    case Kind::kOwn: break;
    case Kind::kTokens: {
      const ValueId data = e.reads.at(step.data);
      Dim size(1);
      bool is_behind = false;
      for (const Dim& dim : e.b.type(data).shape) {
        if (is_behind) size *= dim;
        is_behind = is_behind || dim == branches_[0].tokens;
      }
      const ValueId tokens = mixtures::reshape(e.b, data, {branches_[0].tokens, size});
      result = mixtures::reshape(e.b, ir::take_tokens(e.b, e.rows, tokens), shape);
      break;
    }
    case Kind::kChoices: {
      const ValueId flat = mixtures::reshape(e.b, shares(e, step), {row_count_, Dim(1)});
      Shape broadcast(shape.size(), Dim(1));
      broadcast[*row_axis(step.values[0], 0)] = row_count_;
      result = mixtures::reshape(e.b, ir::take_choices(e.b, e.rows, flat), broadcast);
      if (broadcast != shape) result = e.b.add("Expand", {result}, {{"shape", shape}});
      break;
    }
    case Kind::kProduct: {
      const Dim k = e.b.type(inputs[0]).shape.back();
      std::vector<ValueId> operands{mixtures::reshape(e.b, inputs[0], {row_count_, k})};
      for (std::size_t i = 1; i < step.inputs.size(); ++i) {
        const std::vector<ValueId>& own = steps_[step.inputs[i]].values;
        operands.push_back(mixtures::stacked(e.b, graph_, own));
      }
      operands.push_back(e.rows.offsets);
      const auto format = ir::ProductFormats(first->attrs).w;
      Attrs attrs = format ? ir::product_attrs(*format)
                           : Attrs{{"transposed", std::int64_t{step.transposed}}};
      result = mixtures::reshape(
          e.b, e.b.add("GroupedMatMul", std::move(operands), std::move(attrs)), shape);
      break;
    }
    case Kind::kNode: {
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (!inputs[i].valid())
          inputs[i] = own_rows(e, steps_[step.inputs[i]], shape, *row_axis(step.values[0], 0));
      result = e.b.add(first->op->name, std::move(inputs), common_attrs(*first, 0));
      break;
    }
  }
  return e.made[at] = result;
}

/// Whether rows are multiplied by the choices' shares last, perhaps in front of a cast.
bool ExpertTemplate::is_scaled_by_shares(const Step& step, std::size_t& rows,
                                         std::size_t& shares) const {
  const Step* last = &step;
  const auto is_float_type = [&](const Step& of) {
    return is_arithmetic_float(graph_.type(of.values[0]).dtype);
  };
  while (last->kind == Kind::kNode && graph_.producer(last->values[0])->op->name == "Cast" &&
         is_float_type(*last) && is_float_type(steps_[last->inputs[0]]))
    last = &steps_[last->inputs[0]];
  if (last->kind != Kind::kNode || graph_.producer(last->values[0])->op->name != "Mul")
    return false;
  const auto share_of = [&](std::size_t at) {
    // Through casts, and views of one element for each row.
    while (steps_[at].kind == Kind::kNode) {
      const Node& node = *graph_.producer(steps_[at].values[0]);
      const bool is_cast = node.op->name == "Cast" && is_float_type(steps_[at]) &&
                           is_float_type(steps_[steps_[at].inputs[0]]);
      const Shape& shape = graph_.type(node.outputs[0]).shape;
      const bool is_column = node.op->name == "Reshape" && shape.back() == Dim(1);
      if (!is_cast && !is_column) break;
      at = steps_[at].inputs[0];
    }
    return at;
  };
  for (const std::size_t i : {0, 1}) {
    const std::size_t at = share_of(last->inputs[i]);
    if (steps_[at].kind != Kind::kChoices) continue;
    rows = last->inputs[1 - i];
    shares = at;
    return steps_[rows].kind != Kind::kOwn && steps_[rows].kind != Kind::kOuter &&
           graph_.type(steps_[rows].values[0]).shape.size() == 2;
  }
  return false;
}

ValueId ExpertTemplate::emit(GraphBuilder& b, std::span<const ValueId> reads) const {
  Emission e{b, {}, {}, {}};
  for (std::size_t i = 0; i < reads_.size(); ++i) e.reads.emplace(reads_[i], reads[i]);
  std::vector<ValueId> selected, added;
  for (const ExpertBranch& branch : branches_) {
    selected.push_back(branch.select->outputs[0]);
    added.push_back(branch.scatter->outputs[0]);
  }
  {
    const ir::GraphBuilder::OriginScope scope(b, origins_of(graph_, selected));
    if (routing_) {
      const ValueId logits = e.reads.at(routing_->logits);
      const bool has_bias = routing_->bias.valid();
      const auto routed =
          add_route(b, *routing_, logits, has_bias ? e.reads.at(routing_->bias) : ValueId());
      e.reads.insert_or_assign(branches_[0].choices, routed[0]);
      const ValueId shares = routing_->shares;
      e.reads.insert_or_assign(shares, mixtures::cast(b, routed[1], graph_.type(shares).dtype));
    }
    e.rows =
        ir::sort_by_expert(b, choices(b, e.reads.at(branches_[0].choices)), std::ssize(branches_));
  }
  std::size_t rows = 0, share = 0;
  ValueId sum;
  if (is_scaled_by_shares(steps_[result_], rows, share)) {
    const ValueId y = made(e, rows),
                  factors = mixtures::cast(b, shares(e, steps_[share]), DType::kFloat32);
    const ir::GraphBuilder::OriginScope scope(b, origins_of(graph_, added));
    sum = ir::combine_rows(b, e.rows, y, factors);
  } else {
    const ValueId y = made(e, result_);
    const ir::GraphBuilder::OriginScope scope(b, origins_of(graph_, added));
    const ValueId parts = b.add("Gather", {y, e.rows.rows_of}, {{"axis", std::int64_t{0}}});
    sum = b.add("ReduceSum", {mixtures::cast(b, parts, DType::kFloat32)},
                {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  }
  return mixtures::cast(b, sum, graph_.type(branches_[0].rows).dtype);
}

}  // namespace sinter::fusion
