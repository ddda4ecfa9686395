// SPDX-License-Identifier: Apache-2.0
// Operands of SampleTokens that try each parameter, alone and with others.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ir/tensor.h"

namespace sinter::test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct SampledRow {
  double temperature = 1, top_p = 1, least_score = -kInfinity, penalty = 1;
  std::int64_t top_k = 0, allowed = -1, seen = -1, first_bias = 0, biases = 0;
};

// Each alone and some together; rows and biases that there are not.
inline std::vector<SampledRow> rows_to_draw() {
  return {{.temperature = 0},
          {.temperature = 0, .allowed = 0},
          {.temperature = 0, .penalty = 3, .seen = 1},
          {.temperature = 0, .first_bias = 0, .biases = 3},
          {},
          {.temperature = 0.3},
          {.top_k = 1},
          {.top_k = 40},
          {.top_k = 700, .allowed = 0},
          {.top_k = std::int64_t{1} << 40},
          {.top_p = 0.02},
          {.top_p = 0.5},
          {.top_p = 0.999999},
          {.temperature = 2, .top_p = 0.9, .top_k = 300},
          {.temperature = 2, .top_p = 0.9, .least_score = -1, .top_k = 300},
          {.least_score = 0},
          {.least_score = 1},
          {.top_p = -1},
          {.top_p = NAN, .least_score = NAN},
          {.temperature = kInfinity},
          {.temperature = NAN},
          {.top_p = 0.7, .penalty = 1.7, .allowed = 0, .seen = 1, .first_bias = 3, .biases = 2},
          {.allowed = 2},  // none
          {.allowed = 99, .seen = -7, .first_bias = -2, .biases = 4},
          {.first_bias = 4, .biases = std::numeric_limits<std::int64_t>::max()}};
}

inline ir::Tensor logits_of(DType dtype, std::int64_t rows, std::int64_t count, int kind) {
  std::mt19937 random(static_cast<unsigned>(count + kind));
  std::normal_distribution<double> normal(0, 3);
  std::vector<double> values;
  for (std::int64_t i = 0; i < rows * count; ++i) {
    const double x = normal(random);
    // Distinct; few different ones; all equal; infinities among them.
    values.push_back(kind == 0   ? x
                     : kind == 1 ? std::round(x)
                     : kind == 2 ? 0.25
                                 : (i % 5 == 0 ? -kInfinity : x));
  }
  return ir::Tensor::from_doubles(dtype, {rows, count}, values);
}

inline std::vector<ir::Tensor> sampling_operands(DType dtype, std::int64_t count, int kind,
                                                 std::uint64_t seed) {
  const std::vector<SampledRow> rows = rows_to_draw();
  const auto size = static_cast<std::int64_t>(rows.size());
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  for (const SampledRow& row : rows) {
    for (const double x : {row.temperature, row.top_p, row.least_score, row.penalty})
      reals.push_back(x);
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    for (const std::int64_t x : {static_cast<std::int64_t>(seed), row.top_k, row.allowed, row.seen,
                                 row.first_bias, row.biases})
      integers.push_back(x);
  }
  std::mt19937 random(3);
  std::vector<std::int32_t> sets;
  const std::int64_t words = (count + 31) / 32;
  for (std::int64_t i = 0; i < 2 * words; ++i) sets.push_back(static_cast<std::int32_t>(random()));
  sets.insert(sets.end(), static_cast<std::size_t>(words), 0);
  const auto last = static_cast<std::int32_t>(count - 1);
  return {logits_of(dtype, size, count, kind),
          ir::Tensor::of<double>(DType::kFloat64, {size, 4}, reals),
          ir::Tensor::of<std::int64_t>(DType::kInt64, {size, 6}, integers),
          ir::Tensor::of<std::int32_t>(DType::kInt32, {3, words}, sets),
          ir::Tensor::of<std::int32_t>(DType::kInt32, {5}, {0, last / 2, last, 1, last}),
          ir::Tensor::of<float>(DType::kFloat32, {5}, {2, 40, -3, -2.5F, 30})};
}

/// How many log probabilities rows want in turn: none, the token's, some, more than there are.
inline std::int32_t wanted_of_row(std::int64_t row) {
  constexpr std::int32_t kWanted[] = {-1, 0, 1, 5, 20, 1000};
  return kWanted[row % 6];
}

/// The same with `wanted`.
inline std::vector<ir::Tensor> logprobs_operands(DType dtype, std::int64_t count, int kind,
                                                 std::uint64_t seed) {
  auto operands = sampling_operands(dtype, count, kind, seed);
  std::vector<std::int32_t> wanted;
  for (std::int64_t row = 0; row < operands[0].shape()[0]; ++row)
    wanted.push_back(wanted_of_row(row));
  operands.push_back(ir::Tensor::of<std::int32_t>(DType::kInt32, {std::ssize(wanted)}, wanted));
  return operands;
}

}  // namespace sinter::test
