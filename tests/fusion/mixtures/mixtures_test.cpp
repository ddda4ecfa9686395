// SPDX-License-Identifier: Apache-2.0
// Mixtures that are spelled as a loop over experts: the same sums, whoever chooses which expert.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "fusion/passes/passes.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/fusion/support.h"
#include "tests/support/paths.h"

namespace sinter::fusion {
namespace {

constexpr std::int64_t kTokens = 5;

/// The graph of a golden of recognise_mixtures.
Graph spelled_out(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text;
  for (std::string line; std::getline(file, line) && line != "----";)
    if (!line.starts_with("//")) text += line + "\n";
  return ir::parse_graph(text);
}

Tensor matrix(const std::vector<double>& row, int seed) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kTokens * 3; ++i)
    values.push_back(row[static_cast<std::size_t>(i % 3)] +
                     static_cast<double>((i * 37 + seed * 11) % 17 - 8) / 16);
  return Tensor::from_doubles(DType::kFloat32, {kTokens, 3}, values);
}

std::vector<double> run(const Graph& graph, const Tensor& logits) {
  const std::vector<Tensor> inputs{matrix({0, 1, 2}, 1), logits, matrix({0, 0, 0}, 2)};
  return ir::evaluate(graph, inputs)[0].to_doubles();
}

TEST(Mixtures, AreTheSameWhoeverChoosesWhichExpert) {
  int recognised = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           source_dir() + std::string("/tests/fusion/goldens/recognise_mixtures"))) {
    const std::string name = entry.path().stem().string();
    // Without experts, or of other inputs.
    if (name.starts_with("routed_for") || name.starts_with("parts_of")) continue;
    const Graph graph = spelled_out(entry.path());
    Context context;
    context.target = codegen::cpu_target().traits();
    const Graph found = recognise_mixtures(graph, context);
    const bool is_grouped = std::ranges::any_of(
        found.nodes(), [](const Node& node) { return node.op->name == "GroupedMatMul"; });
    EXPECT_EQ(is_grouped, !name.starts_with("refused")) << name;
    EXPECT_EQ(context.decisions.empty(), name.ends_with("count")) << name;
    if (!is_grouped) continue;
    ++recognised;
    // Everybody alike; one expert for all, one for nobody; as the numbers fall.
    for (const std::vector<double>& row :
         {std::vector<double>{0, 0, 0}, {40, 20, 0}, {0, 20, 40}, {20, 0, 40}}) {
      const Tensor logits = matrix(row, 3);
      const auto expected = run(graph, logits), sums = run(found, logits);
      for (std::size_t i = 0; i < sums.size(); ++i)
        EXPECT_NEAR(sums[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << name;
    }
  }
  EXPECT_GE(recognised, 6);
}

TEST(Mixtures, NanConcernsItsTokenAlone) {
  const Graph graph = spelled_out(
      source_dir() +
      std::string("/tests/fusion/goldens/recognise_mixtures/loop_with_sums_by_index.txt"));
  Context context;
  context.target = codegen::cpu_target().traits();
  const Graph found = recognise_mixtures(graph, context);
  const Tensor logits = matrix({0, 0, 0}, 3);
  std::vector<double> broken = logits.to_doubles();
  broken[2 * 3 + 1] = std::numeric_limits<double>::quiet_NaN();
  const auto whole = run(found, logits),
             sums = run(found, Tensor::from_doubles(DType::kFloat32, {kTokens, 3}, broken));
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (i / 3 == 2)
      EXPECT_TRUE(std::isnan(sums[i]));
    else
      EXPECT_EQ(sums[i], whole[i]);
}

}  // namespace
}  // namespace sinter::fusion
