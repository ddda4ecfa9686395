// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/ml/scores.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/graph.h"

namespace sinter::frontend {
namespace {

constexpr std::string_view kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                            "PROBIT"};

/// sqrt(2) erfinv(2 p - 1) by Winitzki's formula, as in ONNX Runtime.
Term probit(const Term& p) {
  constexpr double kA = 0.147;
  const Term x = p * 2 - 1;
  const Term log = ((1 - x) * (x + 1)).apply("Log");
  const Term v = log * 0.5 + 2 / (std::numbers::pi * kA);
  const Term root = ((v.apply("Square") - log / kA).apply("Sqrt") - v).apply("Sqrt");
  return x.apply("Sign") * root * std::numbers::sqrt2;
}

/// The softmax of nonzero elements; zeros stay zero.
Term softmax_zero(const Term& scores) {
  const Term most = reduce("ReduceMax", scores, 1, true);
  const Term is_zero = abs(scores).with("LessOrEqual", 1e-7);
  // As in ONNX Runtime: elements near zero are scaled but excluded from the sum.
  const Term kept = scores * most.apply("Neg").apply("Exp");
  const Term power = (scores - most).apply("Exp");
  const Term total = reduce("ReduceSum", select(is_zero, power.number(0), power), 1, true);
  return select(is_zero, kept, power) / total;
}

}  // namespace

PostTransform read_post_transform(const NodeContext& node) {
  const std::string name = node.attr_string("post_transform", "NONE");
  const auto* found = std::ranges::find(kTransforms, name);
  if (found == std::end(kTransforms))
    node.invalid("post_transform '{}' is none of NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO and PROBIT",
                 name);
  return static_cast<PostTransform>(found - std::begin(kTransforms));
}

Term transform_scores(const Term& scores, PostTransform transform) {
  NodeContext& node = scores.node();
  switch (transform) {
    case PostTransform::kNone: return scores;
    case PostTransform::kSoftmax:
      return {node, node.add("Softmax", {scores.value()}, {{"axis", std::int64_t{1}}})};
    case PostTransform::kLogistic: return scores.apply("Sigmoid");
    case PostTransform::kSoftmaxZero: return softmax_zero(scores);
    case PostTransform::kProbit: return probit(scores);
  }
  return scores;
}

Term read_rows(NodeContext& node) {
  const Term x(node, node.input(0, "X"));
  const Shape shape = x.shape();
  const Term floats =
      is_float(x.dtype()) && x.dtype() != DType::kFloat16 && x.dtype() != DType::kBFloat16
          ? x
          : x.cast(DType::kFloat32);
  if (shape.size() == 1) return floats.reshape({Dim(1), shape[0]});
  if (shape.size() != 2)
    node.invalid("X must be rows [rows, columns], but is {}", node.type(x.value()));
  return floats;
}

Ints read_labels(NodeContext& node, std::string_view ints, std::string_view strings) {
  if (auto names = node.attr_strings(strings); names && !names->empty()) {
    Ints indices;
    for (std::size_t i = 0; i < names->size(); ++i) indices.push_back(static_cast<std::int64_t>(i));
    node.give_text(0, std::make_shared<BindingText>(
                          BindingText{BindingText::Code::kLabels, std::move(*names)}));
    return indices;
  }
  return node.attr_ints(ints).value_or(Ints());
}

Term best_label(const Term& scores, const Ints& labels) {
  NodeContext& node = scores.node();
  const Dim n = scores.shape()[1];
  const Term most = reduce("ReduceMax", scores, 1, true);
  const Term index = iota(node, n, 1, 2);
  const Term hit = scores.with("Equal", most);
  const Term first = reduce(
      "ReduceMin", select(hit, index, index.number(static_cast<double>(labels.size() - 1))), 1);
  bool counts = true;
  for (std::size_t i = 0; i < labels.size(); ++i)
    counts = counts && labels[i] == static_cast<std::int64_t>(i);
  if (counts) return first;
  const Term table(node, node.builder().constant(
                             ir::Tensor::from_ints(DType::kInt64, {std::ssize(labels)}, labels)));
  return take(table, {first});
}

Term binary_label(const Term& positive, const Ints& labels) {
  NodeContext& node = positive.node();
  const auto label = [&](std::size_t i) {
    return Term(
        node, node.builder().constant(ir::Tensor::from_ints(DType::kInt64, {1, 1}, {{labels[i]}})));
  };
  return select(positive, label(1), label(0)).reshape({positive.shape()[0]});
}

Term side_by_side(const Term& a, const Term& b) {
  return {a.node(), a.node().concat({a.value(), b.value()}, 1)};
}

Term float_constant(NodeContext& node, const std::vector<double>& values, Ints shape,
                    std::string_view what) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) count *= dim;
  if (std::ssize(values) != count)
    node.invalid("it has {} {}, but needs {}", values.size(), what, count);
  return {node, node.builder().constant(
                    ir::Tensor::from_doubles(DType::kFloat32, std::move(shape), values))};
}

}  // namespace sinter::frontend
