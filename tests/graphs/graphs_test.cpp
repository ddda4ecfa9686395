// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs/capture.h"
#include "graphs/graph_cache.h"
#include "graphs/graph_exec.h"
#include "graphs/memory.h"
#include "graphs/module.h"
#include "tests/graphs/fake_driver.h"

namespace sinter::graphs {
namespace {

using ::testing::AllOf;
using testing::fake;
using ::testing::HasSubstr;

template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::kInternal, "");
}

class GraphsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake().reset();
    fake().kernels["add_one"] = {1, [](const CUlaunchConfig&, const auto& values) {
                                   *reinterpret_cast<int*>(values[0]) += 1;
                                 }};
  }
  void TearDown() override { EXPECT_EQ(fake().alive(), 0); }

  static Module load_module(const ContextPtr& context) {
    static constexpr std::array<std::byte, 5> image{std::byte{'c'}, std::byte{'u'}, std::byte{'b'},
                                                    std::byte{'i'}, std::byte{'n'}};
    return Module(context, image, "test");
  }
};

TEST_F(GraphsTest, MissingEntryPointIsNamed) {
  const Error error = error_of([] {
    Driver driver([](const char* symbol) -> void* {
      return std::string(symbol) == "cuLaunchKernelEx" ? nullptr
                                                       : testing::FakeDriver::resolve(symbol);
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("cuLaunchKernelEx"), HasSubstr("too old")));
}

TEST_F(GraphsTest, OptionalEntryPointMayBeMissing) {
  Driver driver([](const char* symbol) -> void* {
    return std::string(symbol) == "cuFuncLoad" ? nullptr : testing::FakeDriver::resolve(symbol);
  });
  EXPECT_FALSE(driver.func_load);
  EXPECT_EQ(driver.version(), 13000);
}

TEST_F(GraphsTest, NoDeviceSaysWhatToDo) {
  fake().device_count = 0;
  const Error error = error_of([] { fake().driver(); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("no NVIDIA GPU"), HasSubstr("--target=cpu")));
}

TEST_F(GraphsTest, WrongDeviceNamesThoseThereAre) {
  fake().device_count = 2;
  const Error error = error_of([] { Context::retain(fake().driver(), 2); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("no GPU 2"), HasSubstr("0 to 1")));
  EXPECT_EQ(error_of([] { Context::retain(fake().driver(), -1); }).code(), ErrorCode::kDevice);
}

TEST_F(GraphsTest, PropertiesAreRead) {
  const auto devices = enumerate_devices(fake().driver());
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "Fake GPU");
  EXPECT_EQ(devices[0].architecture(), "sm_90");
  EXPECT_EQ(devices[0].multiprocessors, 132);
  EXPECT_EQ(devices[0].l2_bytes, 1u << 20);
}

TEST_F(GraphsTest, FailedCallGivesNameAndText) {
  const auto context = Context::retain(fake().driver(), 0);
  fake().fail_next["cuStreamCreate"] = CUDA_ERROR_LAUNCH_FAILED;
  const Error error = error_of([&] { Stream stream(context); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("cuStreamCreate"), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"),
                    HasSubstr("a fake description")));
}

TEST_F(GraphsTest, OutOfMemoryGivesSizes) {
  fake().total_memory = 1000;
  const auto context = Context::retain(fake().driver(), 0);
  const DeviceMemory first(context, 600);
  const Error error = error_of([&] { DeviceMemory second(context, 500); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("500 bytes"), HasSubstr("400 of 1000")));
}

TEST_F(GraphsTest, PinnedOutOfMemoryIsOutOfMemory) {
  const auto context = Context::retain(fake().driver(), 0);
  fake().fail_next["cuMemHostAlloc"] = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(error_of([&] { PinnedMemory memory(context, 8); }).code(), ErrorCode::kOutOfMemory);
}

TEST_F(GraphsTest, EmptyMemoryIsNone) {
  const auto context = Context::retain(fake().driver(), 0);
  const DeviceMemory device(context, 0);
  const PinnedMemory pinned(context, 0);
  EXPECT_EQ(device.address(), 0u);
  EXPECT_EQ(pinned.data(), nullptr);
  EXPECT_EQ(fake().calls["cuMemAlloc_v2"], 0);
}

TEST_F(GraphsTest, MovedMemoryIsFreedOnce) {
  const auto context = Context::retain(fake().driver(), 0);
  DeviceMemory first(context, 100);
  DeviceMemory second(context, 200);
  second = std::move(first);
  EXPECT_EQ(second.size(), 100u);
  EXPECT_EQ(fake().device_memory.size(), 1u);
  DeviceMemory third(std::move(second));
  third = {};
  EXPECT_TRUE(fake().device_memory.empty());
}

TEST_F(GraphsTest, ObjectsKeepTheirContextAlive) {
  auto context = Context::retain(fake().driver(), 0);
  auto stream = std::make_unique<Stream>(context);
  context.reset();
  EXPECT_EQ(fake().contexts, 1);
  stream.reset();
  EXPECT_EQ(fake().contexts, 0);
}

TEST_F(GraphsTest, MissingFunctionNamesModuleAndFunction) {
  const auto context = Context::retain(fake().driver(), 0);
  const Module module = load_module(context);
  const Error error = error_of([&] { module.function("absent"); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'absent'"), HasSubstr("'test'")));
}

TEST_F(GraphsTest, SharedMemoryIsRaisedAndLimited) {
  const auto context = Context::retain(fake().driver(), 0);
  const Module module = load_module(context);
  const CUfunction function = module.function("add_one");
  allow_shared_memory(*context, function, 1000);
  EXPECT_EQ(fake().calls["cuFuncSetAttribute"], 0);
  allow_shared_memory(*context, function, 100000);
  EXPECT_EQ(fake().calls["cuFuncSetAttribute"], 1);
  EXPECT_THAT(error_of([&] { allow_shared_memory(*context, function, 300000); }).what(),
              HasSubstr("232448"));
}

TEST_F(GraphsTest, ResourcesOfALaunch) {
  fake().kernels["add_one"].registers = 64;
  fake().kernels["add_one"].local_bytes = 40;
  fake().kernels["add_one"].static_shared_bytes = 1024;
  const auto context = Context::retain(fake().driver(), 0);
  const Module module = load_module(context);
  LaunchConfig config;
  config.block = {64, 4, 1};
  config.shared_bytes = 512;
  const KernelResources resources = resources_of(*context, module.function("add_one"), config);
  EXPECT_EQ(resources.registers, 64u);
  EXPECT_EQ(resources.local_bytes, 40u);
  EXPECT_EQ(resources.shared_bytes, 1536u);
  // 65,536 registers for blocks of 256 threads; a multiprocessor could hold 2048 threads.
  EXPECT_EQ(resources.resident_blocks, 4u);
  EXPECT_DOUBLE_EQ(resources.occupancy, 0.5);
}

TEST_F(GraphsTest, LaunchAttributesAreBounded) {
  LaunchConfig config;
  for (std::size_t i = 0; i < LaunchConfig::kMaxAttributes; ++i) config.add({});
  EXPECT_EQ(error_of([&] { config.add({}); }).code(), ErrorCode::kInternal);
}

TEST_F(GraphsTest, CapturedGraphReplays) {
  const auto context = Context::retain(fake().driver(), 0);
  const Context::Scope scope(*context);
  const Module module = load_module(context);
  const CUfunction function = module.function("add_one");
  const Stream stream(context);
  const DeviceMemory memory(context, 256);
  std::memset(reinterpret_cast<void*>(memory.address()), 0, 256);

  std::uint64_t address = memory.address();
  void* arguments[] = {&address};
  const Graph graph = Graph::capture(context, stream.handle(), [&](CUstream s) {
    launch(context->driver(), function, {}, s, arguments);
    context->driver().memcpy_dtod_async(address + 8, address, 4, s);
    launch(context->driver(), function, {}, s, arguments);
  });
  address = 0;  // parameters were copied
  EXPECT_EQ(*reinterpret_cast<int*>(memory.address()), 0);
  const GraphExec exec(graph);
  EXPECT_EQ(exec.nodes().kernels, 2u);
  EXPECT_EQ(exec.nodes().copies, 1u);
  EXPECT_EQ(exec.nodes().total(), 3u);
  exec.upload(stream.handle());
  exec.launch(stream.handle());
  exec.launch(stream.handle());
  stream.synchronize();
  EXPECT_EQ(reinterpret_cast<int*>(memory.address())[0], 4);
  EXPECT_EQ(reinterpret_cast<int*>(memory.address())[2], 3);
}

TEST_F(GraphsTest, NothingOverlapsWithWhatIsInFrontOfAnEmptyNode) {
  const auto context = Context::retain(fake().driver(), 0);
  const Context::Scope scope(*context);
  const Module module = load_module(context);
  const CUfunction function = module.function("add_one");
  const Stream stream(context);
  const DeviceMemory memory(context, 256);
  std::memset(reinterpret_cast<void*>(memory.address()), 0, 256);
  std::uint64_t address = memory.address();
  void* arguments[] = {&address};
  ASSERT_TRUE(can_add_to_capture(context->driver()));
  const auto put = [&](CUstream s) {
    end_overlap(context->driver(), s);  // with nothing in front there is nothing to end
    launch(context->driver(), function, {}, s, arguments);
    end_overlap(context->driver(), s);
    launch(context->driver(), function, {}, s, arguments);
  };
  const GraphExec exec(Graph::capture(context, stream.handle(), put));
  EXPECT_EQ(exec.nodes().kernels, 2u);
  EXPECT_EQ(exec.nodes().total(), 3u);
  exec.launch(stream.handle());
  put(stream.handle());
  stream.synchronize();
  EXPECT_EQ(*reinterpret_cast<int*>(memory.address()), 4);
}

TEST_F(GraphsTest, FailedCaptureIsAnErrorAndFreesTheStream) {
  const auto context = Context::retain(fake().driver(), 0);
  const Stream stream(context);
  fake().fail_next["cuStreamEndCapture"] = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const Error error = error_of([&] { Graph::capture(context, stream.handle(), [](CUstream) {}); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("capturing"), HasSubstr("cuStreamEndCapture")));
  EXPECT_EQ(Graph::capture(context, stream.handle(), [](CUstream) {}).count_nodes().total(), 0u);
}

TEST_F(GraphsTest, SynchronisingInACaptureFailsIt) {
  const auto context = Context::retain(fake().driver(), 0);
  const Stream stream(context);
  EXPECT_EQ(error_of([&] {
              Graph::capture(context, stream.handle(), [&](CUstream) { stream.synchronize(); });
            }).code(),
            ErrorCode::kDevice);
}

TEST_F(GraphsTest, ErrorWhileRecordingEndsTheCapture) {
  const auto context = Context::retain(fake().driver(), 0);
  const Stream stream(context);
  const Error error = error_of([&] {
    Graph::capture(context, stream.handle(),
                   [](CUstream) { throw Error(ErrorCode::kUnsupported, "from inside"); });
  });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("from inside"));
  const Context::Scope scope(*context);
  stream.synchronize();  // refused if a capture were left open
}

TEST_F(GraphsTest, UpdateTakesSameNodesOnly) {
  const auto context = Context::retain(fake().driver(), 0);
  const Context::Scope scope(*context);
  const Stream stream(context);
  const DeviceMemory memory(context, 256);
  const auto fill = [&](int times, unsigned char value) {
    return Graph::capture(context, stream.handle(), [&](CUstream s) {
      for (int i = 0; i < times; ++i)
        context->driver().memset_d8_async(memory.address(), value, 1, s);
    });
  };
  GraphExec exec(fill(1, 1));
  EXPECT_TRUE(exec.update(fill(1, 2)));
  EXPECT_FALSE(exec.update(fill(2, 3)));
  exec.launch(stream.handle());
  EXPECT_EQ(*reinterpret_cast<unsigned char*>(memory.address()), 2);
  fake().fail_next["cuGraphExecUpdate_v2"] = CUDA_ERROR_LAUNCH_FAILED;
  EXPECT_EQ(error_of([&] { exec.update(fill(1, 4)); }).code(), ErrorCode::kDevice);
}

TEST_F(GraphsTest, EventsMeasure) {
  const auto context = Context::retain(fake().driver(), 0);
  const Context::Scope scope(*context);
  const Event start(context, true);
  const Event stop(context, true);
  start.record(nullptr);
  fake().clock += 25;
  stop.record(nullptr);
  EXPECT_NEAR(stop.microseconds_since(start), 25, 1e-3);
}

TEST(GraphCacheTest, EvictsLeastRecentlyUsed) {
  GraphCache<int> cache(2);
  cache.insert({1}, std::make_shared<int>(1));
  cache.insert({2}, std::make_shared<int>(2));
  ASSERT_TRUE(cache.find({1}));
  cache.insert({3}, std::make_shared<int>(3));
  EXPECT_FALSE(cache.find({2}));
  EXPECT_EQ(*cache.find({1}), 1);
  EXPECT_EQ(*cache.find({3}), 3);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(GraphCacheTest, EntryInUseOutlivesItsEviction) {
  GraphCache<int> cache(1);
  cache.insert({1}, std::make_shared<int>(1));
  const auto used = cache.find({1});
  cache.insert({2}, std::make_shared<int>(2));
  EXPECT_EQ(*used, 1);
  EXPECT_EQ(used.use_count(), 1);
}

TEST(GraphCacheTest, SameKeyReplacesAndZeroCapacityIsOne) {
  GraphCache<int> cache(0);
  EXPECT_EQ(cache.capacity(), 1u);
  cache.insert({1, 2}, std::make_shared<int>(1));
  cache.insert({1, 2}, std::make_shared<int>(5));
  EXPECT_EQ(*cache.find({1, 2}), 5);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_FALSE(cache.find({1}));
  cache.clear();
  EXPECT_FALSE(cache.find({1, 2}));
}

}  // namespace
}  // namespace sinter::graphs
