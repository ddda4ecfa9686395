// SPDX-License-Identifier: Apache-2.0
// Weights under a budget, and weights that are replaced, on the fake GPU.
#include <thread>

#include "graphs/stream.h"
#include "runtime/plan_access.h"
#include "runtime/session_access.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 1024, kLayers = 12;
constexpr std::uint64_t kWeightBytes = kCount * sizeof(float), kAll = kLayers * kWeightBytes;

class WeightStreamTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    // y = 2 x + w, elements of w again and again.
    fake().kernels["layer"] = {4, [](const CUlaunchConfig&, const auto& v) {
                                 const auto* x = reinterpret_cast<const float*>(v[0]);
                                 const auto* w = reinterpret_cast<const float*>(v[1]);
                                 for (std::uint64_t i = 0; i < v[3]; ++i)
                                   reinterpret_cast<float*>(v[2])[i] = 2 * x[i] + w[i % kCount];
                               }};
  }

  /// A layer for each weight, through two arena buffers in turns; weight i is `first` + i.
  static CudaPlanBuilder layers(float first = 1) {
    CudaPlanBuilder builder;
    const Id n = builder.symbol("n");
    Id from = builder.input("x", DType::kFloat32, {n});
    const Id y = builder.output("y", DType::kFloat32, {n});
    for (std::size_t i = 0; i < kLayers; ++i) {
      const Id w = builder.weight(DType::kFloat32, std::vector<float>(kCount, first + float(i)));
      const Id to = i + 1 == kLayers ? y : builder.arena(DType::kFloat32, {n});
      builder.kernel("layer" + std::to_string(i), "layer", {from, w}, {to},
                     {{fb::ArgKind::Int64, n}});
      from = to;
    }
    return builder;
  }
  static float expected(float x, float first = 1) {
    for (std::size_t i = 0; i < kLayers; ++i) x = 2 * x + first + float(i);
    return x;
  }

  static SessionOptions within(std::uint64_t budget, bool graphs = true) {
    SessionOptions options;
    options.weight_budget = budget;
    options.cuda_graphs = graphs;
    return options;
  }
  std::unique_ptr<runtime::Executor> make(const std::shared_ptr<const plan::PlanData>& data,
                                          SessionOptions options = {}) const {
    return runtime::make_cuda_executor(environment(), data, options);
  }
  /// y[0] of a run of two elements.
  float run_with(runtime::Executor& on, float x) const {
    const float values[] = {x, x};
    on.set_input(0, {DType::kFloat32, {2}, values, Memory::kHost});
    const auto shape = shapes->get({2});
    on.prepare(shape);
    on.run(shape, nullptr);
    on.await();
    return *static_cast<const float*>(on.output(0).data);
  }
};

TEST_F(WeightStreamTest, ResultsAreThoseOfResidentWeights) {
  for (const bool graphs : {true, false})
    for (const std::uint64_t budget : {2 * kWeightBytes, 5 * kWeightBytes, kAll - 256, kAll}) {
      SCOPED_TRACE(budget);
      open(layers().data(), within(budget, graphs));
      const MemoryAccount account = executor->memory();
      EXPECT_LE(account.weights + account.weight_ring, budget);
      EXPECT_EQ(account.weights + account.streamed_weights, kAll);
      EXPECT_EQ(account.weight_ring, budget == kAll ? 0 : 2 * kWeightBytes);
      for (const std::int64_t n : {2, 3000, 2})
        for (const float x : {1.0F, 5.0F}) {
          set_input(0, std::vector<float>(static_cast<std::size_t>(n), x), {n});
          run({n});
          EXPECT_EQ(output(), std::vector<float>(static_cast<std::size_t>(n), expected(x)));
        }
      const graphs::Stream own(graphs::Context::retain(fake().driver(), 0));
      run({2}, own.handle());
      EXPECT_EQ(output(), std::vector<float>(2, expected(5)));
    }
}

TEST_F(WeightStreamTest, RunsThatWereSeenAllocateAndCaptureNothing) {
  open(layers().data(), within(4 * kWeightBytes));
  run_with(*executor, 1);
  fake().calls.clear();
  const auto bytes = fake().device_bytes();
  EXPECT_EQ(run_with(*executor, 3), expected(3));
  EXPECT_EQ(fake().device_bytes(), bytes);
  for (const char* call : {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamBeginCapture_v2",
                           "cuEventCreate", "cuMemcpyHtoDAsync_v2"})
    EXPECT_EQ(fake().calls[call], 0) << call;
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 1);
}

TEST_F(WeightStreamTest, CopiesAreOnAStreamOfTheirOwn) {
  open(layers().data(), within(2 * kWeightBytes, false));
  set_input(0, {1, 1}, {2});
  const auto shape = bound({2});
  executor->prepare(shape);
  fake().calls.clear();
  executor->run(shape, nullptr);
  // Begins behind the run; each layer waits for its copy, and each copy from the third on for the
  // layer two before.
  EXPECT_EQ(fake().calls["cuStreamWaitEvent"], 1 + kLayers + kLayers - 2);
  EXPECT_EQ(fake().calls["cuMemcpyHtoDAsync_v2"], 1 + kLayers);  // the input, too
  executor->await();
}

TEST_F(WeightStreamTest, ABudgetThatIsTooSmallSaysTheLeast) {
  const Error error = error_of([&] { open(layers().data(), within(2 * kWeightBytes - 1)); });
  EXPECT_EQ(error.code(), ErrorCode::kUsage);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("48.0 KiB of weights"), HasSubstr("8192 bytes")));
}

TEST_F(WeightStreamTest, SessionsOfOneBudgetShareWhatStays) {
  const auto data = layers().data();
  open(data, within(5 * kWeightBytes));
  const auto bytes = fake().device_bytes();
  const auto other = make(data, within(5 * kWeightBytes));
  EXPECT_EQ(fake().device_bytes(), bytes + 2 * kWeightBytes);
  EXPECT_EQ(fake().calls["cuMemHostAlloc"], 1);
  EXPECT_EQ(run_with(*other, 1), expected(1));
  EXPECT_EQ(run_with(*executor, 2), expected(2));
}

TEST_F(WeightStreamTest, ALoopIsOneUnit) {
  // Three times y = 2 y + w1, between layers with w0 and w2; of three weights two fit at once.
  CudaPlanBuilder builder;
  const Id n = builder.constant(4);
  const Id x = builder.input("x", DType::kFloat32, {n});
  const Id t = builder.arena(DType::kFloat32, {n});
  const Id y = builder.output("y", DType::kFloat32, {n});
  const Id counter = builder.arena(DType::kInt64, {builder.constant(1)});
  std::vector<Id> w;
  for (int i = 0; i < 3; ++i)
    w.push_back(builder.weight(DType::kFloat32, std::vector<float>(kCount, float(i))));
  builder.kernel("before", "layer", {x, w[0]}, {t}, {{fb::ArgKind::Int64, n}});
  auto loop = std::make_unique<fb::StepT>();
  loop->name = "loop";
  loop->bytes_read = loop->bytes_written = loop->flops = builder.constant(0);
  loop->reads = {t};
  loop->writes = {t, counter};
  fb::WhileStepT work;
  work.steps = 1;
  work.trips = static_cast<std::int32_t>(builder.constant(3));
  work.counter = counter;
  loop->work.Set(std::move(work));
  builder.meta.steps.push_back(std::move(loop));
  builder.kernel("body", "layer", {t, w[1]}, {t}, {{fb::ArgKind::Int64, n}});
  builder.kernel("after", "layer", {t, w[2]}, {y}, {{fb::ArgKind::Int64, n}});
  open(builder.data(), within(2 * kWeightBytes));
  for (int i = 0; i < 2; ++i) {
    set_input(0, {1, 1, 1, 1}, {4});
    run({});
    EXPECT_EQ(output(), std::vector<float>(4, 2 * (8 * 2 + 7) + 2));
  }
}

TEST_F(WeightStreamTest, AProfileShowsCopies) {
  open(layers().data(), within(5 * kWeightBytes));
  run_with(*executor, 1);
  fake().copy_microseconds_per_megabyte = 1024;  // 4 us for a weight
  const auto profile = executor->profile();
  ASSERT_EQ(profile.size(), kLayers + 1);
  EXPECT_NEAR(profile[3].microseconds, 10, 1e-3);
  const StepTime& copies = profile.back();
  EXPECT_EQ(copies.name, "copies of weights");
  EXPECT_EQ(copies.bytes, 9 * kWeightBytes);
  EXPECT_NEAR(copies.microseconds, 36, 1e-3);
  EXPECT_EQ(copies.parts[0].launches, 9);
  EXPECT_EQ(run_with(*executor, 3), expected(3));
}

TEST_F(WeightStreamTest, ReplacedWeightsAreThoseOfAllSessionsAtOnce) {
  const auto one = layers(1).data(), two = layers(100).data();
  for (const std::uint64_t budget : {std::uint64_t{0}, 5 * kWeightBytes}) {
    open(one, within(budget));
    auto other = make(one, within(budget));
    EXPECT_EQ(run_with(*executor, 1), expected(1));
    EXPECT_EQ(run_with(*other, 1), expected(1));
    fake().calls.clear();
    executor->set_weights(two);
    EXPECT_EQ(run_with(*executor, 1), expected(1, 100));
    EXPECT_EQ(run_with(*other, 1), expected(1, 100));
    for (const char* call : {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamBeginCapture_v2"})
      EXPECT_EQ(fake().calls[call], 0) << call;
    // Sessions that are made now have the weights of their plan, and share what there is of it.
    const auto bytes = fake().device_bytes();
    auto late = make(two, within(budget));
    EXPECT_EQ(fake().device_bytes(), bytes + (budget == 0 ? 0 : 2 * kWeightBytes));
    EXPECT_EQ(run_with(*late, 1), expected(1, 100));
    auto early = make(one, within(budget));
    EXPECT_EQ(run_with(*early, 1), expected(1));
    executor->set_weights(one);
    EXPECT_EQ(run_with(*late, 1), expected(1));
    EXPECT_EQ(run_with(*early, 1), expected(1));
  }
}

TEST_F(WeightStreamTest, WeightsAreReplacedBetweenRunsOfOtherThreads) {
  const auto one = layers(1).data(), two = layers(100).data();
  open(one);
  const auto other = make(one);
  run_with(*other, 1);
  std::thread runs([&] {
    for (int i = 0; i < 200; ++i) {
      const float y = run_with(*other, 1);
      EXPECT_TRUE(y == expected(1) || y == expected(1, 100)) << y;
    }
  });
  for (int i = 0; i < 50; ++i) executor->set_weights(i % 2 == 0 ? two : one);
  runs.join();
}

TEST_F(WeightStreamTest, SessionsTakeTheWeightsOfTheirOwnPlanAlone) {
  const auto data = layers().data();
  Session session = SessionAccess::make(PlanAccess::make(data), {}, make(data));
  const auto refuse = [&](CudaPlanBuilder builder, const char* why) {
    const Plan other = PlanAccess::make(builder.data());
    EXPECT_THAT(error_of([&] { session.set_weights(other); }).what(), HasSubstr(why));
  };
  CudaPlanBuilder renamed = layers();
  renamed.meta.steps[0]->name = "another";
  refuse(std::move(renamed), "has other steps than its own");
  CudaPlanBuilder larger = layers();
  larger.constant(12345);
  refuse(std::move(larger), "has other sizes than its own");
  CudaPlanBuilder newer = layers();
  newer.meta.modules[0]->name = "others";
  refuse(std::move(newer), "has other kernels than its own");
  CudaPlanBuilder described = layers(7);
  described.meta.graph_text = "another";
  session.set_weights(PlanAccess::make(described.data()));
}

}  // namespace
}  // namespace sinter::testing
