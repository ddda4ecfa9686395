// SPDX-License-Identifier: Apache-2.0
// Which keys a query of Attention sees, opsets 23 to 25: with queries of zeros, the mean of their
// values.
#include <cmath>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/ops/node_context.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using ir::Tensor;
using testing::HasSubstr;

struct Seen {
  int queries = 1, keys = 4;
  std::vector<Attribute> attributes = {};
  std::optional<std::int64_t> valid = {};  // nonpad_kv_seqlen
  std::optional<Tensor> mask = {};
  int past = 0;
  int opset = 25;
  double query = 0;

  ModelBuilder model() const {
    ModelBuilder builder(opset);
    builder.input("q", DType::kFloat32, {1, 1, queries, 2})
        .input("k", DType::kFloat32, {1, 1, keys, 2});
    builder.input("v", DType::kFloat32, {1, 1, keys, 1});
    std::vector<std::string> names = {"q", "k", "v", "", "", "", ""};
    if (mask) {
      std::vector<ModelDim> dims;
      for (const auto dim : mask->shape()) dims.emplace_back(static_cast<int>(dim));
      builder.input(names[3] = "mask", mask->dtype(), dims);
    }
    if (past > 0) {
      builder.input(names[4] = "pk", DType::kFloat32, {1, 1, past, 2});
      builder.input(names[5] = "pv", DType::kFloat32, {1, 1, past, 1});
    }
    if (valid) builder.input(names[6] = "valid", DType::kInt64, {1});
    while (names.back().empty()) names.pop_back();
    std::vector<std::string> outputs = {"y", "", "", "weights"};
    std::vector<Attribute> all = attributes;
    all.push_back(attr("qk_matmul_output_mode", 3));
    builder.node("Attention", names, outputs, all).output("y").output("weights");
    return builder;
  }

  std::vector<double> run() const {
    const double nothing = query;
    std::vector<Tensor> inputs = {ramp({1, 1, queries, 2}, nothing, 0), ramp({1, 1, keys, 2}, 1, 0),
                                  ramp({1, 1, keys, 1}, past + 1)};
    if (mask) inputs.push_back(*mask);
    if (past > 0) {
      inputs.push_back(ramp({1, 1, past, 2}, 1, 0));
      inputs.push_back(ramp({1, 1, past, 1}, 1));
    }
    if (valid) inputs.push_back(int64s({1}, {*valid}));
    const std::vector<Tensor> results = model().run(inputs);
    // The weights are those of the result.
    std::vector<double> sums(static_cast<std::size_t>(queries), 0);
    const std::int64_t all = keys + past;
    for (std::int64_t i = 0; i < queries * all; ++i)
      sums[static_cast<std::size_t>(i / all)] +=
          results[1].at(i) * static_cast<double>(i % all + 1);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (std::isnan(sums[i])) continue;
      EXPECT_NEAR(results[0].at(static_cast<std::int64_t>(i)), sums[i], 1e-5);
    }
    return results[0].to_doubles();
  }
};

using testing::ElementsAre;
auto near(double value) { return testing::DoubleNear(value, 1e-5); }

TEST(AttentionPlaces, CausalEndsAtTheLastValidKey) {
  const std::vector<Attribute> causal = {attr("is_causal", 1)};
  EXPECT_THAT((Seen{1, 4, causal, 3, {}, 0, 24}.run()),
              ElementsAre(near(2)));  // not the first key alone
  EXPECT_THAT((Seen{2, 4, causal, 3}.run()), ElementsAre(near(1.5), near(2)));
  EXPECT_THAT((Seen{2, 4, causal, 2}.run()), ElementsAre(near(1), near(1.5)));
  // More queries than keys: the first see none.
  EXPECT_THAT((Seen{3, 4, causal, 1}.run()), ElementsAre(0, 0, near(1)));
  EXPECT_THAT((Seen{2, 4, {}, 3}.run()), ElementsAre(near(2), near(2)));
  EXPECT_THAT((Seen{2, 2, causal, {}, {}, 2}.run()), ElementsAre(near(2), near(2.5)));
  EXPECT_THAT((Seen{2, 4, causal}.run()), ElementsAre(near(1), near(1.5)));
}

TEST(AttentionPlaces, RowsThatSeeNothingAreZero) {
  for (const int opset : {23, 24, 25}) {
    const Tensor mask = bools({3, 2}, {1, 1, 0, 0, 0, 1});
    EXPECT_THAT((Seen{3, 2, {}, {}, mask, 0, opset}.run()), ElementsAre(near(1.5), 0, near(2)));
    const Tensor added = floats({2, 2}, {0, 0, -kInfinity, -kInfinity});
    EXPECT_THAT((Seen{2, 2, {}, {}, added, 0, opset}.run()), ElementsAre(near(1.5), 0));
  }
  EXPECT_THAT((Seen{1, 3, {}, 0}.run()), ElementsAre(0));
  // What is no number stays none.
  const Tensor mask = bools({2, 2}, {1, 1, 0, 0});
  Seen poisoned{2, 2, {}, {}, mask};
  poisoned.query = std::nan("");
  const std::vector<double> y = poisoned.run();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0);
}

TEST(AttentionPlaces, Windows) {
  const auto window = [](int left, int right) {
    return std::vector<Attribute>{attr("left_window_size", left), attr("right_window_size", right)};
  };
  EXPECT_THAT((Seen{4, 4, window(1, 0)}.run()),
              ElementsAre(near(1), near(1.5), near(2.5), near(3.5)));
  EXPECT_THAT((Seen{4, 4, window(-1, 1)}.run()),
              ElementsAre(near(1.5), near(2), near(2.5), near(2.5)));
  EXPECT_THAT((Seen{4, 4, window(0, 0)}.run()), ElementsAre(near(1), near(2), near(3), near(4)));
  EXPECT_THAT((Seen{4, 4, window(-1, -1)}.run()),
              ElementsAre(near(2.5), near(2.5), near(2.5), near(2.5)));
  // Causal cuts off what the window has on the right.
  std::vector<Attribute> causal = window(1, 2);
  causal.push_back(attr("is_causal", 1));
  EXPECT_THAT((Seen{4, 4, causal}.run()), ElementsAre(near(1), near(1.5), near(2.5), near(3.5)));
  // Places count from the past, and from the end of what is valid.
  EXPECT_THAT((Seen{2, 2, window(1, 0), {}, {}, 3}.run()), ElementsAre(near(3.5), near(4.5)));
  EXPECT_THAT((Seen{2, 6, window(1, 0), 4}.run()), ElementsAre(near(2.5), near(3.5)));
  EXPECT_THAT((Seen{2, 6, window(1, 1), 4}.run()), ElementsAre(near(3), near(3.5)));
  // Queries beyond the keys see none.
  EXPECT_THAT((Seen{4, 2, window(0, 0)}.run()), ElementsAre(near(1), near(2), 0, 0));
  EXPECT_THAT((Seen{1, 4, window(-2, 0)}.model().import_error(ErrorCode::kInvalidModel)),
              HasSubstr("'left_window_size' is -2"));
  EXPECT_THAT(
      (Seen{1, 4, window(1, 0), {}, {}, 0, 24}.model().import_error(ErrorCode::kInvalidModel)),
      HasSubstr("opsets from 25 on"));
  EXPECT_THAT((Seen{1, 4, {}, 2, {}, 2}.model().import_error(ErrorCode::kInvalidModel)),
              HasSubstr("past_key cannot be given with it"));
}

}  // namespace
}  // namespace sinter::frontend
