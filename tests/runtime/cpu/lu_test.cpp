// SPDX-License-Identifier: Apache-2.0
// Determinants and inverses on the CPU: a matrix times its inverse, determinants of known factors.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {
namespace {

std::vector<double> run_lu(const char* name, DType type, std::int64_t count, std::int64_t n,
                           const std::vector<double>& values, int threads) {
  PlanBuilder b;
  const Id matrices = b.constant(count), rows = b.constant(n);
  const bool is_inverse = std::string(name) == "inverse";
  const std::vector<Id> square = {matrices, rows, rows};
  b.call(name, {b.input_of("x", type, square)},
         {b.output_of("y", type, is_inverse ? square : std::vector<Id>{matrices})});
  SessionOptions options;
  options.threads = threads;
  Session session(b.build(), options);
  std::vector<std::byte> bytes(values.size() * size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i)
    set_element(type, bytes, static_cast<std::int64_t>(i), values[i]);
  session.set_input("x", TensorView{type, {count, n, n}, bytes.data(), Memory::kHost});
  session.run();
  const TensorView found = session.output("y");
  std::vector<double> results(static_cast<std::size_t>(is_inverse ? count * n * n : count));
  const auto* const data = static_cast<const std::byte*>(found.data);
  const std::vector<std::byte> bytes_found(data, data + results.size() * size_of(type));
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = element(type, bytes_found, static_cast<std::int64_t>(i));
  return results;
}

/// The product of a unit lower and an upper triangle, its rows in another order; and its
/// determinant.
std::vector<double> known_matrix(std::int64_t n, std::mt19937& random, double& determinant) {
  std::normal_distribution<double> normal;
  const double scale = 0.5 / std::sqrt(static_cast<double>(n) + 1);
  std::vector<double> lower(static_cast<std::size_t>(n * n)), upper = lower, a = lower;
  determinant = 1;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j);
      if (j < i) lower[at] = normal(random) * scale;
      if (j > i) upper[at] = normal(random) * scale;
      if (i != j) continue;
      lower[at] = 1;
      upper[at] = (i % 3 == 0 ? -1 : 1) * (1 + 0.01 * static_cast<double>(i % 7));
      determinant *= upper[at];
    }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t k = 0; k <= std::min(i, j); ++k)
        a[static_cast<std::size_t>(i * n + j)] +=
            lower[static_cast<std::size_t>(i * n + k)] * upper[static_cast<std::size_t>(k * n + j)];
  for (std::int64_t i = 0; i + 1 < n; i += 2) {
    std::swap_ranges(a.begin() + i * n, a.begin() + (i + 1) * n, a.begin() + (i + 1) * n);
    determinant = -determinant;
  }
  return a;
}

class CpuLu : public ::testing::TestWithParam<DType> {};

TEST_P(CpuLu, FactorsMatrices) {
  const DType type = GetParam();
  const double most = type == DType::kFloat64   ? 1e-10
                      : type == DType::kFloat32 ? 2e-4
                      : type == DType::kFloat16 ? 2e-2
                                                : 1e-1;
  for (const auto& [count, n] : {std::pair<std::int64_t, std::int64_t>{3, 1},
                                 {2, 2},
                                 {5, 7},
                                 {4, 16},
                                 {3, 17},
                                 {2, 65},
                                 {1, 130},
                                 {1, 260},
                                 {0, 4}})
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(n) + " rows, " +
                   std::to_string(threads) + " threads");
      std::mt19937 random(3);
      std::vector<double> all, determinants;
      for (std::int64_t m = 0; m < count; ++m) {
        const auto a = known_matrix(n, random, determinants.emplace_back());
        all.insert(all.end(), a.begin(), a.end());
      }
      const auto found = run_lu("determinant", type, count, n, all, threads);
      for (std::size_t m = 0; m < found.size(); ++m)
        EXPECT_NEAR(found[m], determinants[m],
                    most * static_cast<double>(n) * std::abs(determinants[m]));
      const auto inverse = run_lu("inverse", type, count, n, all, threads);
      for (std::int64_t m = 0; m < count; ++m)
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::int64_t k = 0; k < n; ++k)
              sum += all[static_cast<std::size_t>((m * n + i) * n + k)] *
                     inverse[static_cast<std::size_t>((m * n + k) * n + j)];
            ASSERT_NEAR(sum, i == j ? 1 : 0, 10 * most) << m << " " << i << " " << j;
          }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, CpuLu,
                         ::testing::Values(DType::kFloat32, DType::kFloat64, DType::kFloat16,
                                           DType::kBFloat16));

TEST(CpuLu, SingularMatricesAndNan) {
  for (const std::int64_t n : {2, 40, 200}) {
    std::vector<double> zeros(static_cast<std::size_t>(n * n)), hole = zeros;
    for (std::int64_t i = 0; i < n; ++i) hole[static_cast<std::size_t>(i * n + i)] = 1;
    std::vector<double> singular = hole;
    singular[0] = 0;
    hole[static_cast<std::size_t>(n)] = NAN;
    EXPECT_EQ(run_lu("determinant", DType::kFloat32, 1, n, zeros, 2)[0], 0);
    EXPECT_EQ(run_lu("determinant", DType::kFloat32, 1, n, singular, 2)[0], 0);
    EXPECT_TRUE(std::isnan(run_lu("determinant", DType::kFloat32, 1, n, hole, 2)[0]));
    for (const auto& x : {zeros, singular, hole})
      for (const double value : run_lu("inverse", DType::kFloat64, 1, n, x, 2))
        ASSERT_TRUE(std::isnan(value)) << n;
  }
}

TEST(CpuLu, OfNoRows) {
  EXPECT_EQ(run_lu("determinant", DType::kFloat32, 3, 0, {}, 2), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(run_lu("inverse", DType::kFloat32, 3, 0, {}, 2), std::vector<double>{});
}

}  // namespace
}  // namespace sinter::testing
