// SPDX-License-Identifier: Apache-2.0
// The thresholds for columns as they come are the largest elements that the old ones let pass, by
// plain arithmetic here.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "fusion/transforms.h"

namespace sinter::fusion::test {
namespace {

template <typename T>
T scaled(T x, T mean, T scale, T divisor) {
  // Each result is stored, so that nothing is contracted.
  volatile T centred = x - mean;
  volatile T product = centred * scale;
  volatile T result = product / divisor;
  return result;
}

template <typename T>
void check(DType dtype, unsigned seed) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  constexpr std::int64_t kColumns = 4, kNodes = 400;
  std::vector<double> means, scales, thresholds;
  for (std::int64_t c = 0; c < kColumns; ++c) {
    means.push_back(static_cast<T>(normal(random) * std::pow(10, c)));
    scales.push_back(static_cast<T>(std::exp(4 * normal(random))));
  }
  const T divisor = static_cast<T>(0.3);
  std::vector<std::int64_t> nodes;
  for (std::int64_t i = 0; i < kNodes; ++i) {
    nodes.insert(nodes.end(), {i % 7 == 6 ? -1 : i % kColumns, i + 1, 0});
    thresholds.push_back(static_cast<T>(normal(random) * std::exp(5 * normal(random))));
  }
  thresholds[0] = 0;
  thresholds[1] = kInfinity;
  thresholds[2] = -kInfinity;
  thresholds[3] = std::numeric_limits<T>::max();
  thresholds[4] = std::numeric_limits<T>::denorm_min();
  const std::vector<ir::Tensor> inputs{
      ir::Tensor::from_ints(DType::kInt32, {kNodes, 3}, nodes),
      ir::Tensor::from_doubles(dtype, {kNodes}, thresholds),
      ir::Tensor::from_doubles(dtype, {kColumns}, means),
      ir::Tensor::from_doubles(dtype, {kColumns}, scales),
      ir::Tensor::from_doubles(dtype, {}, std::vector<double>{divisor})};
  const auto made =
      ir::apply(kFoldedThresholds,
                {{"columns", kColumns}, {"operators", std::string("Sub Mul Div")}}, inputs);
  ASSERT_EQ(made[0].at(0), 1);
  for (std::int64_t i = 0; i < kNodes; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto found = static_cast<T>(made[1].at(i)), threshold = static_cast<T>(thresholds[at]);
    if (nodes[3 * at] < 0) {
      EXPECT_EQ(found, threshold) << "a leaf's";
      continue;
    }
    const auto column = static_cast<std::size_t>(nodes[3 * at]);
    const auto of = [&](T x) {
      return scaled(x, static_cast<T>(means[column]), static_cast<T>(scales[column]), divisor);
    };
    EXPECT_LE(of(found), threshold) << "node " << i;
    if (found != kInfinity) {
      EXPECT_GT(of(std::nextafter(found, kInfinity)), threshold) << "node " << i;
    }
  }
}

TEST(FoldThresholds, AreTheLargestElementsThatPass) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    check<float>(DType::kFloat32, seed);
    check<double>(DType::kFloat64, seed);
  }
}

TEST(FoldThresholds, StayWhereTheOrderDoesNot) {
  const auto keeps = [](const std::string& op, double number) {
    const std::vector<ir::Tensor> inputs{
        ir::Tensor::from_ints(DType::kInt32, {1, 3}, std::vector<std::int64_t>{0, 1, 0}),
        ir::Tensor::from_doubles(DType::kFloat32, {1}, std::vector<double>{1}),
        ir::Tensor::from_doubles(DType::kFloat32, {1}, std::vector<double>{number})};
    return ir::apply(kFoldedThresholds, {{"columns", std::int64_t{1}}, {"operators", op}},
                     inputs)[0]
               .at(0) == 1;
  };
  EXPECT_TRUE(keeps("Mul", 2));
  EXPECT_TRUE(keeps("Add", -2));
  for (const double number : {0.0, -2.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_FALSE(keeps("Mul", number)) << number;
    EXPECT_FALSE(keeps("Div", number)) << number;
  }
  EXPECT_FALSE(keeps("Sub", std::nan("")));
}

}  // namespace
}  // namespace sinter::fusion::test
