// SPDX-License-Identifier: Apache-2.0
// Routing of mixtures of experts.
//
// Route(logits [tokens, experts][, bias [experts]]) -> choices i32, shares f32, [tokens, k] each
//
// "scores": what makes scores of logits: softmax, sigmoid, none, or sparsemixer. The experts with
// the k greatest of scores + bias are chosen, in this order; of equal ones the first. Shares are
// the scores without the bias, divided by their sum + "epsilon" with "normalise", times "scale".
// With "groups" = g, the experts are g equal groups. A group's score is the sum of its
// "group_scores" greatest scores + bias; experts of the "kept_groups" best groups can be chosen.
// With "zero_outside" those of others are ranked as if scores + bias were 0 (transformers' way).
// sparsemixer (Liu et al., "GRIN"): of each choice, in order, the share is its weight in a softmax
// over what has not been chosen, without logits farther than 2 * "jitter" below, relatively.
#include <limits>

#include <fmt/format.h>

#include "ir/graph.h"
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

ValueId cast(GraphBuilder& b, ValueId value, DType type) {
  return b.type(value).dtype == type ? value : b.add("Cast", {value}, {{"to", Attr(type)}});
}
ValueId reshape(GraphBuilder& b, ValueId value, Shape shape) {
  return b.add("Reshape", {value}, {{"shape", Attr(std::move(shape))}});
}
ValueId reduce(GraphBuilder& b, std::string_view op, ValueId x, std::int64_t axis, bool keep) {
  return b.add(op, {x}, {{"axes", Attr(Ints{axis})}, {"keepdims", Attr(std::int64_t{keep})}});
}
/// 0, 1, .. along `axis` of `rank` dimensions, the others of which are 1.
ValueId iota(GraphBuilder& b, const Dim& count, std::int64_t axis, std::size_t rank, DType type) {
  Shape shape(rank, Dim(1));
  shape[static_cast<std::size_t>(axis)] = count;
  return b.add("Iota", {},
               {{"shape", Attr(std::move(shape))}, {"axis", Attr(axis)}, {"dtype", Attr(type)}});
}

constexpr DType kF32 = DType::kFloat32;

std::vector<TensorType> infer_route(const Attrs& attrs, Types inputs) {
  require_float(inputs);
  const Shape& logits = inputs[0].shape;
  if (logits.size() != 2 || !logits[1].is_constant())
    invalid("logits must be [tokens, experts], the experts known, found " + list_types(inputs));
  const std::int64_t experts = logits[1].value(), k = attrs.get_int("k");
  if (inputs.size() > 1 && inputs[1].shape != Shape{logits[1]})
    invalid("the bias must have a number for each expert, found " + list_types(inputs));
  const std::string& scores = attrs.get_string("scores");
  if (scores != "softmax" && scores != "sigmoid" && scores != "none" && scores != "sparsemixer")
    invalid(fmt::format("no scores are named '{}'", scores));
  if (scores == "sparsemixer" && (inputs.size() > 1 || attrs.get_int("groups") != 1))
    invalid("sparsemixer has neither bias nor groups");
  const std::int64_t groups = attrs.get_int("groups"), kept = attrs.get_int("kept_groups"),
                     best = attrs.get_int("group_scores");
  if (groups < 1 || experts % groups != 0 || kept < 1 || kept > groups || best < 1 ||
      best > experts / groups)
    invalid(fmt::format("{} of {} groups of {} experts cannot be kept by their {} greatest scores",
                        kept, groups, experts, best));
  const bool has_zeros = attrs.get_int("zero_outside") != 0;
  const std::int64_t most = has_zeros ? experts : experts / groups * kept;
  if (k < 1 || k > most)
    invalid(fmt::format("k is {}, but there are {} experts to choose from", k, most));
  const Shape shape{logits[0], Dim(k)};
  return {{DType::kInt32, shape}, {kF32, shape}};
}

/// Routing by simpler operators.
class Router {
 public:
  Router(GraphBuilder& b, const Node& node, std::span<const ValueId> inputs)
      : b_(b),
        attrs_(node.attrs),
        inputs_(inputs),
        tokens_(b.type(inputs[0]).shape[0]),
        experts_(b.type(inputs[0]).shape[1].value()),
        k_(node.attrs.get_int("k")) {}

  std::vector<ValueId> run() {
    const ValueId logits = cast(b_, inputs_[0], kF32);
    const std::string& name = attrs_.get_string("scores");
    ValueId scores = logits, choice = logits;
    if (name == "softmax") scores = b_.add("Softmax", {logits}, {{"axis", Attr(std::int64_t{1})}});
    if (name == "sigmoid") scores = b_.add("Sigmoid", {logits});
    // Softmax and sigmoid keep the order of logits.
    if (inputs_.size() > 1 || attrs_.get_int("groups") > 1) choice = scores;
    if (inputs_.size() > 1) choice = b_.add("Add", {choice, cast(b_, inputs_[1], kF32)});
    if (attrs_.get_int("groups") > 1) choice = within_groups(choice);
    const ValueId chosen = first_of(choice, k_);
    ValueId shares = name == "sparsemixer" ? mixed(logits, chosen) : at(scores, chosen);
    if (attrs_.get_int("normalise") != 0) {
      ValueId sum = reduce(b_, "ReduceSum", shares, 1, true);
      if (attrs_.get_float("epsilon") != 0)
        sum = b_.add("Add", {sum, number(attrs_.get_float("epsilon"))});
      shares = b_.add("Div", {shares, sum});
    }
    if (attrs_.get_float("scale") != 1)
      shares = b_.add("Mul", {shares, number(attrs_.get_float("scale"))});
    return {cast(b_, chosen, DType::kInt32), shares};
  }

 private:
  ValueId number(double value) { return b_.scalar(kF32, value); }
  /// The indices of the `count` greatest along the last dimension.
  ValueId first_of(ValueId values, std::int64_t count) {
    const auto axis = std::ssize(b_.type(values).shape) - 1;
    return b_.add("ArgSort", {values},
                  {{"axis", Attr(std::int64_t{axis})},
                   {"count", Attr(Shape{Dim(count)})},
                   {"descending", Attr(std::int64_t{1})}});
  }
  /// values [.., n] at indices [.., m] of the last dimension.
  ValueId at(ValueId values, ValueId indices) {
    const Shape shape = b_.type(values).shape;
    std::vector<ValueId> operands{values};
    for (std::size_t d = 0; d + 1 < shape.size(); ++d)
      operands.push_back(
          iota(b_, shape[d], static_cast<std::int64_t>(d), shape.size(), DType::kInt64));
    operands.push_back(indices);
    return b_.add("Take", std::move(operands));
  }
  ValueId where(ValueId condition, ValueId yes, ValueId no) {
    return b_.add("Where", {condition, yes, no});
  }
  /// True for [tokens, n] where an index of `indices` [tokens, m] is the column.
  ValueId is_among(ValueId indices, std::int64_t n) {
    const Dim m = b_.type(indices).shape[1];
    const ValueId equal = b_.add("Equal", {reshape(b_, indices, {tokens_, m, Dim(1)}),
                                           iota(b_, Dim(n), 2, 3, DType::kInt64)});
    return cast(b_, reduce(b_, "ReduceMax", cast(b_, equal, DType::kUInt8), 1, false),
                DType::kBool);
  }

  ValueId within_groups(ValueId choice) {
    const std::int64_t groups = attrs_.get_int("groups"), best = attrs_.get_int("group_scores");
    const Shape by_group{tokens_, Dim(groups), Dim(experts_ / groups)};
    const ValueId grouped = reshape(b_, choice, by_group);
    const ValueId totals =
        best == 1 ? reduce(b_, "ReduceMax", grouped, 2, false)
                  : reduce(b_, "ReduceSum", at(grouped, first_of(grouped, best)), 2, false);
    const ValueId kept = is_among(first_of(totals, attrs_.get_int("kept_groups")), groups);
    const bool has_zeros = attrs_.get_int("zero_outside") != 0;
    const ValueId low = number(has_zeros ? 0 : -std::numeric_limits<double>::infinity());
    const ValueId masked = where(reshape(b_, kept, {tokens_, Dim(groups), Dim(1)}), grouped, low);
    return reshape(b_, masked, {tokens_, Dim(experts_)});
  }

  /// Shares of sparsemixer.
  ValueId mixed(ValueId logits, ValueId chosen) {
    const ValueId values = at(logits, chosen);
    std::vector<ValueId> shares;
    ValueId left = logits;
    for (std::int64_t i = 0; i < k_; ++i) {
      const auto column = [&](ValueId of) {
        return b_.add("Slice", {of},
                      {{"starts", Attr(Shape{Dim(0), Dim(i)})},
                       {"steps", Attr(Ints{1, 1})},
                       {"shape", Attr(Shape{tokens_, Dim(1)})}});
      };
      const ValueId greatest = column(values);
      const ValueId distance = b_.add("Sub", {greatest, logits});
      const ValueId size = b_.add("Max", {b_.add("Abs", {logits}), greatest});
      const ValueId is_far = b_.add(
          "Greater", {b_.add("Div", {distance, size}), number(2 * attrs_.get_float("jitter"))});
      const ValueId weights = b_.add("Exp", {b_.add("Sub", {left, greatest})});
      const ValueId sum = reduce(b_, "ReduceSum", where(is_far, number(0), weights), 1, true);
      shares.push_back(b_.add("Div", {number(1), sum}));
      const ValueId is_taken =
          b_.add("Equal", {column(chosen), iota(b_, Dim(experts_), 1, 2, DType::kInt64)});
      left = where(is_taken, number(-std::numeric_limits<double>::infinity()), left);
    }
    return k_ == 1 ? shares[0] : b_.add("Concat", shares, {{"axis", Attr(std::int64_t{1})}});
  }

  GraphBuilder& b_;
  const Attrs& attrs_;
  std::span<const ValueId> inputs_;
  Dim tokens_;
  std::int64_t experts_, k_;
};

std::vector<ValueId> decompose_route(GraphBuilder& b, const Node& node,
                                     std::span<const ValueId> inputs) {
  return Router(b, node, inputs).run();
}

}  // namespace

std::vector<OpDef> mixture_ops() {
  const auto integer = [](const char* name, std::int64_t value) {
    return AttrSpec{name, AttrKind::kInt, Attr(value)};
  };
  OpDef route{.name = "Route",
              .kind = OpKind::kLibrary,
              .kernel = "route",
              .min_inputs = 1,
              .max_inputs = 2,
              .attrs = {{"k", AttrKind::kInt, std::nullopt},
                        {"scores", AttrKind::kString, std::nullopt},
                        integer("normalise", 0),
                        {"scale", AttrKind::kFloat, Attr(1.0)},
                        {"epsilon", AttrKind::kFloat, Attr(0.0)},
                        {"jitter", AttrKind::kFloat, Attr(0.01)},
                        integer("groups", 1),
                        integer("kept_groups", 1),
                        integer("group_scores", 1),
                        integer("zero_outside", 0)},
              .infer = infer_route,
              .evaluate = reference::evaluate_route,
              .detail = CompositeDef{decompose_route}};
  route.numerics.operands = {Rounding::kExponent};
  return {route};
}

}  // namespace sinter::ir::ops
