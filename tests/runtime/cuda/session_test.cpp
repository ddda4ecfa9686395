// SPDX-License-Identifier: Apache-2.0
// The public Session over the fake driver: streams, threads, kinds of memory.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/allocator.h>
#include <sinter/dlpack.h>

#include "cuda_fixture.h"
#include "graphs/graph_exec.h"
#include "graphs/memory.h"
#include "graphs/stream.h"
#include "runtime/session_access.h"
#include "tests/runtime/api/api_plans.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// y[n] = 2 (x[n] + 1) on the fake GPU.
class CudaSessionTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    context = graphs::Context::retain(fake().driver(), 0);
    memory = graphs::DeviceMemory(context, 4096);
    values = reinterpret_cast<float*>(memory.address());
    data = chain_plan();
  }
  void TearDown() override {
    memory = {};
    context.reset();
    CudaTest::TearDown();
  }
  Session make(SessionOptions options = {}) {
    const auto plan = PlanAccess::make(data);
    return SessionAccess::make(plan, options,
                               runtime::make_cuda_executor(environment(), data, options));
  }
  TensorView device(std::size_t element, std::int64_t count) const {
    return {DType::kFloat32, {count}, values + element, Memory::kDevice, 0};
  }
  MutableTensorView device_target(std::size_t element, std::int64_t count) const {
    return {DType::kFloat32, {count}, values + element, Memory::kDevice};
  }

  std::shared_ptr<const plan::PlanData> data;
  graphs::ContextPtr context;
  graphs::DeviceMemory memory;
  float* values = nullptr;
};

TEST_F(CudaSessionTest, RunAsyncReturnsWithoutWaiting) {
  Session session = make();
  session.use_input("x", device(0, 4));
  session.set_output("y", device_target(64, 4));
  session.run();
  fake().calls.clear();
  for (int i = 0; i < 3; ++i) session.run_async();
  EXPECT_EQ(fake().calls["cuGraphLaunch"], 3);
  EXPECT_EQ(fake().calls["cuStreamSynchronize"] + fake().calls["cuEventSynchronize"], 0);
  // Neither does asking where a result in device memory is.
  EXPECT_EQ(session.output("y").data, values + 64);
  EXPECT_EQ(session.output("y").device, 0);
  EXPECT_EQ(fake().calls["cuStreamSynchronize"], 0);
  session.await();
  EXPECT_EQ(fake().calls["cuStreamSynchronize"], 1);
  session.await();
  EXPECT_EQ(fake().calls["cuStreamSynchronize"], 1);
}

TEST_F(CudaSessionTest, HostOutputsAreWaitedFor) {
  Session session = make();
  session.set_input("x", {2}, std::vector<float>{1, 2});
  session.run();
  fake().calls.clear();
  session.run_async();
  EXPECT_EQ(fake().calls["cuStreamSynchronize"], 0);
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(4, 6));
  EXPECT_EQ(fake().calls["cuStreamSynchronize"], 1);
}

TEST_F(CudaSessionTest, SettingAHostInputWaitsForTheRunThatReadsIt) {
  Session session = make();
  session.set_input("x", {2}, std::vector<float>{1, 2});
  session.run();
  session.run_async();
  fake().calls.clear();
  session.set_input("x", {2}, std::vector<float>{5, 6});
  EXPECT_EQ(fake().calls["cuStreamSynchronize"], 1);
}

TEST_F(CudaSessionTest, RunsOfSeveralStreamsFollowEachOther) {
  const graphs::Stream a(context), b(context);
  Session session = make();
  session.use_input("x", device(0, 4));
  session.set_output("y", device_target(64, 4));
  session.run();
  fake().calls.clear();
  session.run_async(a.handle());
  EXPECT_EQ(fake().calls["cuStreamWaitEvent"], 0);
  EXPECT_EQ(fake().calls["cuEventRecord"], 1);  // for whoever comes next, and for await
  session.run_async(b.handle());
  EXPECT_EQ(fake().calls["cuStreamWaitEvent"], 1);
  session.run_async();
  EXPECT_EQ(fake().calls["cuStreamWaitEvent"], 2);
  EXPECT_EQ(fake().calls["cuStreamSynchronize"] + fake().calls["cuEventSynchronize"], 0);
  session.run_async(a.handle());
  session.await();
  EXPECT_EQ(fake().calls["cuEventSynchronize"], 1);
}

TEST_F(CudaSessionTest, EqualHandlesMayBeDifferentStreams) {
  // CU_STREAM_PER_THREAD is another stream on another thread, and a stream that was destroyed may
  // have left its handle to a new one.
  Session session = make();
  session.use_input("x", device(0, 4));
  session.set_output("y", device_target(64, 4));
  const graphs::Stream stream(context);
  session.run_async(stream.handle());
  fake().calls.clear();
  session.run_async(stream.handle());
  EXPECT_EQ(fake().calls["cuStreamWaitEvent"], 1);
  session.run_async();
  session.run_async();
  EXPECT_EQ(fake().calls["cuStreamWaitEvent"], 2) << "its own it knows";
}

TEST_F(CudaSessionTest, AStreamThatIsCapturingIsRefused) {
  Session session = make();
  session.use_input("x", device(0, 4));
  session.set_output("y", device_target(64, 4));
  const graphs::Stream stream(context);
  graphs::Graph::capture(context, stream.handle(), [&](CUstream capturing) {
    EXPECT_THAT(usage_of([&] { session.run_async(capturing); }), HasSubstr("capturing"));
  });
  session.run_async(stream.handle());
  session.await();
}

TEST_F(CudaSessionTest, DeviceInputsMayChangeBetweenRunsOfAStream) {
  const graphs::Stream stream(context);
  Session session = make();
  session.use_input("x", device(0, 2));
  session.set_output("y", device_target(64, 2));
  for (int i = 0; i < 3; ++i) {
    // In front of the run on its stream, and behind it: nobody waits in between.
    fake().put(stream.handle(), CU_GRAPH_NODE_TYPE_HOST, [&, i] { values[0] = values[1] = i; });
    session.run_async(stream.handle());
    fake().put(stream.handle(), CU_GRAPH_NODE_TYPE_HOST, [&] { values[0] = values[1] = -1; });
    session.await();
    EXPECT_EQ(values[64], 2.0F * static_cast<float>(i + 1));
  }
}

TEST_F(CudaSessionTest, WrongKindsOfMemoryAreRefused) {
  Session session = make();
  alignas(64) static float host[4] = {};
  const auto expect = [](const std::function<void()>& call, const auto& message) {
    EXPECT_THAT(usage_of(call), message);
  };
  expect(
      [&] {
        session.set_input("x", {DType::kFloat32, {4}, host, Memory::kDevice});
      },
      AllOf(HasSubstr("input 'x' is given as device memory"), HasSubstr("is none")));
  expect(
      [&] {
        session.set_input("x", TensorView{DType::kFloat32, {4}, values});
      },
      AllOf(HasSubstr("input 'x' is given as host memory"), HasSubstr("is device memory")));
  expect(
      [&] {
        session.set_output("y", MutableTensorView{DType::kFloat32, {4}, values});
      },
      AllOf(HasSubstr("output 'y' is given as host memory"), HasSubstr("is device memory")));
  expect(
      [&] {
        session.use_input("x", TensorView{DType::kFloat32, {4}, host});
      },
      AllOf(HasSubstr("'x' is in host memory"), HasSubstr("set_input copies it")));
  TensorView foreign = device(0, 4);
  foreign.device = 1;
  expect([&] { session.set_input("x", foreign); },
         HasSubstr("input 'x' is memory of GPU 1, the session is on GPU 0"));
  SessionOptions options;
  options.output_memory = Memory::kDevice;
  Session stays = make(options);
  expect(
      [&] {
        stays.set_output("y", MutableTensorView{DType::kFloat32, {4}, host});
      },
      HasSubstr("output_memory"));
}

TEST_F(CudaSessionTest, HostMemoryOfTheUsersIsFilledByAwait) {
  Session session = make();
  session.set_input("x", {2}, std::vector<float>{1, 2});
  std::vector<float> first(2), second(2);
  session.set_output("y", MutableTensorView::of({2}, first));
  session.run();
  EXPECT_THAT(first, ElementsAre(4, 6));
  EXPECT_EQ(session.output("y").data, first.data());
  // One after the other without waiting: each gets its own.
  first = {0, 0};
  session.run_async();
  session.set_output("y", MutableTensorView::of({2}, second));
  session.run_async();
  EXPECT_THAT(first, ElementsAre(4, 6));
  session.await();
  EXPECT_THAT(second, ElementsAre(4, 6));
  // A session that ends leaves the memory alone, which may be gone.
  second = {0, 0};
  session.run_async();
  session = make();
  EXPECT_THAT(second, ElementsAre(0, 0));
}

TEST_F(CudaSessionTest, SessionsRunOnThreadsAndStreamsOfTheirOwn) {
  const Plan plan = PlanAccess::make(data);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const graphs::Stream stream(context);
      Session mine = make();
      for (int n = 1; n < 20; ++n) {
        const std::vector<float> x(static_cast<std::size_t>(n), static_cast<float>(t * 100 + n));
        mine.set_input("x", {n}, x);
        mine.run_async(n % 2 ? stream.handle() : nullptr);
        for (const float y : mine.output("y").as<float>()) ASSERT_EQ(y, 2 * (x[0] + 1));
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(CudaSessionTest, ASessionMovesBetweenThreads) {
  Session session = make();
  for (int i = 0; i < 3; ++i)
    std::thread([&, mine = std::move(session)]() mutable {
      mine.set_input("x", {1}, std::vector<float>{static_cast<float>(i)});
      mine.run_async();
      session = std::move(mine);  // with its run in flight
    }).join();
  EXPECT_THAT(session.output("y").as<float>(), ElementsAre(6));
}

TEST_F(CudaSessionTest, ManyThreadsInOneSessionRaceForNothing) {
  Session session = make();
  session.use_input("x", device(0, 4));
  session.set_output("y", device_target(64, 4));
  session.run();
  std::atomic<int> served{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        try {
          session.run_async();
          ++served;
          session.await();
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("two threads at once"));
          ++refused;
        }
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_GT(served, 0);
}

class DevicePool final : public Allocator {
 public:
  void* allocate(Memory memory, int device, std::size_t bytes,
                 std::size_t alignment) noexcept override {
    EXPECT_EQ(memory, Memory::kDevice);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(alignment, 256u);
    if (is_empty) return nullptr;
    CUdeviceptr address = 0;
    fake().driver().mem_alloc(&address, bytes);
    held += bytes;
    return reinterpret_cast<void*>(address);
  }
  void deallocate(void* data, Memory, int, std::size_t bytes, std::size_t) noexcept override {
    fake().driver().mem_free(reinterpret_cast<CUdeviceptr>(data));
    held -= bytes;
  }
  std::size_t held = 0;
  bool is_empty = false;
};

TEST_F(CudaSessionTest, DeviceMemoryIsTheProgramsAllocators) {
  const auto pool = std::make_shared<DevicePool>();
  SessionOptions options;
  options.allocator = pool;
  {
    Session session = make(options);
    session.set_input("x", {100}, std::vector<float>(100, 1));
    session.run();
    const MemoryAccount account = session.memory();
    EXPECT_EQ(pool->held, account.arena + account.io + account.workspace);
    pool->is_empty = true;
    try {
      session.warm_up({{"x", {10000}}});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      EXPECT_THAT(error.what(), HasSubstr("allocator"));
    }
    pool->is_empty = false;
    session.run();
    EXPECT_EQ(session.output("y").as<float>()[99], 4);
  }
  EXPECT_EQ(pool->held, 0u);
}

TEST_F(CudaSessionTest, DeviceOutputsAreLentWithTheirGpu) {
  SessionOptions options;
  options.output_memory = Memory::kDevice;
  Session session = make(options);
  session.set_input("x", {2}, std::vector<float>{1, 2});
  session.run();
  dlpack::VersionedTensor* lent = to_dlpack(session, 0);
  EXPECT_EQ(lent->tensor.device.type, dlpack::DeviceType::kCuda);
  EXPECT_EQ(lent->tensor.device.id, 0);
  const TensorView view = from_dlpack(lent->tensor);
  EXPECT_EQ(view.memory, Memory::kDevice);
  EXPECT_EQ(static_cast<const float*>(view.data)[1], 6);
  lent->deleter(lent);
}

TEST_F(CudaSessionTest, AFailedRunIsSaidOnceAndLeavesNoOutput) {
  Session session = make();
  session.set_input("x", {1}, std::vector<float>{1});
  session.run();
  session.run_async();
  fake().fail_next["cuStreamSynchronize"] = CUDA_ERROR_LAUNCH_FAILED;
  EXPECT_THROW(session.await(), Error);
  session.await();
  EXPECT_THAT(usage_of([&] { session.output(0); }), HasSubstr("before a run"));
  session.run();
  EXPECT_THAT(session.output(0).as<float>(), ElementsAre(4));
  // The next call hears of it, whichever that is.
  session.run_async();
  fake().fail_next["cuStreamSynchronize"] = CUDA_ERROR_LAUNCH_FAILED;
  EXPECT_THROW(session.set_input("x", {1}, std::vector<float>{2}), Error);
  EXPECT_THAT(usage_of([&] { session.output(0); }), HasSubstr("its run failed"));
}

}  // namespace
}  // namespace sinter::testing
