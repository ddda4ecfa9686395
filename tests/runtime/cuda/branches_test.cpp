// SPDX-License-Identifier: Apache-2.0
// Graphs with parallel branches: when they are taken, and that they are joined.
#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::Each;

/// Two chains of one input, u = x + 1 and v = 2 x each twice, and a product, for which there is
/// tuning.
class BranchesTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    for (const char* name : {"add_one", "double"}) {
      auto body = fake().kernels[name].body;
      fake().kernels[name].body = [this, body](const CUlaunchConfig& config, const auto& v) {
        // As if streams ran at once.
        if (config.hStream == last) fake().clock += crowded;
        last = config.hStream;
        if (config.numAttrs > 0) started_early.push_back(config.hStream);
        body(config, v);
      };
    }
  }

  static std::shared_ptr<const plan::PlanData> two_chains(bool early = false) {
    CudaPlanBuilder builder({"sm_90"});
    const Id n = builder.symbol("n"), two = builder.constant(2), one = builder.constant(1);
    const Id x = builder.input("x", DType::kFloat32, {n});
    const Id t = builder.arena(DType::kFloat32, {n}), u = builder.output("u", DType::kFloat32, {n});
    const Id s = builder.arena(DType::kFloat32, {n}), v = builder.output("v", DType::kFloat32, {n});
    const std::vector<fb::KernelArg> size{{fb::ArgKind::Int64, n}};
    builder.kernel("u_0", "add_one", {x}, {t}, size);
    builder.kernel("v_0", "double", {x}, {s}, size);
    builder.kernel("u_1", "add_one", {t}, {u}, size);
    builder.kernel("v_1", "double", {s}, {v}, size);
    if (early)
      for (auto& step : builder.meta.steps)
        step->work.AsKernelStep()->variants[0]->programmatic_launch = true;
    fb::MatmulStepT product;
    product.m = product.n = product.k = two;
    const Id a = builder.input("a", DType::kFloat32, {two, two});
    product.a = builder.matrix(a, two, one);
    product.b = builder.matrix(a, two, one);
    product.d = builder.matrix(builder.output("d", DType::kFloat32, {two, two}), two, one);
    builder.matmul("product", std::move(product));
    return builder.data();
  }

  /// The streams that kernels of a run were put on.
  std::vector<CUstream> run_chains(std::int64_t n) {
    set_input(0, std::vector<float>(static_cast<std::size_t>(n), 3), {n});
    set_input(1, {1, 0, 0, 1}, {2, 2});
    executor->prepare(bound({n}));
    fake().configs.clear();
    started_early.clear();
    run({n});
    EXPECT_THAT(output(0), Each(5));
    EXPECT_THAT(output(1), Each(12));
    std::vector<CUstream> streams;
    for (const CUlaunchConfig& config : fake().configs) streams.push_back(config.hStream);
    return streams;
  }

  double crowded = 0;
  CUstream last = nullptr;
  std::vector<CUstream> started_early;
};

// What was chosen is kept for the process: every test has a size of its own.
TEST_F(BranchesTest, TakenWhereTheyMeasureFaster) {
  crowded = 1000;
  open(two_chains());
  const auto streams = run_chains(5);
  ASSERT_EQ(streams.size(), 4u);
  EXPECT_EQ(streams[0], streams[2]);
  EXPECT_EQ(streams[1], streams[3]);
  EXPECT_NE(streams[0], streams[1]);
  // A session that finds the choice does not time again.
  const auto launches = fake().calls["cuGraphLaunch"];
  open(two_chains());
  crowded = 0;
  EXPECT_NE(run_chains(5)[0], run_chains(5)[1]);
  EXPECT_EQ(fake().calls["cuGraphLaunch"], launches + 2);
}

TEST_F(BranchesTest, AProfileSaysWhereStepsAre) {
  crowded = 1000;
  open(two_chains());
  run_chains(9);
  const auto profile = executor->profile();
  ASSERT_EQ(profile.size(), 5u);
  EXPECT_EQ(profile[0].name, "u_0");
  EXPECT_EQ(profile[2].stream, profile[0].stream);
  EXPECT_EQ(profile[3].stream, profile[1].stream);
  EXPECT_NE(profile[1].stream, profile[0].stream);
  EXPECT_THAT(profile[3].waits, ::testing::IsEmpty());
}

TEST_F(BranchesTest, NotTakenWhereTheyDoNot) {
  open(two_chains());
  const auto streams = run_chains(6);
  EXPECT_THAT(streams, Each(streams[0]));
}

TEST_F(BranchesTest, NoneWithoutGraphs) {
  crowded = 1000;
  SessionOptions options;
  options.cuda_graphs = false;
  open(two_chains(), options);
  const auto streams = run_chains(7);
  EXPECT_THAT(streams, Each(streams[0]));
}

TEST_F(BranchesTest, AKernelStartsEarlyBehindOneOfItsStreamAlone) {
  crowded = 1000;
  open(two_chains(true));
  const auto streams = run_chains(8);
  ASSERT_EQ(streams.size(), 4u);
  // Not the first of all, in front of which is the run before, nor that of the second branch: what
  // is in front of it is not a kernel of its stream.
  EXPECT_EQ(std::count(started_early.begin(), started_early.end(), streams[0]), 1);
  EXPECT_EQ(std::count(started_early.begin(), started_early.end(), streams[1]), 1);
}

}  // namespace
}  // namespace sinter::testing
