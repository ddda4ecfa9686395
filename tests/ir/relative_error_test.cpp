// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/relative_error.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace sinter::ir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLowest = std::numeric_limits<float>::lowest();

Tensor vector_of(const std::vector<double>& values, DType type = DType::kFloat32) {
  return Tensor::from_doubles(type, {std::ssize(values)}, values);
}

double off_by(const std::vector<double>& found, const std::vector<double>& exact,
              DType type = DType::kFloat32) {
  RelativeError error;
  error.add(vector_of(found, type), vector_of(exact, type));
  return error.value();
}

/// `values` with a tenth more at each, and then those of `masked` where a mask is.
struct MaskedPair {
  std::vector<double> found, exact;
};
MaskedPair masked_with(const std::vector<double>& values, const std::vector<double>& masked) {
  MaskedPair result{{}, values};
  for (const double value : values) result.found.push_back(1.1 * value);
  for (const double value : masked) {
    result.found.push_back(value);
    result.exact.push_back(value);
  }
  return result;
}

TEST(RelativeError, IsOfTheTwoNorm) {
  EXPECT_EQ(off_by({1, 2, 3}, {1, 2, 3}), 0);
  EXPECT_EQ(off_by({}, {}), 0);
  EXPECT_DOUBLE_EQ(off_by({3, 5}, {3, 4}), 0.2);
  EXPECT_EQ(off_by({0, 1}, {0, 0}), kInfinity);
  RelativeError both;  // of all pairs
  both.add(vector_of({3}), vector_of({3}));
  both.add(vector_of({5}), vector_of({4}));
  EXPECT_DOUBLE_EQ(both.value(), 0.2);
}

TEST(RelativeError, IsOfWhatWasComputed) {
  const std::vector<double> values = {1, -2, 0.5, 0, 30};
  for (const double fill : {-1e4, 1e4, -65504.0, -1e9, kLowest, -kInfinity, std::nan("")}) {
    for (const std::size_t count : {1, 100}) {
      const auto [found, exact] = masked_with(values, std::vector<double>(count, fill));
      EXPECT_NEAR(off_by(found, exact), 0.1, 1e-6) << fill << " " << count;
    }
  }
  const auto [found, exact] = masked_with(values, {-1e4, -2e4, kLowest, -kInfinity});
  EXPECT_NEAR(off_by(found, exact), 0.1, 1e-6) << "several masks";
  EXPECT_NEAR(off_by({1.1, 2.2, -65504}, {1, 2, -65504}, DType::kFloat16), 0.1, 2e-3);
  EXPECT_NEAR(off_by({1.1, -1e300}, {1, -1e300}, DType::kFloat64), 0.1, 1e-6);
}

TEST(RelativeError, LeavesOutWhatAMaskIsAddedTo) {
  // The masked logits are as far off as the others.
  std::vector<double> found, exact;
  for (int i = 0; i < 64; ++i) {
    const double logit = std::sin(i), mask = i % 4 == 0 ? -1e4 : 0;
    exact.push_back(logit + mask);
    found.push_back(logit + mask + 0.05 * std::cos(7 * i));
  }
  EXPECT_NEAR(off_by(found, exact), 0.05, 0.02);
}

TEST(RelativeError, CountsLargeElementsThatWereComputed) {
  // As much off as the others, or with others in between.
  EXPECT_NEAR(off_by({1.01, 9090}, {1, 9000}), 0.01, 1e-6);
  EXPECT_LT(off_by({1.1, 900, 9000}, {1, 900, 9000}), 1e-4);
  // Of no mask's size.
  EXPECT_LT(off_by({1.1, 600}, {1, 600}), 1e-3);
  // Nothing else is off, or is there.
  EXPECT_EQ(off_by({1, 9000}, {1, 9000}), 0);
  EXPECT_NEAR(off_by({-1e4, -1.1e4}, {-1e4, -1e4}), std::sqrt(0.005), 1e-6);
  EXPECT_LT(off_by({1e-9, 9000}, {0, 9000}), 1e-9);
}

TEST(RelativeError, IsInfiniteWhereOneHasNoNumber) {
  EXPECT_EQ(off_by({1, std::nan("")}, {1, 2}), kInfinity);
  EXPECT_EQ(off_by({1, 2}, {1, kInfinity}), kInfinity);
  EXPECT_EQ(off_by({kInfinity}, {-kInfinity}), kInfinity);
  RelativeError shapes;
  shapes.add(vector_of({1, 2}), vector_of({1}));
  EXPECT_EQ(shapes.value(), kInfinity);
}

TEST(RelativeError, KnowsWhatRoundingHasNotTouched) {
  const auto rounding_error = [](const std::vector<double>& found,
                                 const std::vector<double>& exact) {
    RelativeError error(RelativeError::Pairs::kRounding);
    error.add(vector_of(found), vector_of(exact));
    return error.value();
  };
  EXPECT_NEAR(rounding_error({1.1, 2.2, -100}, {1, 2, -100}), 0.1, 1e-6);
  EXPECT_NEAR(rounding_error({1.1, 2.2, -1e4}, {1, 2, -1e4}), 0.1, 1e-6);
  // Probabilities have no masks, and what is off is none.
  EXPECT_LT(rounding_error({1.1e-3, 1}, {1e-3, 1}), 1e-3);
  EXPECT_LT(rounding_error({1.1, 2.2, -100.01}, {1, 2, -100}), 0.01);
}

TEST(RelativeError, CountsIntegersThatRoundingChanges) {
  const Tensor found = vector_of({50000, 3, 2, 1}, DType::kInt64),
               exact = vector_of({50001, 3, 2, 1}, DType::kInt64);
  RelativeError numbers, counted(RelativeError::Pairs::kRounding);
  numbers.add(found, exact);
  counted.add(found, exact);
  EXPECT_NEAR(numbers.value(), 2e-5, 1e-6);
  EXPECT_DOUBLE_EQ(counted.value(), 0.5);  // of four elements one
}

}  // namespace
}  // namespace sinter::ir
