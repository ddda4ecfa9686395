// SPDX-License-Identifier: Apache-2.0
// Rows of 8 bits with scales, against NumPy's: see goldens/make_scaled_rows.py.
#include "ir/scaled_rows.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "tests/support/paths.h"

namespace sinter::ir {
namespace {

/// Rows [n, d] of `type`, their scales and what they stand for.
std::vector<Tensor> rounded(const std::vector<float>& exact, std::int64_t columns, DType type) {
  const std::int64_t rows = std::ssize(exact) / columns;
  GraphBuilder builder("rows");
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim(rows), Dim(columns)}});
  const ScaledRows made = add_scaled_rows(builder, x, type);
  builder.output("values", made.values);
  builder.output("scales", made.scales);
  builder.output("meant", add_dequantized_rows(builder, made, DType::kFloat32));
  const std::vector<Tensor> given{Tensor::of(DType::kFloat32, {rows, columns}, exact)};
  return evaluate(builder.finish(), given);
}

TEST(ScaledRows, TakeTheScalesOfNumPy) {
  std::ifstream file(source_dir() + "/tests/ir/goldens/scaled_rows.json");
  const auto golden = nlohmann::json::parse(file);
  ASSERT_GT(golden.size(), 16u);
  std::vector<float> exact;
  for (const auto& row : golden)
    for (const double x : row.at("row").get<std::vector<double>>())
      exact.push_back(static_cast<float>(x));
  const auto columns = std::ssize(golden[0].at("row"));
  const auto found = rounded(exact, columns, DType::kFloat8E4M3FN);
  for (std::int64_t row = 0; row < std::ssize(golden); ++row) {
    const auto& expected = golden[static_cast<std::size_t>(row)];
    const double scale = expected.at("scale").get<double>();
    EXPECT_NEAR(found[1].at(row), scale, 1e-6 * scale) << "row " << row;
    const auto numbers = expected.at("numbers").get<std::vector<double>>();
    for (std::int64_t i = 0; i < columns; ++i)
      EXPECT_EQ(found[0].at(row * columns + i), numbers[static_cast<std::size_t>(i)])
          << "row " << row << ", column " << i;
  }
}

TEST(ScaledRows, OfOneSizeLoseNothing) {
  for (const float x : {3.0F, 0.1F, 1e-9F}) {
    const auto found = rounded({x, -x, x, x, 0, 0, x, 0}, 4, DType::kFloat8E4M3FN);
    const std::vector<double> wanted{x, -x, x, x, 0, 0, x, 0};
    for (std::int64_t i = 0; i < 8; ++i)
      EXPECT_NEAR(found[2].at(i), wanted[static_cast<std::size_t>(i)], 1e-6 * x) << x;
  }
}

TEST(ScaledRows, OfIntegersReachTheLargestNumber) {
  const auto found = rounded({1, -12.7F, 3.26F, 0}, 4, DType::kInt8);
  EXPECT_EQ(found[0].to_doubles(), (std::vector<double>{10, -127, 33, 0}));
  EXPECT_FLOAT_EQ(static_cast<float>(found[1].at(0)), 0.1F);
}

TEST(ScaledRows, WithoutNumbersStayWhatTheyAre) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const DType type : {DType::kFloat8E4M3FN, DType::kInt8}) {
    const auto found = rounded({0, 0, 0, 0, 1, nan, 2, 3}, 4, type);
    for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(found[0].at(i), 0) << i;
    EXPECT_EQ(found[1].at(0), 0x1p-100);
    for (std::int64_t i = 4; i < 8; ++i) EXPECT_TRUE(std::isnan(found[2].at(i))) << i;
  }
}

TEST(ScaledRows, AreFoundByWhatMakesThem) {
  for (const DType type : {DType::kFloat8E4M3FN, DType::kInt8})
    for (const bool other : {false, true}) {
      GraphBuilder builder("rows");
      const ValueId x = builder.input("x", {DType::kFloat16, {Dim(3), Dim(16)}});
      const ValueId exact = builder.add("Neg", {x});
      ScaledRows made = add_scaled_rows(builder, exact, type);
      if (other) made.scales = builder.add("Neg", {made.scales});
      builder.output("scales", made.scales);
      builder.output("values", made.values);
      const Graph graph = builder.finish();
      const auto before =
          rows_before_rounding(graph, {graph.outputs()[1], graph.outputs()[0]}, DType::kFloat16);
      ASSERT_EQ(before.has_value(), !other);
      if (!before) continue;
      ASSERT_EQ(before->outputs().size(), 1u);
      EXPECT_EQ(to_string(before->type(before->outputs()[0])), "f16[3, 16]");
      EXPECT_LE(before->nodes().size(), 3u);
    }
}

}  // namespace
}  // namespace sinter::ir
