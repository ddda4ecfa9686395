// SPDX-License-Identifier: Apache-2.0
// SampleTokens(logits, reals, integers, sets, biased, biases) -> tokens
// SampleTokens(logits, reals, integers, sets, biased, biases, wanted) -> tokens, likeliest,
// logprobs
//
// Samples a token for each row of logits, floats [rows, v], with the row's own parameters:
//   reals     f64 [rows, 4]   temperature; top-p; minimum score, the logarithm of min-p;
//                             repetition penalty
//   integers  i64 [rows, 6]   random seed; top-k; row of `sets` with the allowed tokens (-1: all);
//                             row of `sets` with the seen tokens (-1: none); index of the row's
//                             first bias; number of its biases
//   sets      i32 [n, ceil(v / 32)]   bitmaps: bit i % 32 of word i / 32 belongs to token i
//   biased    i32 [m]         tokens with a bias, ascending within a row
//   biases    f32 [m]         their biases
//   wanted    i32 [rows]      number of top log probabilities to return, at most the attribute
//                             `likeliest` (k, 1 to 32); negative: not even the sampled token's
//   tokens    i32 [rows]
//   likeliest i32 [rows, k]   the most likely tokens in descending order, ties by id; -1 after the
//                             last wanted one
//   logprobs  f32 [rows, 1 + k]   of the sampled token, then of the likeliest; 0 where not wanted
// Steps, in this order; logits are float32:
// 1. Add biases. Then divide the positive logits of seen tokens by the penalty, and multiply their
//    other logits by it.
// 2. Drop tokens that are not allowed. If the temperature is not positive and finite, return the
//    first of the largest logits.
// 3. Compute scores in float64: (logit - largest logit) / temperature. Keep the top-k largest, ties
//    by id; 0 keeps all. Of these, keep each token if the tokens before it have less than top-p of
//    the total weight; at least one. A weight is floor(2^40 * e^score), with
//    score = (logit - largest logit) * (1 / temperature), all in float32. Of these, keep tokens
//    with at least the minimum score; if there are none, return the most likely token.
// 4. Return the token with the largest sum of score and Gumbel noise -log(-log(1 - u)). Here
//    u = (x + 1/2) / 2^52, where x is the upper 52 bits of number id + 1 of the SplitMix64 sequence
//    of the seed (Steele, Lea, Flood, "Fast splittable pseudorandom number generators").
// The token is v if a logit is NaN, and -1 if no token is allowed. A row of `sets` out of range
// counts as -1. Biases out of range, or of tokens out of range, are ignored.
//
// Log probabilities are those of the original logits, without steps 1 to 3: the logit minus the
// largest, minus log(sum of e^(logit - largest)) over all tokens. A row without a token, -1 or v,
// has none.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

constexpr std::int64_t kReals = 4, kIntegers = 6, kMostLikeliest = 32;

std::vector<TensorType> infer_sample(const Attrs& attrs, Types inputs) {
  const auto is = [&](std::size_t input, DType type, std::size_t rank) {
    return inputs[input].dtype == type && inputs[input].shape.size() == rank;
  };
  const Shape& logits = inputs[0].shape;
  if (!is_float(inputs[0].dtype) || logits.size() != 2 || !logits[1].is_constant() ||
      logits[1].value() < 1 || !is(1, DType::kFloat64, 2) || !is(2, DType::kInt64, 2) ||
      !is(3, DType::kInt32, 2) || !is(4, DType::kInt32, 1) || !is(5, DType::kFloat32, 1))
    invalid(
        "needs logits [rows, vocabulary], f64[rows, 4], i64[rows, 6], i32[sets, words], i32[n] and "
        "f32[n], found " +
        list_types(inputs));
  const auto differ = [&] { return "sizes do not fit each other: " + list_types(inputs); };
  require_equal(inputs[1].shape, Shape{logits[0], kReals}, differ);
  require_equal(inputs[2].shape, Shape{logits[0], kIntegers}, differ);
  require_equal(inputs[3].shape, Shape{inputs[3].shape[0], (logits[1].value() + 31) / 32}, differ);
  require_equal(inputs[4].shape, inputs[5].shape, differ);
  const std::int64_t likeliest = attrs.get_int("likeliest");
  if (inputs.size() < 7) {
    if (likeliest != 0) invalid("counts the likeliest tokens, but has no `wanted`");
    return {{DType::kInt32, {logits[0]}}};
  }
  if (!is(6, DType::kInt32, 1)) invalid("needs i32[rows] as `wanted`, found " + list_types(inputs));
  require_equal(inputs[6].shape, Shape{logits[0]}, differ);
  if (likeliest < 1 || likeliest > kMostLikeliest)
    invalid("gives 1 to 32 of the likeliest tokens, not " + std::to_string(likeliest));
  return {{DType::kInt32, {logits[0]}},
          {DType::kInt32, {logits[0], likeliest}},
          {DType::kFloat32, {logits[0], likeliest + 1}}};
}

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

double gumbel(std::uint64_t seed, std::int64_t token) {
  const std::uint64_t bits =
      mixed(seed + static_cast<std::uint64_t>(token + 1) * 0x9E3779B97F4A7C15);
  return -std::log(-std::log1p(-(static_cast<double>(bits >> 12) + 0.5) * 0x1p-52));
}

/// One row's parameters and tokens.
struct SampledRow {
  double temperature, top_p, least_score;
  float penalty;
  std::uint64_t seed;
  std::int64_t top_k;
  std::vector<float> values;  // logits with biases and penalties
  std::vector<bool> allowed;

  SampledRow(Tensors inputs, std::int64_t row) {
    const Tensor &logits = inputs[0], &reals = inputs[1], &integers = inputs[2];
    const std::int64_t count = logits.shape()[1];
    const auto real = [&](std::int64_t i) { return reals.at(row * kReals + i); };
    const auto integer = [&](std::int64_t i) { return integers.at_int(row * kIntegers + i); };
    temperature = real(0), top_p = real(1), least_score = real(2);
    penalty = static_cast<float>(real(3));
    seed = static_cast<std::uint64_t>(integer(0)), top_k = integer(1);
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(logits.at(row * count + i)));
    const auto& biased = inputs[4];
    for (std::int64_t i = 0; i < integer(5) && i < biased.element_count(); ++i) {
      const std::int64_t index = integer(4) + i;
      if (index < 0 || index >= biased.element_count()) continue;
      const std::int64_t token = biased.at_int(index);
      if (token >= 0 && token < count)
        values[static_cast<std::size_t>(token)] += static_cast<float>(inputs[5].at(index));
    }
    allowed = set(inputs[3], integer(2), count, true);
    const std::vector<bool> seen = set(inputs[3], integer(3), count, false);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (seen[i]) values[i] = values[i] > 0 ? values[i] / penalty : values[i] * penalty;
  }

  static std::vector<bool> set(const Tensor& sets, std::int64_t row, std::int64_t count,
                               bool without) {
    const auto size = static_cast<std::size_t>(count);
    if (row < 0 || row >= sets.shape()[0]) return std::vector<bool>(size, without);
    std::vector<bool> result;
    for (std::int64_t i = 0; i < count; ++i)
      result.push_back((sets.at_int(row * sets.shape()[1] + i / 32) >> (i % 32) & 1) != 0);
    return result;
  }

  std::int64_t token() const {
    if (std::ranges::any_of(values, [](float value) { return std::isnan(value); }))
      return std::ssize(values);
    std::vector<std::int64_t> order;  // most probable first
    for (std::int64_t i = 0; i < std::ssize(values); ++i)
      if (allowed[static_cast<std::size_t>(i)]) order.push_back(i);
    if (order.empty()) return -1;
    const auto value = [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
    std::ranges::stable_sort(order, [&](auto a, auto b) { return value(a) > value(b); });
    const float most = value(order[0]);
    if (!(temperature > 0 && temperature < std::numeric_limits<double>::infinity()))
      return order[0];
    if (top_k > 0 && top_k < std::ssize(order)) order.resize(static_cast<std::size_t>(top_k));
    const auto score = [&](std::int64_t i) {
      return value(i) == most ? 0 : (double{value(i)} - double{most}) / temperature;
    };
    const auto weight = [&](std::int64_t i) {
      const auto rate = static_cast<float>(1 / temperature);
      const float near = value(i) == most ? 0 : (value(i) - most) * rate;
      return static_cast<std::uint64_t>(std::exp(near) * 0x1p40F);
    };
    if (top_p < 1) {
      std::uint64_t total = 0, before = 0;
      for (const std::int64_t i : order) total += weight(i);
      const auto bound =
          static_cast<std::uint64_t>(std::max(1.0, std::ceil(top_p * static_cast<double>(total))));
      std::size_t kept = 0;
      for (; kept < order.size() && before < bound; ++kept) before += weight(order[kept]);
      order.resize(kept);
    }
    std::int64_t best = order.empty() ? -1 : order[0];
    double best_sum = -std::numeric_limits<double>::infinity();
    for (const std::int64_t i : order) {
      if (score(i) < least_score) continue;
      const double sum = score(i) + gumbel(seed, i);
      if (sum > best_sum) best = i, best_sum = sum;
    }
    return best;
  }
};

/// The `wanted` most probable tokens of the row, and the log probabilities of `token` and of them.
void add_logprobs(const Tensor& logits, std::int64_t row, std::int64_t token, std::int64_t wanted,
                  std::span<std::int64_t> likeliest, std::span<double> logprobs) {
  const std::int64_t count = logits.shape()[1];
  if (wanted < 0 || token < 0 || token >= count) return;
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < count; ++i) order.push_back(i);
  const auto logit = [&](std::int64_t i) { return logits.at(row * count + i); };
  std::ranges::stable_sort(order, [&](auto a, auto b) { return logit(a) > logit(b); });
  const auto score = [&](std::int64_t i) {
    return logit(i) == logit(order[0]) ? 0 : logit(i) - logit(order[0]);
  };
  double total = 0;
  for (const std::int64_t i : order) total += std::exp(score(i));
  logprobs[0] = score(token) - std::log(total);
  for (std::size_t i = 0; i < likeliest.size() && i < order.size(); ++i) {
    if (std::cmp_greater_equal(i, wanted)) break;
    likeliest[i] = order[i];
    logprobs[1 + i] = score(order[i]) - std::log(total);
  }
}

std::vector<Tensor> evaluate_sample(const Attrs& attrs, Tensors inputs, Types outputs) {
  const std::int64_t rows = inputs[0].shape()[0];
  std::vector<std::int64_t> tokens;
  for (std::int64_t row = 0; row < rows; ++row) tokens.push_back(SampledRow(inputs, row).token());
  std::vector<Tensor> results = {Tensor::from_ints(outputs[0].dtype, {rows}, tokens)};
  if (outputs.size() == 1) return results;
  const auto most = static_cast<std::size_t>(attrs.get_int("likeliest"));
  std::vector<std::int64_t> likeliest(static_cast<std::size_t>(rows) * most, -1);
  std::vector<double> logprobs(static_cast<std::size_t>(rows) * (most + 1), 0);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const auto number = static_cast<std::int64_t>(row);
    add_logprobs(inputs[0], number, tokens[row], inputs[6].at_int(number),
                 std::span(likeliest).subspan(row * most, most),
                 std::span(logprobs).subspan(row * (most + 1), most + 1));
  }
  results.push_back(
      Tensor::from_ints(outputs[1].dtype, {rows, attrs.get_int("likeliest")}, likeliest));
  results.push_back(
      Tensor::from_doubles(outputs[2].dtype, {rows, attrs.get_int("likeliest") + 1}, logprobs));
  return results;
}

}  // namespace

std::vector<OpDef> sampling_ops() {
  OpDef sample;
  sample.name = "SampleTokens";
  sample.kind = OpKind::kLibrary;
  sample.kernel = "sampling";
  sample.min_inputs = 6;
  sample.max_inputs = 7;
  sample.attrs = {{"likeliest", AttrKind::kInt, Attr(std::int64_t{0})}};
  sample.infer = infer_sample;
  sample.evaluate = evaluate_sample;
  return {sample};
}

}  // namespace sinter::ir::ops
