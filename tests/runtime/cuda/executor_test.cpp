// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <thread>

#include "runtime/cuda/memory/io_region.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(CudaTest, RunsStepsThroughOneGraph) {
  open(chain_plan());
  set_input(0, {1, 2, 3}, {3});
  run({3});
  EXPECT_THAT(output(), ElementsAre(4, 6, 8));
  EXPECT_EQ(executor->launches(), 2u);
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 1);
  EXPECT_EQ(fake().calls["cuStreamBeginCapture_v2"], 1);
}

TEST_F(CudaTest, SecondRunNeitherAllocatesNorCapturesNorCompilesAnything) {
  open(chain_plan());
  set_input(0, {1, 2, 3}, {3});
  run({3});
  fake().calls.clear();
  set_input(0, {5, 6, 7}, {3});
  run({3});
  EXPECT_THAT(output(), ElementsAre(12, 14, 16));
  for (const char* call : {"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamBeginCapture_v2",
                           "cuModuleLoadData", "cuEventCreate", "cuMemGetInfo_v2"})
    EXPECT_EQ(fake().calls[call], 0) << call;
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 1);
  EXPECT_EQ(fake().calls["cuStreamSynchronize"], 1);
}

TEST_F(CudaTest, StreamModeGivesTheSame) {
  SessionOptions options;
  options.cuda_graphs = false;
  open(chain_plan(), options);
  set_input(0, {1, 2, 3}, {3});
  run({3});
  EXPECT_THAT(output(), ElementsAre(4, 6, 8));
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 0);
  EXPECT_THAT(fake().launched, ElementsAre("add_one", "double"));
}

TEST_F(CudaTest, PreparedShapeRunsWithoutCapture) {
  open(chain_plan());
  executor->prepare(bound({2}));
  fake().calls.clear();
  set_input(0, {1, 2}, {2});
  run({2});
  EXPECT_THAT(output(), ElementsAre(4, 6));
  EXPECT_EQ(fake().calls["cuStreamBeginCapture_v2"], 0);
  EXPECT_EQ(fake().calls["cuMemAlloc_v2"], 0);
}

TEST_F(CudaTest, ShapesAreCapturedOnceEachInABoundedCache) {
  SessionOptions options;
  options.graph_cache = 2;
  open(chain_plan(), options);
  set_input(0, std::vector<float>(1000, 1), {1000});
  run({1000});  // the largest first: nothing moves afterwards
  const auto captures = [&](std::int64_t n) {
    fake().calls.clear();
    set_input(0, std::vector<float>(static_cast<std::size_t>(n), 1), {n});
    run({n});
    EXPECT_EQ(output().size(), static_cast<std::size_t>(n));
    EXPECT_EQ(output().back(), 4);
    return fake().calls["cuStreamBeginCapture_v2"];
  };
  EXPECT_EQ(captures(10), 1);
  EXPECT_EQ(captures(1000), 0);
  EXPECT_EQ(captures(10), 0);
  EXPECT_EQ(captures(20), 1);  // drops 1000
  EXPECT_EQ(captures(10), 0);
  EXPECT_EQ(captures(1000), 1);
  EXPECT_EQ(fake().execs, 2);
}

TEST_F(CudaTest, GrowingShapesMoveMemoryAndStayRight) {
  open(chain_plan());
  for (const std::int64_t n : {1, 100, 1000, 10, 5000, 1}) {
    set_input(0, std::vector<float>(static_cast<std::size_t>(n), static_cast<float>(n)), {n});
    run({n});
    const auto values = output();
    ASSERT_EQ(values.size(), static_cast<std::size_t>(n));
    for (const float value : values) ASSERT_EQ(value, 2 * (static_cast<float>(n) + 1));
  }
}

TEST_F(CudaTest, EmptyShapeLaunchesNothing) {
  CudaPlanBuilder builder;
  const Id n = builder.symbol("n", 0, 100);
  const Id x = builder.input("x", DType::kFloat32, {n});
  const Id y = builder.output("y", DType::kFloat32, {n});
  fb::KernelStepT work;
  work.variants.push_back(CudaPlanBuilder::variant("add_one", n, {}, builder.constant(1)));
  builder.kernel("only", std::move(work), {x}, {y}, {{fb::ArgKind::Int64, n}});
  open(builder.data());
  set_input(0, {}, {0});
  run({0});
  EXPECT_TRUE(output().empty());
  EXPECT_EQ(executor->launches(), 0u);
  set_input(0, {3}, {1});
  run({1});
  EXPECT_THAT(output(), ElementsAre(4));
}

TEST_F(CudaTest, PackedArgumentsAreBuffers) {
  CudaPlanBuilder builder;
  const Id n = builder.symbol("n");
  const Id x = builder.input("x", DType::kFloat32, {n});
  const Id y = builder.output("y", DType::kFloat32, {n});
  fb::KernelStepT work;
  work.packed = true;
  work.variants.push_back(CudaPlanBuilder::variant("add_one", n, {}, builder.constant(1)));
  builder.kernel("only", std::move(work), {x}, {y}, {{fb::ArgKind::Int64, n}});
  EXPECT_THAT([&] { builder.data(); },
              ::testing::ThrowsMessage<Error>(HasSubstr("packs an argument that is no buffer")));
}

// Code for one GPU alone: the module for this one has no such function, and the next variant runs.
TEST_F(CudaTest, VariantsForOtherGpusAreLeftOut) {
  for (const bool is_last : {false, true}) {
    CudaPlanBuilder builder;
    const Id n = builder.symbol("n");
    const Id x = builder.input("x", DType::kFloat32, {n});
    const Id y = builder.output("y", DType::kFloat32, {n});
    const Id one = builder.constant(1);
    fb::KernelStepT work;
    work.variants.push_back(CudaPlanBuilder::variant("elsewhere", one, {}, one));
    if (!is_last) work.variants.push_back(CudaPlanBuilder::variant("add_one", one, {}, one));
    builder.kernel("choice", std::move(work), {x}, {y}, {{fb::ArgKind::Int64, n}});
    if (is_last) {
      const Error error = error_of([&] { open(builder.data()); });
      EXPECT_THAT(error.what(), HasSubstr("has no function 'elsewhere'"));
      continue;
    }
    open(builder.data());
    set_input(0, std::vector<float>(3), {3});
    run({3});
    EXPECT_THAT(fake().launched, ElementsAre("add_one"));
  }
}

// A plan for two architectures whose kernels differ: each has its variant, and its arguments.
TEST_F(CudaTest, VariantsAreThoseOfTheArchitecture) {
  for (const int last_first : {0, 1}) {
    CudaPlanBuilder builder(last_first == 1 ? std::vector<std::string>{"sm_90", "sm_80"}
                                            : std::vector<std::string>{"sm_80", "sm_90"});
    const Id n = builder.symbol("n");
    const Id x = builder.input("x", DType::kFloat32, {n});
    const Id y = builder.output("y", DType::kFloat32, {n});
    const Id one = builder.constant(1);
    fb::KernelStepT work;
    for (const char* name : {"elsewhere", "add_one"})
      work.variants.push_back(CudaPlanBuilder::variant(name, one, {}, one));
    // The fake GPU is sm_90. "elsewhere" is no function of any module.
    work.variants[0]->architectures = {static_cast<std::uint32_t>(last_first)};
    work.variants[1]->architectures = {static_cast<std::uint32_t>(1 - last_first)};
    work.variants[1]->args = {
        {fb::ArgKind::Buffer, x}, {fb::ArgKind::Buffer, y}, {fb::ArgKind::Int64, n}};
    std::swap(work.variants[0], work.variants[static_cast<std::size_t>(last_first)]);
    builder.kernel("choice", std::move(work), {x}, {y});
    open(builder.data());
    set_input(0, {1, 2, 3}, {3});
    run({3});
    EXPECT_THAT(output(), ElementsAre(2, 3, 4));
  }
  CudaPlanBuilder builder;
  const Id one = builder.constant(1);
  const Id y = builder.output("y", DType::kFloat32, {one});
  fb::KernelStepT work;
  work.variants.push_back(CudaPlanBuilder::variant("add_one", one, {}, one));
  work.variants[0]->architectures = {1};
  builder.kernel("choice", std::move(work), {}, {y});
  EXPECT_THAT([&] { builder.data(); },
              ::testing::ThrowsMessage<Error>(HasSubstr("a variant's architecture")));
}

TEST_F(CudaTest, ConditionsChooseTheVariant) {
  CudaPlanBuilder builder;
  const Id n = builder.symbol("n");
  const Id x = builder.input("x", DType::kFloat32, {n});
  const Id y = builder.output("y", DType::kFloat32, {n});
  constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
  fb::KernelStepT work;
  const Id one = builder.constant(1);
  work.variants.push_back(CudaPlanBuilder::variant("vectorised", one, {{n, 4, kAny}}, one));
  work.variants.push_back(CudaPlanBuilder::variant("small", one, {{n, 1, 10}}, one));
  work.variants.push_back(CudaPlanBuilder::variant("add_one", one, {{n, 1, 1000}}, one));
  builder.kernel("choice", std::move(work), {x}, {y}, {{fb::ArgKind::Int64, n}});
  fake().kernels["vectorised"] = fake().kernels["small"] = fake().kernels["add_one"];
  open(builder.data());
  for (const std::int64_t n_value : {8, 7, 11, 2000}) {
    set_input(0, std::vector<float>(static_cast<std::size_t>(n_value)), {n_value});
    run({n_value});
  }
  EXPECT_THAT(fake().launched, ElementsAre("vectorised", "small", "add_one", "vectorised"));
  const Error error = error_of([&] { executor->prepare(bound({2001})); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'choice'"), HasSubstr("3 kernel variants")));
}

TEST_F(CudaTest, LaunchHasGridBlockSharedMemoryAndNarrowArguments) {
  CudaPlanBuilder builder;
  const Id n = builder.symbol("n", 1, std::int64_t{1} << 40);
  const Id y = builder.output("y", DType::kFloat32, {builder.constant(1)});
  fb::KernelStepT work;
  work.variants.push_back(CudaPlanBuilder::variant("take", builder.constant(7), {}, n));
  work.variants[0]->grid = {builder.constant(7), builder.constant(3), builder.constant(2)};
  work.variants[0]->block = {64, 2, 1};
  work.variants[0]->shared_bytes = 60000;
  builder.kernel("step", std::move(work), {}, {y}, {{fb::ArgKind::Int32, n}});
  std::uint64_t seen = 0;
  fake().kernels["take"] = {2, [&](const CUlaunchConfig&, const auto& v) { seen = v[1]; }};
  // The symbol needs an input to be bound by.
  builder.input("x", DType::kFloat32, {n});
  open(builder.data());
  set_input(0, std::vector<float>(5), {5});
  run({5});
  const CUlaunchConfig& config = fake().configs.at(0);
  EXPECT_EQ(config.gridDimX, 7u);
  EXPECT_EQ(config.gridDimY, 3u);
  EXPECT_EQ(config.gridDimZ, 2u);
  EXPECT_EQ(config.blockDimX, 64u);
  EXPECT_EQ(config.blockDimY, 2u);
  EXPECT_EQ(config.sharedMemBytes, 60000u);
  EXPECT_EQ(seen, 5u);

  // Larger than the input's memory could be, but the argument is looked at first of all steps.
  fake().total_memory = std::uint64_t{1} << 50;
  auto huge = std::make_shared<runtime::BoundShape>(*bound({5}));
  huge->symbols = {std::int64_t{1} << 33};
  huge->expressions[n] = std::int64_t{1} << 33;
  const Error error = error_of([&] { executor->prepare(huge); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'step'"), HasSubstr("8589934592")));
}

TEST_F(CudaTest, SessionsShareWeightsAndModules) {
  CudaPlanBuilder builder;
  const Id w = builder.weight(DType::kFloat32, std::vector<float>{1, 2});
  const Id y = builder.output("y", DType::kFloat32, {builder.constant(2)});
  builder.kernel("only", "double", {w}, {y}, {{fb::ArgKind::Int64, builder.constant(2)}});
  open(builder.data());
  const int modules = fake().modules;
  const int copies = fake().calls["cuMemcpyHtoDAsync_v2"];
  auto second = runtime::make_cuda_executor(environment(), plan, {});
  EXPECT_EQ(fake().modules, modules);
  EXPECT_EQ(fake().calls["cuMemcpyHtoDAsync_v2"], copies);
  EXPECT_EQ(fake().contexts, 1);
  executor.reset();
  const auto shape = bound({});
  second->prepare(shape);
  second->run(shape, nullptr);
  second->await();
  EXPECT_THAT(second->output(0).as<float>(), ElementsAre(2, 4));
  second.reset();
  EXPECT_EQ(fake().modules, 0);
}

TEST_F(CudaTest, SessionsRunInParallel) {
  open(chain_plan());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      auto mine = runtime::make_cuda_executor(environment(), plan, {});
      runtime::BoundShapeCache local(plan, 8);
      for (std::int64_t n = 1; n < 20; ++n) {
        const std::vector<float> values(static_cast<std::size_t>(n), static_cast<float>(t));
        mine->set_input(0, TensorView{DType::kFloat32, {n}, values.data(), Memory::kHost});
        const auto shape = local.get({n});
        mine->prepare(shape);
        mine->run(shape, nullptr);
        mine->await();
        const TensorView result = mine->output(0);
        ASSERT_EQ(result.shape, std::vector<std::int64_t>{n});
        for (const float value : result.as<float>()) ASSERT_EQ(value, 2.0f * (t + 1));
      }
    });
  for (auto& thread : threads) thread.join();
}

class DeviceMemoryTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    context = graphs::Context::retain(fake().driver(), 0);
    memory = graphs::DeviceMemory(context, 4096);
    values = reinterpret_cast<float*>(memory.address());
  }
  void TearDown() override {
    executor.reset();
    memory = {};
    context.reset();
    CudaTest::TearDown();
  }
  TensorView at(std::size_t element, std::int64_t count) const {
    return {DType::kFloat32, {count}, values + element, Memory::kDevice};
  }
  MutableTensorView target(std::size_t element, std::int64_t count) const {
    return {DType::kFloat32, {count}, values + element, Memory::kDevice};
  }
  graphs::ContextPtr context;
  graphs::DeviceMemory memory;
  float* values = nullptr;
};

TEST_F(DeviceMemoryTest, InputsAndOutputsAreUsedInPlace) {
  open(chain_plan());
  for (int i = 0; i < 3; ++i) values[i] = static_cast<float>(i);
  executor->set_input(0, at(0, 3));
  executor->set_output(0, target(64, 3));
  run({3});
  EXPECT_EQ(executor->output(0).memory, Memory::kDevice);
  EXPECT_EQ(executor->output(0).data, values + 64);
  EXPECT_THAT(output(), ElementsAre(2, 4, 6));
  EXPECT_EQ(executor->memory().io, 0u);
  EXPECT_EQ(fake().calls["cuMemcpyDtoHAsync_v2"], 0);

  fake().calls.clear();
  values[0] = 10;
  run({3});
  EXPECT_EQ(output()[0], 22);
  EXPECT_EQ(fake().calls["cuStreamBeginCapture_v2"], 0);
  executor->set_output(0, target(128, 3));
  run({3});
  EXPECT_EQ(values[128], 22);
  EXPECT_EQ(fake().calls["cuStreamBeginCapture_v2"], 1);

  // Back to host memory on both sides.
  set_input(0, {7, 7, 7}, {3});
  executor->set_output(0, {});
  run({3});
  EXPECT_EQ(executor->output(0).memory, Memory::kHost);
  EXPECT_THAT(output(), ElementsAre(16, 16, 16));
  EXPECT_EQ(values[128], 22);
}

TEST_F(DeviceMemoryTest, OwnDeviceOutputs) {
  SessionOptions options;
  options.output_memory = Memory::kDevice;
  open(chain_plan(), options);
  set_input(0, {1}, {1});
  run({1});
  EXPECT_EQ(executor->output(0).memory, Memory::kDevice);
  EXPECT_THAT(output(), ElementsAre(4));
  EXPECT_EQ(fake().calls["cuMemcpyDtoHAsync_v2"], 0);
}

TEST_F(DeviceMemoryTest, BadPointersAreRefused) {
  open(chain_plan());
  const Error unaligned = error_of([&] { executor->set_input(0, at(1, 3)); });
  EXPECT_EQ(unaligned.code(), ErrorCode::kUsage);
  EXPECT_THAT(unaligned.what(), AllOf(HasSubstr("input 'x'"), HasSubstr("16 bytes")));
  alignas(64) static float host[4];
  const TensorView wrong{DType::kFloat32, {4}, host, Memory::kDevice};
  EXPECT_THAT(error_of([&] { executor->set_input(0, wrong); }).what(),
              HasSubstr("given as device memory"));
  const Error output = error_of([&] {
    executor->set_output(0, {DType::kFloat32, {4}, host, Memory::kDevice});
  });
  EXPECT_EQ(output.code(), ErrorCode::kUsage);
  EXPECT_THAT(output.what(), HasSubstr("output 'y'"));
}

TEST_F(DeviceMemoryTest, UserStreamsAreOrderedByEvents) {
  open(chain_plan());
  const graphs::Stream user(context);
  const auto shape = bound({2});
  set_input(0, {1, 2}, {2});
  executor->prepare(shape);
  fake().calls.clear();
  executor->run(shape, nullptr);
  executor->run(shape, user.handle());
  EXPECT_EQ(fake().calls["cuStreamWaitEvent"], 1);
  executor->run(shape, nullptr);
  EXPECT_EQ(fake().calls["cuStreamWaitEvent"], 2);
  executor->await();
  EXPECT_THAT(output(), ElementsAre(4, 6));
}

TEST_F(CudaTest, WrongArchitectureNamesBothSides) {
  const Error error = error_of([&] { open(chain_plan({"sm_80", "sm_100"})); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("plan is for sm_80, sm_100"), HasSubstr("is sm_90"),
                                  HasSubstr("--target=cuda:sm_90")));
}

TEST(ChooseArchitectureTest, TakesTheBestThatRuns) {
  graphs::DeviceProperties gpu;
  const auto choose = [&](int major, int minor, std::vector<std::string> architectures) {
    gpu.major = major;
    gpu.minor = minor;
    return runtime::choose_architecture(architectures, gpu);
  };
  EXPECT_EQ(choose(9, 0, {"sm_80", "sm_90"}), 1u);
  EXPECT_EQ(choose(8, 6, {"sm_80", "sm_86", "sm_89"}), 1u);
  EXPECT_EQ(choose(8, 7, {"sm_86", "sm_80"}), 0u);
  EXPECT_EQ(choose(9, 0, {"sm_90", "sm_90a"}), 1u);
  EXPECT_EQ(choose(12, 1, {"sm_120", "sm_90"}), 0u);
  EXPECT_THROW(choose(12, 1, {"sm_120a"}), Error);
  EXPECT_THROW(choose(8, 0, {"sm_86"}), Error);
  EXPECT_THROW(choose(9, 0, {"sm_100", "nonsense", ""}), Error);
  EXPECT_THROW(choose(9, 0, {}), Error);
}

TEST_F(CudaTest, OldDriverIsNamed) {
  fake().driver_version = 12040;
  const Error error = error_of([&] { open(chain_plan()); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("CUDA 13.0"), HasSubstr("CUDA 12.4")));
}

TEST_F(CudaTest, CpuStepsAreRefused) {
  CudaPlanBuilder builder;
  const Id n = builder.constant(4);
  const Id x = builder.input("x", DType::kFloat32, {n});
  const Id y = builder.output("y", DType::kFloat32, {n});
  LoopBuilder loop({n}, 0);
  loop.program.buffers = {x, y};
  const Id from = loop.access(0, builder.constant(0), {builder.constant(1)});
  const Id to = loop.access(1, builder.constant(0), {builder.constant(1)});
  loop.store(to, loop.load(from));
  builder.loop("tile", std::move(loop));
  // The reader refuses such a plan too; the executor must not depend on that.
  auto data = std::make_shared<plan::PlanData>();
  data->meta = builder.parts().meta;
  open(data);
  const Error error = error_of([&] { executor->prepare(bound({})); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'tile'"), HasSubstr("--target=cuda")));
}

TEST_F(CudaTest, OutOfMemoryGivesTheAccountAndLeavesTheSessionUsable) {
  fake().total_memory = 1 << 20;
  open(chain_plan());
  set_input(0, {1}, {1});
  run({1});
  const Error error = error_of([&] { executor->prepare(bound({1 << 20})); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("4.0 MiB of arena"), HasSubstr("12.0 MiB are needed"),
                                  HasSubstr("1.0 MiB are free")));
  set_input(0, {2}, {1});
  run({1});
  EXPECT_THAT(output(), ElementsAre(6));
}

TEST_F(CudaTest, AllocationThatFailsAfterAllIsOutOfMemoryToo) {
  open(chain_plan());
  set_input(0, {1}, {1});
  fake().fail_next["cuMemAlloc_v2"] = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(error_of([&] { executor->prepare(bound({1})); }).code(), ErrorCode::kOutOfMemory);
  run({1});
  EXPECT_THAT(output(), ElementsAre(4));
}

TEST_F(CudaTest, WeightsThatDoNotFitAreOutOfMemory) {
  CudaPlanBuilder builder;
  const Id w = builder.weight(DType::kFloat32, std::vector<float>(1024));
  const Id y = builder.output("y", DType::kFloat32, {builder.constant(1024)});
  builder.kernel("only", "double", {w}, {y}, {{fb::ArgKind::Int64, builder.constant(1024)}});
  fake().total_memory = 1000;
  const Error error = error_of([&] { open(builder.data()); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(error.what(), HasSubstr("4096 bytes of weights"));
}

TEST_F(CudaTest, FailedCaptureIsAnErrorAndNoSlowPath) {
  open(chain_plan());
  set_input(0, {1}, {1});
  fake().fail_next["cuStreamEndCapture"] = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const Error error = error_of([&] { run({1}); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), HasSubstr("capturing a CUDA graph"));
  EXPECT_TRUE(fake().launched.empty());
  run({1});
  EXPECT_THAT(output(), ElementsAre(4));
}

TEST_F(CudaTest, FailureOfARunIsReportedOnce) {
  open(chain_plan());
  set_input(0, {1}, {1});
  const auto shape = bound({1});
  executor->prepare(shape);
  executor->run(shape, nullptr);
  fake().fail_next["cuStreamSynchronize"] = CUDA_ERROR_LAUNCH_FAILED;
  const Error error = error_of([&] { executor->await(); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("running on GPU 0"), HasSubstr("CUDA_ERROR_LAUNCH_FAILED")));
  executor->await();
}

TEST_F(CudaTest, MemoryAccountIsExact) {
  open(chain_plan());
  EXPECT_EQ(executor->memory().arena, 0u);
  executor->prepare(bound({100}));
  const MemoryAccount account = executor->memory();
  EXPECT_EQ(account.arena, 512u);
  EXPECT_EQ(account.io, 1024u);
  EXPECT_EQ(account.workspace, 0u);
  EXPECT_EQ(account.weights, plan->weights.size());
  EXPECT_EQ(fake().device_bytes(), account.arena + account.io + account.weights);
}

TEST_F(CudaTest, TimesComputeAlone) {
  open(chain_plan());
  EXPECT_EQ(error_of([&] { executor->time_compute(true); }).code(), ErrorCode::kUsage);
  set_input(0, {1}, {1});
  run({1});
  EXPECT_NEAR(executor->time_compute(true), 20, 1e-3);
  // Caches are emptied by reading, which leaves nothing to write back.
  const int fills = fake().calls["cuMemsetD8Async"];
  EXPECT_NEAR(executor->time_compute(true), 20, 1e-3);
  EXPECT_EQ(fake().calls["cuMemsetD8Async"], fills);
  EXPECT_NEAR(executor->time_compute(false), 20, 1e-3);
  const auto profile = executor->profile();
  ASSERT_EQ(profile.size(), 2u);
  EXPECT_EQ(profile[1].name, "second");
  EXPECT_NEAR(profile[1].microseconds, 10, 1e-3);
  EXPECT_EQ(profile[1].bytes, 16u);
  EXPECT_EQ(profile[1].flops, 8u);
  run({1});
  EXPECT_THAT(output(), ElementsAre(4));
}

TEST_F(CudaTest, NeighbouringInputsTravelTogether) {
  const auto context = graphs::Context::retain(fake().driver(), 0);
  const graphs::Context::Scope scope(*context);
  const graphs::Stream stream(context);
  runtime::IoRegion region(context, 3, true);
  const std::vector<std::uint64_t> sizes{100, 300, 1 << 20};
  const int fills = fake().calls["cuMemsetD8Async"];
  EXPECT_TRUE(region.reserve(sizes, stream.handle()));
  EXPECT_EQ(fake().calls["cuMemsetD8Async"], fills + 1);  // what candidates are timed on
  EXPECT_FALSE(region.reserve(sizes, stream.handle()));
  EXPECT_EQ(fake().calls["cuMemsetD8Async"], fills + 1);
  ASSERT_EQ(region.copies(sizes).size(), 1u);
  EXPECT_EQ(region.copies(sizes)[0].bytes, 256u + 512u + (1u << 20));
  // Without the first; and with much unused memory between two.
  EXPECT_EQ(region.copies(std::vector<std::uint64_t>{0, 300, 8}).size(), 1u);
  EXPECT_EQ(region.copies(std::vector<std::uint64_t>{0, 300, 8})[0].offset, 256u);
  runtime::IoRegion wide(context, 2, true);
  wide.reserve(std::vector<std::uint64_t>{1 << 20, 16}, stream.handle());
  EXPECT_EQ(wide.copies(std::vector<std::uint64_t>{16, 16}).size(), 2u);
  // Growing keeps what the host part holds.
  std::memset(region.host(1), 7, 300);
  EXPECT_TRUE(region.reserve(std::vector<std::uint64_t>{5000, 0, 0}, stream.handle()));
  EXPECT_EQ(region.host(1)[299], std::byte{7});
  EXPECT_EQ(region.device(1) - region.device_base(),
            static_cast<CUdeviceptr>(region.host(1) - region.host_base()));
}

}  // namespace
}  // namespace sinter::testing
