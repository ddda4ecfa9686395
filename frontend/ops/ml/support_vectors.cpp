// SPDX-License-Identifier: Apache-2.0
// Support vector machines of ai.onnx.ml: kernels of rows and support vectors, times coefficients.
#include <numeric>

#include "frontend/ops/ml/scores.h"
#include "frontend/ops/products.h"
#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

std::vector<double> floats_of(const NodeContext& node, std::string_view name) {
  return node.attr_floats(name).value_or(std::vector<double>());
}

Term product(const Term& a, const Term& b) {
  return {a.node(), multiply_matrices(a.node(), a.value(), b.value())};
}
Term turned(const Term& x) { return {x.node(), x.node().transpose(x.value(), {1, 0})}; }

/// The kernel of each row of x [rows, columns] and each of `vectors` [count, columns].
Term kernels(const Term& x, const Term& vectors, const std::string& type) {
  NodeContext& node = x.node();
  std::vector<double> parameters = floats_of(node, "kernel_params");
  if (parameters.empty()) parameters = {0, 0, 0};
  if (parameters.size() != 3)
    node.invalid("kernel_params are {} numbers, not gamma, coef0 and degree", parameters.size());
  const double gamma = parameters[0], offset = parameters[1], degree = parameters[2];
  if (type == "POLY") return (product(x, turned(vectors)) * gamma + offset).with("Pow", degree);
  if (type == "SIGMOID") return (product(x, turned(vectors)) * gamma + offset).apply("Tanh");
  if (type != "RBF")
    node.invalid("kernel_type '{}' is none of LINEAR, POLY, RBF and SIGMOID", type);
  // Avoids the cancellation of |x|^2 + |v|^2 - 2 xv for near vectors.
  const Shape xs = x.shape(), vs = vectors.shape();
  const Term difference =
      x.reshape({xs[0], Dim(1), xs[1]}) - vectors.reshape({Dim(1), vs[0], vs[1]});
  return (reduce("ReduceSum", difference.apply("Square"), 2) * -gamma).apply("Exp");
}

std::vector<double> support_values(NodeContext& node, std::int64_t count, const Term& x) {
  std::vector<double> values = floats_of(node, "support_vectors");
  const Dim columns = x.shape()[1];
  const auto given = std::ssize(values);
  if (given % count != 0 || (columns.is_constant() && columns.value() * count != given))
    node.invalid("it has {} numbers for {} support vectors, but X has {} columns", given, count,
                 columns);
  return values;
}

/// The kernels times `weights` [count, results]. A linear kernel folds into the weights.
Term weighted_kernels(NodeContext& node, const Term& x, std::int64_t count,
                      const std::vector<double>& weights, std::int64_t results) {
  const std::vector<double> vectors = support_values(node, count, x);
  const std::int64_t columns = std::ssize(vectors) / count;
  const std::string type = node.attr_string("kernel_type", "LINEAR");
  if (type != "LINEAR")
    return product(
        kernels(x, float_constant(node, vectors, {count, columns}, "support_vectors"), type),
        float_constant(node, weights, {count, results}, "coefficients"));
  std::vector<double> matrix(static_cast<std::size_t>(columns * results), 0);
  for (std::int64_t v = 0; v < count; ++v)
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t r = 0; r < results; ++r)
        matrix[static_cast<std::size_t>(c * results + r)] +=
            vectors[static_cast<std::size_t>(v * columns + c)] *
            weights[static_cast<std::size_t>(v * results + r)];
  return product(x, float_constant(node, matrix, {columns, results}, "coefficients"));
}

/// Probabilities of `classes` as columns [rows, 1]. `pairs` are the pairwise probabilities of the
/// first of two classes. Uses libsvm's second method of pairwise coupling (Wu, Lin, Weng 2004). It
/// iterates until it converges, in 2 to 4 rounds; converged rows stay unchanged.
std::vector<Term> coupled(const std::vector<Term>& pairs, std::size_t classes) {
  constexpr int kRounds = 6;
  std::vector<std::vector<Term>> r(classes, std::vector<Term>(classes, pairs[0])), q = r;
  std::size_t pair = 0;
  for (std::size_t i = 0; i < classes; ++i)
    for (std::size_t j = i + 1; j < classes; ++j, ++pair) {
      r[i][j] = pairs[pair];
      r[j][i] = 1 - pairs[pair];
    }
  for (std::size_t i = 0; i < classes; ++i) {
    Term own = pairs[0].number(0);
    for (std::size_t j = 0; j < classes; ++j) {
      if (j == i) continue;
      own = own + r[j][i].apply("Square");
      q[i][j] = r[j][i].apply("Neg") * r[i][j];
    }
    q[i][i] = own;
  }
  const auto n = static_cast<double>(classes);
  std::vector<Term> p(classes, pairs[0] * 0 + 1 / n);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Term> qp;
    Term pqp = pairs[0].number(0);
    for (std::size_t i = 0; i < classes; ++i) {
      Term sum = q[i][0] * p[0];
      for (std::size_t j = 1; j < classes; ++j) sum = sum + q[i][j] * p[j];
      qp.push_back(sum);
      pqp = pqp + p[i] * sum;
    }
    Term error = abs(qp[0] - pqp);
    for (std::size_t i = 1; i < classes; ++i) error = error.with("Max", abs(qp[i] - pqp));
    const Term goes_on = error.with("GreaterOrEqual", 0.005 / n);
    std::vector<Term> next = p;
    for (std::size_t i = 0; i < classes; ++i) {
      const Term step = (pqp - qp[i]) / q[i][i], scale = step + 1;
      next[i] = next[i] + step;
      pqp = (pqp + step * (step * q[i][i] + qp[i] * 2)) / scale / scale;
      for (std::size_t j = 0; j < classes; ++j) {
        qp[j] = (qp[j] + step * q[i][j]) / scale;
        next[j] = next[j] / scale;
      }
    }
    for (std::size_t i = 0; i < classes; ++i) p[i] = select(goes_on, next[i], p[i]);
  }
  return p;
}

/// The same for many classes, as operations on rows of vectors: probabilities [rows, classes] of
/// `pairs` [rows, pairs]. Each column by itself would be the square of the classes in nodes.
Term coupled_rows(const Term& pairs, std::int64_t classes) {
  constexpr int kRounds = 6;
  NodeContext& node = pairs.node();
  const Dim rows = pairs.shape()[0];
  Ints place;                 // in pairs, of classes i and j
  std::vector<double> turns;  // 1 where the pair's probability is that of the other one
  std::vector<double> others;
  for (std::int64_t i = 0; i < classes; ++i)
    for (std::int64_t j = 0; j < classes; ++j) {
      const std::int64_t a = std::min(i, j), b = std::max(i, j);
      place.push_back(i == j ? 0 : a * classes - a * (a + 1) / 2 + b - a - 1);
      turns.push_back(i > j ? 1 : 0);
      others.push_back(i == j ? 0 : 1);
    }
  const std::int64_t square = classes * classes;
  const auto table = [&](const std::vector<double>& values) {
    return float_constant(node, values, {1, square}, "");
  };
  const ValueId index =
      node.builder().constant(ir::Tensor::from_ints(DType::kInt64, {square}, place));
  const Term given(node, node.add("Gather", {pairs.value(), index}, {{"axis", std::int64_t{1}}}));
  // r[i][j], and of the transposed: r[j][i] = 1 - r[i][j].
  const Term turn = table(turns), other = table(others);
  const Term r = (turn + given * (1 - turn * 2.0)) * other, back = (1 - r) * other;
  const Shape matrix{rows, classes, classes};
  const Term own = reduce("ReduceSum", back.apply("Square").reshape(matrix), 2);  // q[i][i]
  const Term across = (back * r).apply("Neg").reshape(matrix);                    // q[i][j]
  const auto n = static_cast<double>(classes);
  Term p = own * 0 + 1 / n;
  for (int round = 0; round < kRounds; ++round) {
    Term qp = reduce("ReduceSum", across * p.reshape({rows, 1, classes}), 2) + own * p;
    Term pqp = reduce("ReduceSum", p * qp, 1, true);
    const Term error = reduce("ReduceMax", abs(qp - pqp), 1, true);
    const Term goes_on = error.with("GreaterOrEqual", 0.005 / n);
    Term next = p;
    for (std::int64_t i = 0; i < classes; ++i) {
      std::vector<double> one(static_cast<std::size_t>(classes), 0);
      one[static_cast<std::size_t>(i)] = 1;
      const Term is_own = float_constant(node, one, {1, classes}, "");
      const Term diagonal = slice_one(own, 1, i), at = slice_one(qp, 1, i);
      const Term row = slice_one(across, 1, i).reshape({rows, classes}) + diagonal * is_own;
      const Term step = (pqp - at) / diagonal, scale = step + 1;
      pqp = (pqp + step * (step * diagonal + at * 2)) / scale / scale;
      qp = (qp + step * row) / scale;
      next = (next + step * is_own) / scale;
    }
    p = select(goes_on, next, p);
  }
  return p;
}

void svm_regressor(NodeContext& node) {
  const Term x = read_float_rows(node);
  const std::int64_t count = node.attr_int("n_supports", 0);
  const std::vector<double> coefficients = floats_of(node, "coefficients"),
                            rho = floats_of(node, "rho");
  if (rho.size() != 1) node.invalid("it has {} elements of rho, not one", rho.size());
  if (read_post_transform(node) != PostTransform::kNone)
    node.unsupported("a post_transform other than NONE: apply it behind the model");
  if (count > 0 && std::ssize(coefficients) != count)
    node.invalid("it has {} coefficients for {} support vectors", coefficients.size(), count);
  const Term y =
      (count > 0 ? weighted_kernels(node, x, count, coefficients, 1)
                 : product(x, float_constant(node, coefficients, {std::ssize(coefficients), 1},
                                             "coefficients"))) +
      rho[0];
  if (node.attr_int("one_class", 0) == 0) return node.output(y.value());
  node.output(select(y.with("Greater", 0), y.number(1), y.number(-1)).value());
}

/// No support vectors: liblinear's form, with a row of coefficients per class.
void linear_svm(NodeContext& node, const Ints& labels) {
  const Term x = read_float_rows(node);
  const std::vector<double> coefficients = floats_of(node, "coefficients"),
                            rho = floats_of(node, "rho");
  const auto classes = std::ssize(labels);
  if (classes == 2)
    node.unsupported("two classes without support vectors: export it as LinearClassifier");
  if (rho.empty() || std::ssize(coefficients) % classes != 0)
    node.invalid("it has {} coefficients and {} elements of rho for {} classes",
                 coefficients.size(), rho.size(), classes);
  const Term weights = float_constant(
      node, coefficients, {classes, std::ssize(coefficients) / classes}, "coefficients");
  const Term scores = product(x, turned(weights)) + rho[0];
  node.output(0, best_label(scores, labels).value());
  node.output(1, transform_scores(scores, read_post_transform(node)).value());
}

/// One-against-one: each pair i < j has a score, which is positive for i; the class with most wins
/// is the label.
void svm_classifier(NodeContext& node) {
  const Ints labels = read_labels(node, "classlabels_ints", "classlabels_strings");
  const auto classes = std::ssize(labels);
  if (classes < 2) node.unsupported("it has {} classes; a classifier needs two or more", classes);
  const Ints each = node.attr_ints("vectors_per_class").value_or(Ints());
  if (each.empty()) return linear_svm(node, labels);
  if (std::ssize(each) != classes)
    node.invalid("vectors_per_class has {} elements for {} classes", each.size(), classes);
  Ints first{0};
  for (const std::int64_t count : each) {
    if (count < 0) node.invalid("a class has {} support vectors", count);
    first.push_back(first.back() + count);
  }
  const std::int64_t count = first.back(), pairs = classes * (classes - 1) / 2;
  const std::vector<double> coefficients = floats_of(node, "coefficients"),
                            rho = floats_of(node, "rho"), slope = floats_of(node, "prob_a"),
                            offset = floats_of(node, "prob_b");
  if (count < 1 || std::ssize(coefficients) != (classes - 1) * count)
    node.invalid("it has {} coefficients, but {} support vectors of {} classes need {}",
                 coefficients.size(), count, classes, (classes - 1) * count);
  if (slope.size() != offset.size() || (!slope.empty() && std::ssize(slope) != pairs))
    node.invalid("prob_a and prob_b have {} and {} elements for {} pairs of classes", slope.size(),
                 offset.size(), pairs);
  std::vector<double> weights(static_cast<std::size_t>(count * pairs), 0),
      wins(static_cast<std::size_t>(pairs * classes), 0), losses = wins;
  std::int64_t pair = 0;
  for (std::int64_t i = 0; i < classes; ++i)
    for (std::int64_t j = i + 1; j < classes; ++j, ++pair) {
      const auto take_class = [&](std::int64_t of, std::int64_t row) {
        for (std::int64_t v = first[static_cast<std::size_t>(of)];
             v < first[static_cast<std::size_t>(of) + 1]; ++v)
          weights[static_cast<std::size_t>(v * pairs + pair)] =
              coefficients[static_cast<std::size_t>(row * count + v)];
      };
      take_class(i, j - 1);
      take_class(j, i);
      wins[static_cast<std::size_t>(pair * classes + i)] = 1;
      losses[static_cast<std::size_t>(pair * classes + j)] = 1;
    }
  const Term x = read_float_rows(node);
  const Term scores = weighted_kernels(node, x, count, weights, pairs) +
                      float_constant(node, rho, {1, pairs}, "elements of rho");
  const Term won = scores.with("Greater", 0).cast(DType::kFloat32);
  const Term votes = product(won, float_constant(node, wins, {pairs, classes}, "")) +
                     product(1 - won, float_constant(node, losses, {pairs, classes}, ""));
  node.output(0, best_label(votes, labels).value());

  const PostTransform transform = read_post_transform(node);
  if (!slope.empty()) {
    constexpr std::int64_t kMostColumns = 10, kMostClasses = 256;
    if (classes > kMostClasses)
      node.unsupported(
          "probabilities of {} classes, more than {}: train with probability=False and calibrate "
          "the classes (sklearn's CalibratedClassifierCV)",
          classes, kMostClasses);
    const Term of_pairs =
        clamp((scores * float_constant(node, slope, {1, pairs}, "elements of prob_a") +
               float_constant(node, offset, {1, pairs}, "elements of prob_b"))
                  .apply("Neg")
                  .apply("Sigmoid"),
              1e-7, scores.number(1 - 1e-7));
    if (classes > kMostColumns)
      return node.output(1, transform_scores(coupled_rows(of_pairs, classes), transform).value());
    std::vector<Term> columns;
    for (std::int64_t i = 0; i < pairs; ++i) columns.push_back(slice_one(of_pairs, 1, i));
    std::vector<ValueId> probabilities;
    for (const Term& each : coupled(columns, static_cast<std::size_t>(classes)))
      probabilities.push_back(each.value());
    return node.output(1,
                       transform_scores({node, node.concat(probabilities, 1)}, transform).value());
  }
  if (classes > 2) return node.output(1, transform_scores(scores, transform).value());
  node.output(1, (transform == PostTransform::kNone
                      ? side_by_side(scores.apply("Neg"), scores)
                      : transform_scores(side_by_side(1 - scores, scores), transform))
                     .value());
}

}  // namespace

const OpRows kSupportVectorOps = {
    {"SVMRegressor", 1, svm_regressor,
     "coefficients kernel_params kernel_type n_supports one_class post_transform rho "
     "support_vectors",
     kMl, Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
    {"SVMClassifier", 1, svm_classifier,
     "classlabels_ints classlabels_strings coefficients kernel_params kernel_type post_transform "
     "prob_a prob_b rho support_vectors vectors_per_class",
     kMl, Types::kNumbers, FourBits::kRefuses, kMlHoldsUntil},
};

}  // namespace sinter::frontend
