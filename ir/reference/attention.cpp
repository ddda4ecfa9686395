// SPDX-License-Identifier: Apache-2.0
// Attention by definition, in float64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/attention_inputs.h"
#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"

namespace sinter::ir::reference {
namespace {

/// Strides between an operand's matrices, in elements, along the batch dimensions of the result.
Ints matrix_strides(const Ints& shape, const Ints& batch) {
  Ints strides = broadcast_strides({shape.begin(), shape.end() - 2}, batch);
  for (std::int64_t& stride : strides) stride *= shape[shape.size() - 2] * shape.back();
  return strides;
}

/// The elements of a matrix, multiplied by row scales if there are any.
std::vector<double> scaled_rows(const Tensor& rows, Tensors inputs,
                                const std::optional<std::size_t>& scales) {
  std::vector<double> all = rows.to_doubles();
  if (!scales) return all;
  const std::vector<double> factors = inputs[*scales].to_doubles();
  const auto width = static_cast<std::size_t>(rows.shape().back());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] *= factors[i / width];
  return all;
}

/// Values of 8-bit attention, [.., dv, columns], transposed to rows of keys.
std::vector<double> values_by_rows(const Tensor& values, std::int64_t n) {
  const std::vector<double> all = values.to_doubles();
  const Ints& shape = values.shape();
  const std::int64_t dv = shape[shape.size() - 2], columns = shape.back();
  std::vector<double> rows(static_cast<std::size_t>(std::ssize(all) / columns * n));
  for (std::int64_t i = 0; i < std::ssize(rows); ++i)
    rows[static_cast<std::size_t>(i)] =
        all[static_cast<std::size_t>((i / (n * dv) * dv + i % dv) * columns + i / dv % n)];
  return rows;
}

/// Weights relative to their row's largest, times kWeightUnit, rounded to f8e4m3fn.
std::vector<double> rounded_weights(std::span<const double> weights) {
  std::vector<double> times(weights.begin(), weights.end());
  for (double& weight : times) weight *= kWeightUnit;
  return Tensor::from_doubles(DType::kFloat8E4M3FN, {std::ssize(times)}, times).to_doubles();
}

struct SequenceRows {
  std::int64_t begin = 0, end = 0;
  std::int64_t number = 0;
};
/// For each of `rows` rows, the rows of its sequence; empty if it is in none.
std::vector<SequenceRows> sequences_of_rows(const Tensor& bounds, std::int64_t rows) {
  std::vector<SequenceRows> result(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i + 1 < bounds.element_count(); ++i) {
    const std::int64_t begin = std::clamp<std::int64_t>(bounds.at_int(i), 0, rows);
    const std::int64_t end = std::clamp(bounds.at_int(i + 1), begin, rows);
    std::fill(result.begin() + begin, result.begin() + end, SequenceRows{begin, end, i});
  }
  return result;
}

/// The keys of a paged cache that a row sees, in order.
std::vector<std::int64_t> paged_keys(const Attrs& attrs, const Tensor& tables, std::int64_t number,
                                     std::int64_t limit, std::int64_t keys) {
  const std::int64_t block = attrs.get_int("paged"), window = attrs.get_int("window"),
                     blocks = tables.shape()[1];
  limit = std::min(limit, blocks * block);
  std::vector<std::int64_t> result;
  for (std::int64_t j = window == 0 ? 0 : std::max<std::int64_t>(0, limit - window); j < limit; ++j)
    result.push_back(tables.at_int(number * blocks + j / block) * block + j % block);
  // Table entries are not trusted.
  for (std::int64_t& row : result)
    if (row < 0 || row >= keys) row = 0;
  return result;
}

/// out += softmax(scale * row k') v over the listed keys; nothing if empty.
void add_listed(const std::vector<std::int64_t>& list, const double* row, const double* k,
                const double* v, std::int64_t d, std::int64_t dv, double scale, double* out) {
  std::vector<double> weights;
  for (const std::int64_t key : list) {
    double score = 0;
    for (std::int64_t c = 0; c < d; ++c) score += row[c] * k[key * d + c];
    weights.push_back(scale * score);
  }
  if (list.empty()) return;
  const double most = *std::ranges::max_element(weights);
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - most);
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::int64_t c = 0; c < dv; ++c) out[c] += weights[i] / sum * v[list[i] * dv + c];
}

}  // namespace

/// y = softmax(s) v with s = scale * q k'. (A node whose scores have a body is evaluated by its
/// decomposition.) s is replaced by `fill` where a bool mask is false, or a float mask is added. It
/// is -inf where causal hides a key (1: key > row, 2: key > row + n - m) or, with "limited", the
/// row's limit does (key >= limit). A row whose s are all -inf has weights 0 / 0 = NaN, or 0 with
/// `guard`: see attention_inputs.h. 8-bit k and v are multiplied by their rows' scales. With
/// "packed", rows and keys bounds[i] to bounds[i + 1] are sequence i, which sees only its own keys;
/// rows in no sequence are zero. With "paged" a row sees the keys in its sequence's block table.
/// For 8-bit q, k and v (is_eight_bit_attention) the weights, relative to the row's largest and
/// times kWeightUnit, are rounded to f8e4m3fn; the sum that divides the result is of exact
/// weights.
std::vector<Tensor> evaluate_attention(const Attrs& attrs, Tensors inputs, Types outputs) {
  const bool eight_bit = is_eight_bit_attention(inputs[0].dtype());
  const Ints shape = concrete_shape(outputs[0].shape), &q_shape = inputs[0].shape(),
             &k_shape = inputs[1].shape();
  const std::int64_t m = shape[shape.size() - 2], dv = shape.back(), d = q_shape.back(),
                     n = k_shape[k_shape.size() - 2];
  Ints v_shape = inputs[2].shape();
  if (eight_bit) v_shape.end()[-2] = n, v_shape.back() = dv;
  const Ints batch(shape.begin(), shape.end() - 2);
  const AttentionInputs which = attention_inputs(attrs, inputs.size(), inputs[1].dtype());
  const std::vector<double> q = inputs[0].to_doubles(),
                            k = scaled_rows(inputs[1], inputs, which.key_scales),
                            v = eight_bit ? values_by_rows(inputs[2], n)
                                          : scaled_rows(inputs[2], inputs, which.value_scales);
  const std::vector<SequenceRows> sequences =
      which.bounds ? sequences_of_rows(inputs[*which.bounds], m) : std::vector<SequenceRows>();
  const bool masked = which.mask.has_value();
  const bool selects = masked && inputs[3].dtype() == DType::kBool;
  const std::vector<double> mask = masked ? inputs[3].to_doubles() : std::vector<double>();
  Ints scores_shape = batch;
  scores_shape.insert(scores_shape.end(), {m, n});
  const Ints mask_strides =
      masked ? broadcast_strides(inputs[3].shape(), scores_shape) : Ints(scores_shape.size(), 0);
  const std::vector<double> limits =
      which.limits ? inputs[*which.limits].to_doubles() : std::vector<double>();
  scores_shape.back() = 1;
  const Ints limit_strides = which.limits
                                 ? broadcast_strides(inputs[*which.limits].shape(), scores_shape)
                                 : Ints(scores_shape.size(), 0);
  StridedWalk limit_walk(batch, {limit_strides.begin(), limit_strides.end() - 2});
  StridedWalk q_walk(batch, matrix_strides(q_shape, batch)),
      k_walk(batch, matrix_strides(k_shape, batch)), v_walk(batch, matrix_strides(v_shape, batch)),
      mask_walk(batch, {mask_strides.begin(), mask_strides.end() - 2});
  const std::int64_t causal = attrs.get_int("causal");
  const double scale = attrs.get_float("scale");
  const std::int64_t last_seen = causal == 0 ? n : causal == 1 ? 0 : n - m;  // by the first row
  std::vector<double> y(static_cast<std::size_t>(count_of(shape)), 0);
  std::vector<double> s(static_cast<std::size_t>(n));
  double* out = y.data();
  for (std::int64_t b = 0; b < count_of(batch); ++b) {
    for (std::int64_t i = 0; i < m; ++i, out += dv) {
      const SequenceRows own =
          which.bounds ? sequences[static_cast<std::size_t>(i)] : SequenceRows{0, n};
      const SequenceRows keys = which.tables && own.begin < own.end ? SequenceRows{0, n} : own;
      if (which.bounds && keys.begin == keys.end) continue;  // y is zero
      const double* row = q.data() + q_walk.offset() + i * d;
      double most = -std::numeric_limits<double>::infinity();
      if (which.tables) {
        const auto limit = static_cast<std::int64_t>(
            limits[static_cast<std::size_t>(limit_walk.offset() + i * limit_strides.end()[-2])]);
        add_listed(paged_keys(attrs, inputs[*which.tables], own.number, limit, n), row,
                   k.data() + k_walk.offset(), v.data() + v_walk.offset(), d, dv, scale, out);
        continue;
      }
      for (std::int64_t j = 0; j < n; ++j) {
        const double* key = k.data() + k_walk.offset() + j * d;
        double score = 0;
        for (std::int64_t c = 0; c < d; ++c) score += row[c] * key[c];
        score *= scale;
        if (masked) {
          const double value = mask[static_cast<std::size_t>(
              mask_walk.offset() + i * mask_strides.end()[-2] + j * mask_strides.back())];
          score = !selects ? score + value : value != 0 ? score : attrs.get_float("fill");
        }
        if (which.limits &&
            static_cast<double>(j) >=
                limits[static_cast<std::size_t>(limit_walk.offset() + i * limit_strides.end()[-2])])
          score = -std::numeric_limits<double>::infinity();
        if (causal != 0 && j > last_seen + i) score = -std::numeric_limits<double>::infinity();
        if (j < keys.begin || j >= keys.end) score = -std::numeric_limits<double>::infinity();
        s[static_cast<std::size_t>(j)] = score;
        most = std::max(most, score);
      }
      const std::int64_t guard = attrs.get_int("guard");
      if (guard == kGuardHidden && std::ranges::all_of(s, [](double score) {
            return score == -std::numeric_limits<double>::infinity();
          }))
        continue;  // y is zero
      double sum = 0;
      for (double& score : s) sum += score = std::exp(score - most);
      if (eight_bit && sum > 0) {
        s = rounded_weights(s);
        sum *= kWeightUnit;
      }
      for (std::int64_t j = 0; j < n; ++j) {
        double weight = s[static_cast<std::size_t>(j)] / sum;
        if (guard == kGuardNan && std::isnan(weight)) weight = 0;
        const double* value = v.data() + v_walk.offset() + j * dv;
        for (std::int64_t c = 0; c < dv; ++c) out[c] += weight * value[c];
      }
    }
    q_walk.next(), k_walk.next(), v_walk.next(), mask_walk.next(), limit_walk.next();
  }
  return {Tensor::from_doubles(outputs[0].dtype, shape, y)};
}

}  // namespace sinter::ir::reference
