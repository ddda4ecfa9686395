// SPDX-License-Identifier: Apache-2.0
// Sessions on a real GPU from several threads, and in the order of the user's streams.
#include <atomic>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/devices.h>
#include <sinter/dlpack.h>
#include <sinter/sinter_c.h>

#include "graphs/graph_exec.h"
#include "graphs/memory.h"
#include "graphs/stream.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

using ::testing::HasSubstr;

/// A graph, its plan, and for some inputs what they give in a session used by one thread.
class Streams : public ::testing::Test {
 protected:
  static constexpr std::size_t kInputs = 6;

  void SetUp() override {
    context = graphs::Context::retain(graphs::Driver::system(), 0);
    scope.emplace(*context);
    file = plan_bytes(graph, true);
    plan.emplace(Plan::from_memory(file));
    Session session(*plan);
    for (std::size_t i = 0; i < kInputs; ++i) {
      inputs.push_back(random_inputs(graph, {{"batch", 2}, {"seq", 33}}, i));
      expected.push_back(run(session, graph, inputs.back()));
    }
  }

  std::size_t input_bytes() const { return inputs[0][0].bytes().size(); }
  TensorView device_input(const graphs::DeviceMemory& at) const {
    return {inputs[0][0].dtype(), inputs[0][0].shape(), reinterpret_cast<const void*>(at.address()),
            Memory::kDevice, 0};
  }
  MutableTensorView device_output(const graphs::DeviceMemory& at) const {
    return {DType::kFloat32, expected[0][0].shape(), reinterpret_cast<void*>(at.address()),
            Memory::kDevice, 0};
  }
  ir::Tensor fetch(const graphs::DeviceMemory& from, CUstream stream) const {
    std::vector<std::byte> bytes(from.size());
    context->driver().memcpy_dtoh_async(bytes.data(), from.address(), bytes.size(), stream);
    context->driver().stream_synchronize(stream);
    return ir::Tensor(DType::kFloat32, expected[0][0].shape(), ir::Buffer::take(std::move(bytes)));
  }

  const ir::Graph graph = graph_of(case_named("encoder_layer"), DType::kFloat32);
  graphs::ContextPtr context;
  std::optional<graphs::Context::Scope> scope;
  std::vector<std::byte> file;
  std::optional<Plan> plan;
  std::vector<std::vector<ir::Tensor>> inputs, expected;
};

TEST_F(Streams, SessionsOfAPlanRunOnThreadsAndStreamsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const graphs::Context::Scope here(*context);
      const graphs::Stream stream(context);
      Session mine(*plan);
      for (std::size_t i = 0; i < 60; ++i) {
        const std::size_t which = (i + t) % kInputs;
        mine.set_input("ids", view_of(inputs[which][0]));
        // Now a stream of the thread's, now the session's, now the thread's default one.
        mine.run_async(i % 3 == 0   ? stream.handle()
                       : i % 3 == 1 ? nullptr
                                    : static_cast<void*>(CU_STREAM_PER_THREAD));
        expect_same_bits({tensor_of(mine.output("y")), tensor_of(mine.output("mean"))},
                         expected[which]);
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(Streams, ASessionMovesBetweenThreadsWithItsRunInFlight) {
  Session session(*plan);
  for (std::size_t i = 0; i < kInputs; ++i) {
    std::thread([&, mine = std::move(session)]() mutable {
      mine.set_input("ids", view_of(inputs[i][0]));
      mine.run_async();
      session = std::move(mine);
    }).join();
    expect_same_bits({tensor_of(session.output("y")), tensor_of(session.output("mean"))},
                     expected[i]);
  }
}

TEST_F(Streams, DeviceInputsAreOverwrittenInTheOrderOfTheStream) {
  const graphs::Stream stream(context);
  graphs::DeviceMemory in(context, input_bytes());
  std::vector<graphs::PinnedMemory> sources;
  std::vector<graphs::DeviceMemory> results;
  for (std::size_t i = 0; i < kInputs; ++i) {
    sources.emplace_back(context, input_bytes());
    std::memcpy(sources[i].data(), inputs[i][0].bytes().data(), input_bytes());
    results.emplace_back(context, expected[i][0].bytes().size());
  }
  const graphs::DeviceMemory out(context, results[0].size());
  const auto& driver = context->driver();
  Session session(*plan);
  session.use_input("ids", device_input(in));
  session.set_output("y", device_output(out));
  driver.memset_d8_async(in.address(), 0, in.size(), stream.handle());
  session.run_async(stream.handle());  // prepares: what follows is queued without waiting
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      driver.memcpy_htod_async(in.address(), sources[i].data(), in.size(), stream.handle());
      session.run_async(stream.handle());
      // Behind the run: its input may go, and its result is there.
      driver.memset_d8_async(in.address(), 0, in.size(), stream.handle());
      driver.memcpy_dtod_async(results[i].address(), out.address(), out.size(), stream.handle());
    }
    stream.synchronize();
    for (std::size_t i = 0; i < kInputs; ++i)
      EXPECT_TRUE(fetch(results[i], stream.handle()) == expected[i][0]) << i << " of " << round;
  }
  session.await();
}

TEST_F(Streams, RunsOfASessionOnSeveralStreamsFollowEachOther) {
  const graphs::Stream a(context), b(context);
  graphs::DeviceMemory in(context, input_bytes());
  const graphs::DeviceMemory out(context, expected[0][0].bytes().size());
  context->driver().memcpy_htod_async(in.address(), inputs[2][0].bytes().data(), in.size(),
                                      a.handle());
  a.synchronize();
  Session session(*plan);
  session.use_input("ids", device_input(in));
  session.set_output("y", device_output(out));
  for (int i = 0; i < 50; ++i) {
    session.run_async(a.handle());
    session.run_async(b.handle());
    session.run_async();
  }
  session.await();
  EXPECT_TRUE(fetch(out, a.handle()) == expected[2][0]);
}

TEST_F(Streams, AStreamThatIsCapturingIsRefused) {
  const graphs::Stream stream(context);
  Session session(*plan);
  session.set_input("ids", view_of(inputs[0][0]));
  session.run();
  graphs::Graph::capture(context, stream.handle(), [&](CUstream capturing) {
    try {
      session.run_async(capturing);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("capturing"));
    }
  });
  session.run_async(stream.handle());
  EXPECT_TRUE(tensor_of(session.output("y")) == expected[0][0]);
}

TEST_F(Streams, OneSessionOnTheDefaultStreamsOfSeveralThreads) {
  Session session(*plan);
  for (std::size_t i = 0; i < 2 * kInputs; ++i)
    std::thread([&] {
      const graphs::Context::Scope here(*context);
      session.set_input("ids", view_of(inputs[i % kInputs][0]));
      for (int run = 0; run < 3; ++run) session.run_async(CU_STREAM_PER_THREAD);
    }).join();
  EXPECT_TRUE(tensor_of(session.output("y")) == expected[kInputs - 1][0]);
}

/// The C ABI on a GPU: memory there, a stream of the caller's, DLPack out.
TEST_F(Streams, InC) {
  std::size_t gpus = 0;
  ASSERT_EQ(sinter_gpu_count(&gpus, nullptr), SINTER_OK);
  EXPECT_GE(gpus, 1u);
  sinter_gpu_info info = {sizeof info};
  ASSERT_EQ(sinter_gpu(0, &info), SINTER_OK);
  EXPECT_GT(info.multiprocessors, 0);

  sinter_plan* c_plan = nullptr;
  sinter_session* session = nullptr;
  ASSERT_EQ(sinter_plan_from_memory(file.data(), file.size(), &c_plan), SINTER_OK);
  sinter_session_options options = {sizeof options};
  options.output_memory = SINTER_DEVICE;
  ASSERT_EQ(sinter_session_create(c_plan, &options, &session), SINTER_OK) << sinter_last_error();
  std::size_t ids = 9, y = 9;
  ASSERT_EQ(sinter_plan_input_index(c_plan, "ids", &ids), SINTER_OK);
  ASSERT_EQ(sinter_plan_output_index(c_plan, "y", &y), SINTER_OK);

  const ir::Tensor &in = inputs[0][0], &wanted = expected[0][0];
  sinter_device_buffer *from = nullptr, *to = nullptr;
  ASSERT_EQ(sinter_device_buffer_create(0, in.bytes().size(), &from), SINTER_OK);
  ASSERT_EQ(sinter_device_buffer_create(0, wanted.bytes().size(), &to), SINTER_OK);
  ASSERT_EQ(sinter_device_buffer_write(from, 0, in.bytes().data(), in.bytes().size()), SINTER_OK);
  sinter_tensor source = {sizeof source};
  source.dtype = static_cast<sinter_dtype>(in.dtype());
  source.rank = static_cast<std::int32_t>(in.shape().size());
  source.shape = in.shape().data();
  source.data = sinter_device_buffer_data(from);
  source.bytes = in.bytes().size();
  source.memory = SINTER_DEVICE;
  sinter_mutable_tensor target = {sizeof target};
  target.dtype = SINTER_FLOAT32;
  target.rank = static_cast<std::int32_t>(wanted.shape().size());
  target.shape = wanted.shape().data();
  target.data = sinter_device_buffer_data(to);
  target.bytes = wanted.bytes().size();
  target.memory = SINTER_DEVICE;
  ASSERT_EQ(sinter_session_use_input(session, ids, &source), SINTER_OK) << sinter_last_error();
  ASSERT_EQ(sinter_session_set_output(session, y, &target), SINTER_OK) << sinter_last_error();
  const graphs::Stream stream(context);
  ASSERT_EQ(sinter_session_run_async(session, stream.handle()), SINTER_OK) << sinter_last_error();
  ASSERT_EQ(sinter_session_await(session), SINTER_OK);
  std::vector<std::byte> found(wanted.bytes().size());
  ASSERT_EQ(sinter_device_buffer_read(to, 0, found.data(), found.size()), SINTER_OK);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), wanted.bytes().begin()));

  ASSERT_EQ(sinter_session_set_output(session, y, nullptr), SINTER_OK);
  ASSERT_EQ(sinter_session_run(session), SINTER_OK);
  void* lent = nullptr;
  ASSERT_EQ(sinter_session_output_dlpack(session, y, &lent), SINTER_OK);
  auto* tensor = static_cast<dlpack::VersionedTensor*>(lent);
  EXPECT_EQ(tensor->tensor.device.type, dlpack::DeviceType::kCuda);
  sinter_session_free(session);
  sinter_plan_free(c_plan);
  // The memory is the loan's, though the session is freed.
  context->driver().memcpy_dtoh_async(found.data(),
                                      reinterpret_cast<CUdeviceptr>(tensor->tensor.data),
                                      found.size(), stream.handle());
  stream.synchronize();
  EXPECT_TRUE(std::equal(found.begin(), found.end(), wanted.bytes().begin()));
  tensor->deleter(tensor);

  // Memory of the wrong kind is an error.
  ASSERT_EQ(sinter_plan_from_memory(file.data(), file.size(), &c_plan), SINTER_OK);
  ASSERT_EQ(sinter_session_create(c_plan, nullptr, &session), SINTER_OK);
  source.data = in.bytes().data();
  EXPECT_EQ(sinter_session_use_input(session, ids, &source), SINTER_ERROR_USAGE);
  sinter_session_free(session);
  sinter_plan_free(c_plan);
  sinter_device_buffer_free(from);
  sinter_device_buffer_free(to);
}

TEST_F(Streams, HostMemoryOfTheUsersIsFilledByAwait) {
  Session session(*plan);
  std::vector<float> y(static_cast<std::size_t>(expected[0][0].element_count()));
  session.set_output("y", MutableTensorView::of(expected[0][0].shape(), y));
  for (std::size_t i = 0; i < kInputs; ++i) {
    session.set_input("ids", view_of(inputs[i][0]));
    session.run_async();
    session.await();
    EXPECT_EQ(std::memcmp(y.data(), expected[i][0].bytes().data(), 4 * y.size()), 0) << i;
  }
}

TEST_F(Streams, ManyThreadsInOneSessionAreErrorsAndNoRace) {
  Session session(*plan);
  session.set_input("ids", view_of(inputs[0][0]));
  session.run();
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        try {
          session.run();
          ++served;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
        }
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_GT(served, 0);
  expect_same_bits({tensor_of(session.output("y")), tensor_of(session.output("mean"))},
                   expected[0]);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

TEST_F(Streams, WrongKindsOfMemoryAreRefused) {
  const graphs::DeviceMemory device(context, input_bytes());
  const graphs::PinnedMemory pinned(context, input_bytes());
  std::memcpy(pinned.data(), inputs[0][0].bytes().data(), input_bytes());
  Session session(*plan);
  TensorView view = device_input(device);
  view.memory = Memory::kHost;
  view.device = -1;
  EXPECT_THAT(refusal([&] { session.set_input("ids", view); }),
              HasSubstr("'ids' is given as host memory, but"));
  view = view_of(inputs[0][0]);
  view.memory = Memory::kDevice;
  alignas(64) static std::byte host[4096];
  view.data = host;
  EXPECT_THAT(refusal([&] { session.set_input("ids", view); }),
              HasSubstr("'ids' is given as device memory, but"));
  view.data = pinned.data();
  EXPECT_THAT(refusal([&] { session.use_input("ids", view); }),
              HasSubstr("'ids' is given as device memory, but"));
  view = device_input(device);
  view.device = 7;
  EXPECT_THAT(refusal([&] { session.set_input("ids", view); }), HasSubstr("memory of GPU 7"));
  // Page-locked host memory is host memory.
  view = view_of(inputs[0][0]);
  view.data = pinned.data();
  session.set_input("ids", view);
  session.run();
  expect_same_bits({tensor_of(session.output("y")), tensor_of(session.output("mean"))},
                   expected[0]);
}

TEST_F(Streams, DeviceBuffersAndLentOutputsOfTheApi) {
  DeviceBuffer in(0, input_bytes());
  in.copy_from_host(inputs[1][0].bytes().data(), input_bytes());
  SessionOptions options;
  options.output_memory = Memory::kDevice;
  Session session(*plan, options);
  session.use_input(
      "ids", {inputs[1][0].dtype(), inputs[1][0].shape(), in.data(), Memory::kDevice, in.device()});
  session.run();
  const std::size_t y = session.plan().output_index("y");
  dlpack::VersionedTensor* lent = to_dlpack(session, y);
  EXPECT_EQ(lent->tensor.device.type, dlpack::DeviceType::kCuda);
  EXPECT_THAT(refusal([&] { session.run(); }), HasSubstr("lent out"));
  Session next(
      *plan);  // an encoder takes no such input; what is checked is that it is device memory
  EXPECT_THAT(refusal([&] { next.set_input("ids", from_dlpack(lent->tensor)); }),
              HasSubstr("of type f32"));
  lent->deleter(lent);
  session.run();
}

}  // namespace
}  // namespace sinter::gpu_test
