// SPDX-License-Identifier: Apache-2.0
// Sessions on the CPU take other weights between runs.
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter_c.h>

#include "tests/runtime/api/api_plans.h"
#include "tests/runtime/cpu/conv_case.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kDepth = 96, kColumns = 80;

std::vector<float> floats(std::size_t count, int seed) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  std::uniform_real_distribution<float> some(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = some(random);
  return values;
}

template <typename T>
std::vector<T> numbers(std::size_t count, int seed) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(random());
  return values;
}

/// y[m, n] = x[m, k] w[k, n] + b[n]: by panels of our own for few rows, by oneDNN for many.
PlanBuilder product(int seed) {
  PlanBuilder p;
  const Id m = p.symbol("m"), k = p.constant(kDepth), n = p.constant(kColumns), one = p.constant(1);
  fb::MatmulStepT work;
  work.m = m;
  work.k = k;
  work.n = n;
  work.a = p.matrix(p.input("x", DType::kFloat32, {m, k}), k, one);
  work.b = p.matrix(p.weight(DType::kFloat32, floats(kDepth * kColumns, seed)), n, one);
  work.d = p.matrix(p.output("y", DType::kFloat32, {m, n}), n, one);
  work.bias = static_cast<int>(p.weight(DType::kFloat32, floats(kColumns, seed + 1)));
  p.matmul("product", std::move(work));
  return p;
}

/// The same with weights of 8 bits and zero points.
PlanBuilder quantized(int seed) {
  PlanBuilder p;
  constexpr std::int64_t kGroup = 32, kGroups = kDepth / kGroup;
  const Id m = p.symbol("m"), k = p.constant(kDepth), n = p.constant(kColumns), one = p.constant(1);
  fb::MatmulStepT work;
  work.m = m;
  work.k = k;
  work.n = n;
  work.a = p.matrix(p.input("x", DType::kFloat32, {m, k}), k, one);
  work.b = p.matrix(p.weight(DType::kInt8, numbers<std::int8_t>(kDepth * kColumns, seed)), one, k);
  work.d = p.matrix(p.output("y", DType::kFloat32, {m, n}), n, one);
  work.quantization = std::make_unique<fb::QuantizationT>();
  work.quantization->bits = 8;
  work.quantization->group = kGroup;
  work.quantization->scales = p.weight(DType::kFloat32, floats(kColumns * kGroups, seed + 1));
  work.quantization->zero_points =
      static_cast<int>(p.weight(DType::kInt8, numbers<std::int8_t>(kColumns * kGroups, seed + 2)));
  p.matmul("product", std::move(work));
  return p;
}

PlanBuilder convolution(int seed) {
  PlanBuilder p;
  ConvCase c;
  c.channels = 16;
  c.results = 24;
  c.sizes = {9, 9};
  c.kernel = {3, 3};
  c.strides = c.dilations = c.pads_begin = c.pads_end = {1, 1};
  fb::ConvStepT work = c.step(p);
  const auto shape = [&](const std::vector<std::int64_t>& sizes) {
    std::vector<Id> ids;
    for (const std::int64_t size : sizes) ids.push_back(p.constant(size));
    return ids;
  };
  work.input = p.input("x", DType::kFloat32, shape(c.input_shape()));
  work.weight = p.weight(DType::kFloat32, floats(16 * 24 * 9, seed));
  work.output = p.output("y", DType::kFloat32, shape(c.output_shape()));
  p.conv("convolution", std::move(work));
  return p;
}

/// Two trees of one split each; `feature`: that of the first.
PlanBuilder trees(int seed, std::int32_t feature = 0) {
  PlanBuilder p;
  const Id m = p.symbol("m");
  const Id two = p.constant(2), three = p.constant(3), six = p.constant(6);
  p.call("trees",
         {p.input_of("x", DType::kFloat32, {m, two}),
          {p.weight(DType::kInt32, std::vector<std::int32_t>{feature, 1, 0, -1, 0, 0, -1, 1, 0,  //
                                                             1, 4, 0, -1, 2, 0, -1, 3, 0}),
           {six, three}},
          {p.weight(DType::kFloat32, floats(6, seed)), {six}},
          {p.weight(DType::kInt32, std::vector<std::int32_t>{0, 0, 3, 0}), {two, two}},
          {p.weight(DType::kFloat32, floats(8, seed + 1)), {p.constant(4), two}}},
         {p.output_of("y", DType::kFloat32, {m, two})},
         {{"combine", static_cast<std::int64_t>(Combine::kSum)}});
  return p;
}

std::vector<float> run(Session& session, std::vector<std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  session.set_input("x", shape, floats(static_cast<std::size_t>(count), 77));
  session.run();
  const auto y = session.output("y").as<float>();
  return {y.begin(), y.end()};
}
std::vector<float> run_alone(const Plan& plan, const std::vector<std::int64_t>& shape) {
  Session session(plan);
  return run(session, shape);
}

struct Case {
  const char* name;
  PlanBuilder (*build)(int seed);
  std::vector<std::vector<std::int64_t>> shapes;
};

TEST(SetWeights, LaterRunsComputeWithThem) {
  const Case cases[] = {
      {"product", &product, {{4, kDepth}, {200, kDepth}}},
      {"quantized", &quantized, {{3, kDepth}, {64, kDepth}}},
      {"convolution", &convolution, {{1, 9, 9, 16}}},
      {"trees", [](int seed) { return trees(seed); }, {{1, 2}, {300, 2}}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Plan one = c.build(1).build(), two = c.build(11).build();
    Session session(one), other(one), late(one);
    for (const auto& shape : c.shapes) {
      run(session, shape);
      run(other, shape);
    }
    const std::uint64_t bytes = session.memory().weights;
    session.set_weights(two);
    for (const auto& shape : c.shapes) {
      const std::vector<float> expected = run_alone(two, shape);
      EXPECT_NE(expected, run_alone(one, shape));
      EXPECT_EQ(run(session, shape), expected);
      EXPECT_EQ(run(other, shape), expected);
      EXPECT_EQ(run(late, shape), expected);  // which is prepared now
    }
    EXPECT_EQ(session.memory().weights, bytes);
    other.set_weights(one);
    EXPECT_EQ(run(session, c.shapes[0]), run_alone(one, c.shapes[0]));
  }
}

TEST(SetWeights, ThePlanMayGoWhereSessionsHaveItsWeights) {
  Session session(trees(1).build());
  const std::vector<float> expected = run_alone(trees(5).build(), {40, 2});
  session.set_weights(trees(5).build());
  EXPECT_EQ(run(session, {40, 2}), expected);
}

TEST(SetWeights, OtherThreadsRunBetweenThem) {
  const Plan one = product(1).build(), two = product(11).build();
  const std::vector<float> before = run_alone(one, {8, kDepth}),
                           after = run_alone(two, {8, kDepth});
  Session session(one), other(one);
  std::thread runs([&] {
    for (int i = 0; i < 200; ++i) {
      const std::vector<float> y = run(other, {8, kDepth});
      EXPECT_TRUE(y == before || y == after);
    }
  });
  for (int i = 0; i < 50; ++i) session.set_weights(i % 2 == 0 ? two : one);
  runs.join();
}

TEST(SetWeights, OtherPlansAreRefusedByName) {
  const Plan one = product(1).build();
  Session session(one);
  EXPECT_THAT(usage_of([&] { session.set_weights(doubling().build()); }),
              HasSubstr("has other inputs, outputs or states than its own"));
  PlanBuilder renamed = product(2);
  renamed.meta.steps[0]->name = "another";
  EXPECT_THAT(usage_of([&] { session.set_weights(renamed.build()); }), HasSubstr("other steps"));
  Session of_trees(trees(1).build());
  EXPECT_THAT(usage_of([&] { of_trees.set_weights(trees(2, 1).build()); }),
              HasSubstr("other nodes of 'trees'"));
  EXPECT_EQ(run(session, {2, kDepth}), run_alone(one, {2, kDepth}));
}

TEST(SetWeights, PlansForTheCpuHaveNoBudget) {
  SessionOptions options;
  options.weight_budget = 1 << 20;
  EXPECT_THAT(usage_of([&] { Session(product(1).build(), options); }),
              HasSubstr("a weight budget is for GPUs"));
}

TEST(SetWeights, FromC) {
  const auto one = doubling().bytes();
  sinter_plan *plan = nullptr, *other = nullptr;
  ASSERT_EQ(sinter_plan_from_memory(one.data(), one.size(), &plan), SINTER_OK);
  const auto two = product(1).bytes();
  ASSERT_EQ(sinter_plan_from_memory(two.data(), two.size(), &other), SINTER_OK);
  sinter_session* session = nullptr;
  sinter_session_options options = {sizeof options};
  options.weight_budget = 1;
  EXPECT_EQ(sinter_session_create(plan, &options, &session), SINTER_ERROR_USAGE);
  ASSERT_EQ(sinter_session_create(plan, nullptr, &session), SINTER_OK);
  EXPECT_EQ(sinter_session_set_weights(session, plan), SINTER_OK);
  EXPECT_EQ(sinter_session_set_weights(session, other), SINTER_ERROR_USAGE);
  EXPECT_THAT(sinter_last_error(), HasSubstr("cannot take the weights of this plan"));
  EXPECT_EQ(sinter_session_set_weights(session, nullptr), SINTER_ERROR_USAGE);
  sinter_session_free(session);
  sinter_plan_free(plan);
  sinter_plan_free(other);
}

}  // namespace
}  // namespace sinter::testing
