// SPDX-License-Identifier: Apache-2.0
// TreeEnsemble on the emulator: blocks of trees, rows in shared memory and
// not, one target and several, every combination, missing values.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "codegen/families/trees/emit_trees.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

struct TreeCase {
  std::int64_t rows, columns, trees, depth, targets, width;
  DType dtype = DType::kFloat32;
  Combine combine = Combine::kSum;
};

/// Balanced trees of random columns and thresholds, some of whose branches end early.
std::vector<ir::Tensor> tables_of(const TreeCase& test) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  std::vector<double> x, thresholds, weights;
  for (std::int64_t i = 0; i < test.rows * test.columns; ++i)
    x.push_back(i % 9 == 4 ? std::nan("") : std::round(4 * normal(random)) / 4);
  std::vector<std::int64_t> nodes, trees;
  std::int64_t leaves = 0;
  for (std::int64_t tree = 0; tree < test.trees; ++tree) {
    const auto root = static_cast<std::int64_t>(thresholds.size());
    trees.insert(trees.end(), {root, below(test.targets - test.width + 1)});
    std::vector<std::int64_t> depths{0};
    for (std::size_t i = 0; i < depths.size(); ++i) {
      const bool is_leaf = depths[i] == test.depth || (depths[i] > 1 && below(8) == 0);
      if (is_leaf) {
        nodes.insert(nodes.end(), {-1, leaves++, 0});
        for (std::int64_t w = 0; w < test.width; ++w) weights.push_back(normal(random));
      } else {
        nodes.insert(nodes.end(), {below(test.columns),
                                   root + static_cast<std::int64_t>(depths.size()), below(2)});
        depths.insert(depths.end(), 2, depths[i] + 1);
      }
      thresholds.push_back(std::round(4 * normal(random)) / 4);  // some rows hit them
    }
  }
  const auto count = static_cast<std::int64_t>(thresholds.size());
  return {ir::Tensor::from_doubles(test.dtype, {test.rows, test.columns}, x),
          ir::Tensor::from_ints(DType::kInt32, {count, 3}, nodes),
          ir::Tensor::from_doubles(test.dtype, {count}, thresholds),
          ir::Tensor::from_ints(DType::kInt32, {test.trees, 2}, trees),
          ir::Tensor::from_doubles(test.dtype, {leaves, test.width}, weights)};
}

TEST(Trees, KernelsGiveWhatTheReferenceGives) {
  const TreeCase cases[] = {
      {1, 1, 1, 0, 1, 1},     // a leaf
      {300, 5, 9, 4, 1, 1},   // more than a block of rows
      {1100, 3, 5, 5, 1, 1},  // more than the largest block of rows
      {70, 8, 40, 7, 1, 1},   // several blocks of trees
      {40, 4, 2, 11, 1, 1},   // trees that fit no block
      {33, 900, 6, 4, 1, 1},  // rows of many columns
      {3, 2, 1100, 2, 1, 1},  // more trees than threads share
      {50, 6, 12, 4, 5, 1},   // a tree for each target
      {50, 6, 7, 4, 3, 3},    // leaves with a weight for each target
      {50, 6, 7, 4, 4, 2, DType::kFloat32, Combine::kMin},
      {50, 6, 7, 4, 1, 1, DType::kFloat32, Combine::kMax},
      {50, 6, 7, 4, 2, 2, DType::kFloat64},
  };
  std::vector<codegen::EmittedKernel> kernels;
  std::vector<codegen::ExprTable> tables;
  std::vector<std::vector<ir::Tensor>> inputs;
  for (const TreeCase& test : cases) {
    inputs.push_back(tables_of(test));
    tables.push_back(codegen::ExprTable({{"n", ir::Range{0, 1 << 24}}}));
    codegen::TreeProblem problem;
    problem.x = 0;
    problem.nodes = 1;
    problem.thresholds = 2;
    problem.trees = 3;
    problem.weights = 4;
    problem.result = 5;
    problem.dtype = test.dtype;
    problem.rows = ir::Dim::symbol("n");
    problem.columns = test.columns;
    problem.node_count = inputs.back()[1].shape()[0];
    problem.tree_count = test.trees;
    problem.width = test.width;
    problem.targets = test.targets;
    problem.combine = test.combine;
    codegen::KernelRequest request;
    request.name = "trees_" + std::to_string(kernels.size());
    kernels.push_back(emit_trees(problem, request, tables.back()));
  }
  const auto schedules = [&](std::size_t c) {
    std::vector<std::string> texts;
    for (const auto& variant : kernels[c].step.variants) texts.push_back(variant->schedule);
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(schedules(1), (Texts{"trees threads=256 block_rows=1 rows=shared",
                                 "trees threads=256 block_rows=8 rows=shared",
                                 "trees threads=64 nodes=1536 rows=shared",
                                 "trees threads=512 nodes=1536 rows=shared"}));
  EXPECT_EQ(schedules(5), (Texts{"trees threads=256 block_rows=1 rows=shared",
                                 "trees threads=256 block_rows=8 rows=shared",
                                 "trees threads=64 nodes=1536 rows=global",
                                 "trees threads=256 nodes=1536 rows=global"}));
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < kernels.size(); ++c) {
    const TreeCase& test = cases[c];
    SCOPED_TRACE("case " + std::to_string(c));
    const ir::Tensor expected = ir::evaluate_op(
        ir::get_op("TreeEnsemble"),
        {{"targets", test.targets}, {"combine", std::string(to_string(test.combine))}},
        inputs[c])[0];
    plan::fb::PlanT plan;
    tables[c].write(plan);
    const std::vector<std::int64_t> symbols(plan.symbols.size(), test.rows);
    const auto values = plan::evaluate_expressions(plan, symbols);
    std::vector<std::byte> first;
    for (std::size_t variant = 0; variant < kernels[c].step.variants.size(); ++variant) {
      SCOPED_TRACE(kernels[c].step.variants[variant]->schedule);
      Memory memory(6);
      for (std::size_t i = 0; i < 5; ++i)
        memory[i].assign(inputs[c][i].bytes().begin(), inputs[c][i].bytes().end());
      memory[5].assign(expected.bytes().size(), std::byte{0xa5});
      library.run(kernels[c].step, variant, values, memory);
      for (std::int64_t i = 0; i < expected.element_count(); ++i) {
        const double got = ir::load_as_double(
            test.dtype, &memory[5][static_cast<std::size_t>(i) * size_of(test.dtype)]);
        ASSERT_NEAR(got, expected.at(i), 1e-5 * std::max(1.0, std::abs(expected.at(i))))
            << "element " << i;
      }
      if (variant == 0) first = memory[5];
      EXPECT_EQ(memory[5], first) << "other bits than the first variant's";
    }
  }
}

}  // namespace
}  // namespace sinter::test
#endif
