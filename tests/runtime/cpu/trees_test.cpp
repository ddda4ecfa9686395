// SPDX-License-Identifier: Apache-2.0
// Decision trees on the CPU against going down them one by one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "tests/runtime/plan/plan_builder.h"
#include "tests/support/elements.h"

namespace sinter::testing {
namespace {

struct TreeCase {
  std::int64_t rows, columns, trees, depth, targets = 1, width = 1;
  Combine combine = Combine::kSum;
  bool missing = true;
};

struct Tables {
  std::vector<std::int32_t> nodes, trees;
  std::vector<double> thresholds, weights;
};

/// Random trees, some of whose branches end early; every other one leads right alone.
Tables tables_of(const TreeCase& test) {
  std::mt19937 random(3);
  const auto below = [&](std::int64_t n) { return static_cast<std::int32_t>(random() % n); };
  Tables t;
  std::int32_t leaves = 0;
  for (std::int64_t tree = 0; tree < test.trees; ++tree) {
    const auto root = static_cast<std::int32_t>(t.thresholds.size());
    t.trees.insert(t.trees.end(), {root, below(test.targets - test.width + 1)});
    std::vector<std::int64_t> depths{0};
    for (std::size_t i = 0; i < depths.size(); ++i) {
      const bool is_thin = tree % 2 == 1 && i % 2 == 1;
      if (depths[i] == test.depth || is_thin || (depths[i] > 2 && below(9) == 0)) {
        t.nodes.insert(t.nodes.end(), {-1, leaves++, 0});
        for (std::int64_t w = 0; w < test.width; ++w) t.weights.push_back(below(200) / 8.0 - 12);
      } else {
        const auto first = root + static_cast<std::int32_t>(depths.size());
        t.nodes.insert(t.nodes.end(), {below(test.columns), first, below(2)});
        depths.insert(depths.end(), 2, depths[i] + 1);
      }
      t.thresholds.push_back(below(9) / 2.0 - 2);
    }
  }
  return t;
}

Plan tree_plan(const TreeCase& test, DType type, const Tables& tables) {
  PlanBuilder b;
  const auto floats = [&](const std::vector<double>& values) {
    std::vector<std::byte> bytes(values.size() * size_of(type));
    for (std::size_t i = 0; i < values.size(); ++i)
      set_element(type, bytes, static_cast<std::int64_t>(i), values[i]);
    return b.weight_bytes(type, bytes.data(), bytes.size());
  };
  const Id rows = b.constant(test.rows);
  const auto count = [&](std::size_t size) { return b.constant(static_cast<std::int64_t>(size)); };
  const Id nodes = count(tables.thresholds.size()), width = b.constant(test.width);
  b.call("trees",
         {b.input_of("x", type, {rows, b.constant(test.columns)}),
          {b.weight(DType::kInt32, tables.nodes), {nodes, b.constant(3)}},
          {floats(tables.thresholds), {nodes}},
          {b.weight(DType::kInt32, tables.trees), {count(tables.trees.size() / 2), b.constant(2)}},
          {floats(tables.weights),
           {count(tables.weights.size() / static_cast<std::size_t>(test.width)), width}}},
         {b.output_of("y", type, {rows, b.constant(test.targets)})},
         {{"combine", static_cast<std::int64_t>(test.combine)}});
  return b.build();
}

std::vector<double> expected_of(const TreeCase& test, DType type, const Tables& t,
                                const std::vector<std::byte>& x) {
  std::vector<double> y(static_cast<std::size_t>(test.rows * test.targets), NAN);
  for (std::int64_t row = 0; row < test.rows; ++row)
    for (std::size_t tree = 0; tree < t.trees.size(); tree += 2) {
      auto at = static_cast<std::size_t>(t.trees[tree]);
      while (t.nodes[3 * at] >= 0) {
        const double value = element(type, x, row * test.columns + t.nodes[3 * at]);
        const bool first = std::isnan(value) ? t.nodes[3 * at + 2] == 1 : value <= t.thresholds[at];
        at = static_cast<std::size_t>(t.nodes[3 * at + 1] + (first ? 0 : 1));
      }
      for (std::int64_t w = 0; w < test.width; ++w) {
        double& to = y[static_cast<std::size_t>(row * test.targets + t.trees[tree + 1] + w)];
        const double weight =
            t.weights[static_cast<std::size_t>(t.nodes[3 * at + 1] * test.width + w)];
        to = std::isnan(to)                  ? weight
             : test.combine == Combine::kSum ? to + weight
             : test.combine == Combine::kMin ? std::min(to, weight)
                                             : std::max(to, weight);
      }
    }
  for (double& value : y)
    if (std::isnan(value)) value = 0;
  return y;
}

/// Weights are multiples of an eighth, so that sums are exact in any order and type.
TEST(CpuTrees, GiveWhatTheirLeavesSay) {
  const TreeCase cases[] = {
      {1, 3, 40, 5},      // a row down 16 trees at a time
      {7, 3, 40, 5},      // less than eight rows
      {9, 1, 1, 0},       // a leaf
      {1500, 20, 30, 6},  // several parts of several blocks
      {1500, 20, 30, 6, 1, 1, Combine::kSum, false},
      {130, 5, 21, 5, 6},     // targets of their own; some may have no tree
      {130, 5, 21, 5, 4, 3},  // leaves of several weights
      {130, 5, 9, 5, 3, 1, Combine::kMin},
      {130, 5, 9, 5, 3, 2, Combine::kMax},
      {70, 40000, 6, 4},  // columns that a narrow node has no room for
      {20, 6, 2, 17},     // successors too far ahead for one
      {3000, 8, 400, 7},  // several blocks of trees
  };
  for (const DType type : {DType::kFloat32, DType::kFloat64})
    for (const TreeCase& test : cases)
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(std::to_string(test.rows) + " rows, " + std::to_string(test.trees) + " trees");
        const Tables tables = tables_of(test);
        std::vector<std::byte> x(static_cast<std::size_t>(test.rows * test.columns) *
                                 size_of(type));
        std::mt19937 random(9);
        for (std::int64_t i = 0; i < test.rows * test.columns; ++i) {
          const auto draw = static_cast<int>(random() % 40);
          set_element(type, x, i,
                      draw == 0                   ? INFINITY
                      : draw == 1                 ? -INFINITY
                      : draw == 2 && test.missing ? NAN
                                                  : draw / 4.0 - 5);
        }
        SessionOptions options;
        options.threads = threads;
        Session session(tree_plan(test, type, tables), options);
        session.set_input("x",
                          TensorView{type, {test.rows, test.columns}, x.data(), Memory::kHost});
        session.run();
        const TensorView found = session.output("y");
        const auto expected = expected_of(test, type, tables, x);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const double got = type == DType::kFloat32 ? static_cast<const float*>(found.data)[i]
                                                     : static_cast<const double*>(found.data)[i];
          ASSERT_EQ(got, expected[i]) << "element " << i;
        }
      }
}

std::string error_of(const Tables& tables) {
  const TreeCase test{8, 2, 1, 1};
  try {
    Session session(tree_plan(test, DType::kFloat32, tables));
    const std::vector<float> x(16, 0);
    session.set_input("x", TensorView{DType::kFloat32, {8, 2}, x.data(), Memory::kHost});
    session.run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    return error.what();
  }
  return "";
}

TEST(CpuTrees, TablesOfAPlanAreNotTrusted) {
  using ::testing::HasSubstr;
  const Tables good{{0, 1, 0, -1, 0, 0, -1, 1, 0}, {0, 0}, {1, 0, 0}, {5, 6}};
  EXPECT_EQ(error_of(good), "");
  for (const auto& [place, value] : {std::pair{0, 2}, {1, 0}, {1, 2}, {4, 2}, {4, -1}}) {
    Tables bad = good;
    bad.nodes[static_cast<std::size_t>(place)] = value;
    EXPECT_THAT(error_of(bad), HasSubstr("of its trees has column")) << place << " " << value;
  }
  for (const auto& [place, value] : {std::pair{0, 3}, {0, -1}, {1, 1}}) {
    Tables bad = good;
    bad.trees[static_cast<std::size_t>(place)] = value;
    EXPECT_THAT(error_of(bad), HasSubstr("its tree 0 has nodes")) << place << " " << value;
  }
}

}  // namespace
}  // namespace sinter::testing
