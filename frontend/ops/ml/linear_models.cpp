// SPDX-License-Identifier: Apache-2.0
// Linear models of ai.onnx.ml: a matmul with weights in the node's attributes.
#include "frontend/ops/ml/scores.h"
#include "frontend/ops/products.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

/// x w' + b for `count` rows of coefficients, float32.
Term linear_scores(NodeContext& node, std::int64_t count) {
  const Term x = read_float_rows(node);
  const auto coefficients = node.attr_floats("coefficients");
  if (!coefficients || coefficients->empty()) node.invalid("attribute 'coefficients' is missing");
  const auto given = std::ssize(*coefficients);
  const Dim columns = x.shape()[1];
  if (count < 1 || given % count != 0 ||
      (columns.is_constant() && columns.value() * count != given))
    node.invalid("it has {} coefficients, but X has {} columns and there are {} results", given,
                 columns, count);
  const Term weights = float_constant(node, *coefficients, {count, given / count}, "coefficients");
  const Term product(node,
                     multiply_matrices(node, x.value(), node.transpose(weights.value(), {1, 0})));
  const auto intercepts = node.attr_floats("intercepts");
  if (!intercepts || intercepts->empty()) return product;
  return product + float_constant(node, *intercepts, {1, count}, "intercepts");
}

void linear_regressor(NodeContext& node) {
  const Term y = linear_scores(node, node.attr_int("targets", 1));
  node.output(transform_scores(y, read_post_transform(node)).value());
}

/// A single row of coefficients gives the second of two classes, which wins if its score is
/// positive.
void linear_classifier(NodeContext& node) {
  const Ints labels = read_labels(node, "classlabels_ints", "classlabels_strings");
  const auto intercepts = node.attr_floats("intercepts");
  const auto coefficients = node.attr_floats("coefficients");
  std::int64_t count = std::ssize(labels);
  if (intercepts && !intercepts->empty()) count = std::ssize(*intercepts);
  if (labels.size() < 2 || (count != std::ssize(labels) && !(count == 1 && labels.size() == 2)))
    node.invalid("it has {} classes, but {} intercepts", labels.size(), count);
  const Term scores = linear_scores(node, count);
  const PostTransform transform = read_post_transform(node);
  if (count > 1) {
    node.output(0, best_label(scores, labels).value());
    return node.output(1, transform_scores(scores, transform).value());
  }
  node.output(0, binary_label(scores.with("Greater", 0), labels).value());
  const Term positive =
      transform == PostTransform::kLogistic ? transform_scores(scores, transform) : scores;
  if (transform != PostTransform::kNone && transform != PostTransform::kLogistic)
    node.unsupported(
        "post_transform of one score for two classes can be NONE or LOGISTIC: give both classes "
        "coefficients");
  node.output(1, side_by_side(1 - positive, positive).value());
}

}  // namespace

const OpRows kLinearModelOps = {
    {"LinearRegressor", 1, linear_regressor, "coefficients intercepts post_transform targets", kMl,
     Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
    {"LinearClassifier", 1, linear_classifier,
     "classlabels_ints classlabels_strings coefficients intercepts multi_class post_transform", kMl,
     Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
};

}  // namespace sinter::frontend
