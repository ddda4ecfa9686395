// SPDX-License-Identifier: Apache-2.0
// Sessions on a real GPU: memory, streams, threads, capture, choice of algorithms.
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/profile.h>
#include <unistd.h>

#include "graphs/graph_exec.h"
#include "graphs/memory.h"
#include "runtime/cuda/device_info.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan_access.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

namespace fs = std::filesystem;
using graphs::Context;

ir::Graph encoder() { return graph_of(case_named("encoder_layer"), DType::kFloat32); }
const ir::Bindings kSizes{{"batch", 2}, {"seq", 33}};

TEST(Machine, HasADriverALibraryAndAGpu) {
  const runtime::CudaInfo info = runtime::query_cuda();
  EXPECT_TRUE(info.has_driver) << info.driver_problem;
  EXPECT_TRUE(info.has_cublaslt) << info.cublaslt_problem;
  ASSERT_FALSE(info.gpus.empty());
  EXPECT_GE(info.driver_version, 12000);
  EXPECT_GT(info.gpus[0].multiprocessors, 0);
  EXPECT_GT(info.gpus[0].memory_bytes, 0u);
  EXPECT_GT(info.gpus[0].l2_bytes, 0u);
  for (const auto& gpu : info.gpus) RecordProperty("gpu" + std::to_string(gpu.index), gpu.name);
}

TEST(Driver, MemoryStreamsEventsAndGraphsWork) {
  const auto context = Context::retain(graphs::Driver::system(), 0);
  const Context::Scope scope(*context);
  const graphs::Stream stream(context);
  constexpr std::uint64_t kBytes = 1 << 20;
  const graphs::DeviceMemory device(context, kBytes);
  const graphs::PinnedMemory host(context, kBytes);
  std::fill_n(host.data(), kBytes, std::byte{1});
  const graphs::Graph graph = graphs::Graph::capture(context, stream.handle(), [&](CUstream s) {
    context->driver().memset_d8_async(device.address(), 7, kBytes, s);
    context->driver().memcpy_dtoh_async(host.data(), device.address(), kBytes, s);
  });
  EXPECT_EQ(host.data()[5], std::byte{1});
  const graphs::GraphExec exec(graph);
  EXPECT_EQ(exec.nodes().total(), 2u);
  EXPECT_EQ(exec.nodes().copies, 1u);
  const graphs::Event start(context, true);
  const graphs::Event stop(context, true);
  exec.upload(stream.handle());
  start.record(stream.handle());
  exec.launch(stream.handle());
  stop.record(stream.handle());
  stop.synchronize();
  EXPECT_GT(stop.microseconds_since(start), 0);
  EXPECT_EQ(host.data()[0], std::byte{7});
  EXPECT_EQ(host.data()[kBytes - 1], std::byte{7});
}

TEST(Driver, SynchronisingInACaptureIsAnErrorAndNotTheEnd) {
  const auto context = Context::retain(graphs::Driver::system(), 0);
  const Context::Scope scope(*context);
  const graphs::Stream stream(context);
  EXPECT_THROW(
      graphs::Graph::capture(context, stream.handle(), [&](CUstream) { stream.synchronize(); }),
      Error);
  stream.synchronize();
}

TEST(Sessions, RepeatedRunsGiveTheSameBits) {
  const ir::Graph graph = encoder();
  Session session(compile(graph, true));
  const auto inputs = random_inputs(graph, kSizes);
  const auto first = run(session, graph, inputs);
  for (int i = 0; i < 20; ++i) expect_same_bits(run(session, graph, inputs), first);
}

TEST(Sessions, TwoSessionsOfAPlanGiveTheSameBits) {
  const ir::Graph graph = encoder();
  const Plan plan = compile(graph, true);
  const auto inputs = random_inputs(graph, kSizes);
  Session first(plan);
  Session second(plan);
  expect_same_bits(run(second, graph, inputs), run(first, graph, inputs));
}

TEST(Sessions, RunInParallel) {
  const ir::Graph graph = encoder();
  const Plan plan = compile(graph, true);
  std::vector<ir::Bindings> sizes;
  std::vector<std::vector<ir::Tensor>> inputs, expected;
  {
    Session session(plan);
    for (int i = 0; i < 8; ++i) {
      sizes.push_back({{"batch", 1 + i % 3}, {"seq", 5 + 9 * i}});
      inputs.push_back(random_inputs(graph, sizes.back(), static_cast<std::uint64_t>(i)));
      expected.push_back(run(session, graph, inputs.back()));
    }
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Session mine(plan);
      for (int i = 0; i < 40; ++i) {
        const auto which = static_cast<std::size_t>((i + t) % 8);
        expect_same_bits(run(mine, graph, inputs[which]), expected[which]);
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(Sessions, SmallGraphCacheStaysRight) {
  const ir::Graph graph = encoder();
  SessionOptions options;
  options.graph_cache = 2;
  Session session(compile(graph, true), options);
  for (int round = 0; round < 3; ++round)
    for (std::int64_t seq : {64, 8, 16, 24, 32}) {
      const auto inputs = random_inputs(graph, {{"batch", 2}, {"seq", seq}});
      expect_reference(graph, inputs, run(session, graph, inputs), 2e-5);
    }
}

TEST(Sessions, WarmShapeIsRunWithoutNewMemory) {
  const ir::Graph graph = encoder();
  const Plan plan = compile(graph, true);
  const auto context = Context::retain(graphs::Driver::system(), 0);
  const auto inputs = random_inputs(graph, {{"batch", 4}, {"seq", 100}});
  // Free memory is the device's: other processes take of it, but not each time.
  bool found = false;
  for (int attempt = 0; attempt < 5 && !found; ++attempt) {
    Session session(plan);
    session.warm_up({{"ids", {4, 100}}});
    const std::uint64_t free_before = context->memory().free_bytes;
    const auto outputs = run(session, graph, inputs);
    // Nothing of ours is as small as what the driver may take for itself.
    found = context->memory().free_bytes + (1 << 20) >= free_before;
    expect_reference(graph, inputs, outputs, 2e-5);
  }
  EXPECT_TRUE(found) << "each of five warm runs has taken memory";
}

class DeviceIo : public ::testing::Test {
 protected:
  void SetUp() override {
    context = Context::retain(graphs::Driver::system(), 0);
    scope.emplace(*context);
    stream.emplace(context);
    inputs = random_inputs(graph, kSizes);
    in = graphs::DeviceMemory(context, inputs[0].bytes().size());
    context->driver().memcpy_htod_async(in.address(), inputs[0].bytes().data(), in.size(),
                                        stream->handle());
    stream->synchronize();
  }
  ir::Tensor fetch(const TensorView& view) const {
    std::vector<std::byte> bytes(view.byte_count());
    context->driver().memcpy_dtoh_async(bytes.data(), reinterpret_cast<CUdeviceptr>(view.data),
                                        bytes.size(), stream->handle());
    stream->synchronize();
    return ir::Tensor(view.dtype, view.shape, ir::Buffer::take(std::move(bytes)));
  }
  TensorView input() const {
    return {DType::kInt64, inputs[0].shape(), reinterpret_cast<const void*>(in.address()),
            Memory::kDevice};
  }

  const ir::Graph graph = encoder();
  graphs::ContextPtr context;
  std::optional<Context::Scope> scope;
  std::optional<graphs::Stream> stream;
  std::vector<ir::Tensor> inputs;
  graphs::DeviceMemory in;
};

TEST_F(DeviceIo, InputsAndOutputsInPlace) {
  const Plan plan = compile(graph, true);
  Session host(plan);
  const auto expected = run(host, graph, inputs);

  Session session(plan);
  const graphs::DeviceMemory out(context, expected[0].bytes().size());
  session.set_input("ids", input());
  session.set_output("y", {DType::kFloat32, expected[0].shape(),
                           reinterpret_cast<void*>(out.address()), Memory::kDevice});
  session.run();
  const TensorView y = session.output("y");
  EXPECT_EQ(y.memory, Memory::kDevice);
  EXPECT_EQ(y.data, reinterpret_cast<const void*>(out.address()));
  expect_same_bits({fetch(y), tensor_of(session.output("mean"))}, expected);
}

TEST_F(DeviceIo, OwnDeviceOutputsAndUserStreams) {
  const Plan plan = compile(graph, true);
  Session host(plan);
  const auto expected = run(host, graph, inputs);

  SessionOptions options;
  options.output_memory = Memory::kDevice;
  Session session(plan, options);
  session.set_input("ids", input());
  for (int i = 0; i < 5; ++i) {
    session.run_async(i % 2 ? stream->handle() : nullptr);
    session.await();
    expect_same_bits({fetch(session.output("y")), fetch(session.output("mean"))}, expected);
  }
}

TEST_F(DeviceIo, HostPointerAsDeviceMemoryIsRefused) {
  Session session(compile(graph, true));
  TensorView wrong = view_of(inputs[0]);
  wrong.memory = Memory::kDevice;
  try {
    session.set_input("ids", wrong);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
  }
}

TEST(Sessions, OutOfMemoryIsReportedAndSurvived) {
  // Products of the whole of memory: the arena alone needs twice what the GPU has.
  const auto context = Context::retain(graphs::Driver::system(), 0);
  const auto total = static_cast<std::int64_t>(context->memory().total_bytes);
  const ir::Graph graph = graph_of({"wide", R"(
graph @main(%x: T[n, 2]) ranges {n: 1..1000000000} {
  %row = const T[2, 4096] random(1)
  %w = const T[4096, 8] random(2)
  %h = MatMul(%x, %row)
  %y = MatMul(%h, %w)
  return y = %y
})"},
                                   DType::kFloat32);
  Session session(compile(graph, true));
  const auto inputs = random_inputs(graph, {{"n", 3}});
  const auto before = run(session, graph, inputs);
  try {
    session.warm_up({{"x", {2 * total / 4096 / 4, 2}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
    EXPECT_THAT(error.what(), ::testing::HasSubstr("are needed"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("are free"));
  }
  expect_same_bits(run(session, graph, inputs), before);
}

TEST(Sessions, ChosenAlgorithmsAreKept) {
  const fs::path folder = fs::temp_directory_path() / ("sinter_gpu_" + std::to_string(::getpid()));
  SessionOptions options;
  options.tuning_cache = folder.string();
  const ir::Graph graph = encoder();
  const Plan plan = compile(graph, true);
  const auto inputs = random_inputs(graph, kSizes);
  Session first(plan, options);
  const auto expected = run(first, graph, inputs);
  const fs::path file = folder / "cublaslt.tuning";
  ASSERT_TRUE(fs::exists(file));
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  EXPECT_EQ(line, "sinter-tuning 2");
  EXPECT_TRUE(std::getline(stream, line));

  // Read from a copy, as a later process would read the file.
  const fs::path other = folder / "copy";
  fs::create_directories(other);
  fs::copy_file(file, other / "cublaslt.tuning");
  options.tuning_cache = other.string();
  Session second(plan, options);
  expect_same_bits(run(second, graph, inputs), expected);
  fs::remove_all(folder);
}

TEST(Sessions, TimesAreThere) {
  const ir::Graph graph = encoder();
  const Plan plan = compile(graph, true);
  const auto inputs = random_inputs(graph, kSizes);
  for (const bool cuda_graphs : {true, false}) {
    SessionOptions options;
    options.cuda_graphs = cuda_graphs;
    Session session(plan, options);
    const auto expected = run(session, graph, inputs);
    EXPECT_GT(time_compute(session, true), 0);
    EXPECT_GT(time_compute(session, false), 0);
    const auto profile = profile_steps(session);
    EXPECT_EQ(profile.size(), plan.step_count());
    double sum = 0;
    for (const StepTime& step : profile) {
      sum += step.microseconds;
      double parts = 0;
      for (const PartTime& part : step.parts) {
        parts += part.microseconds;
        EXPECT_GT(part.launches, 0u);
        if (!part.kernel) continue;
        EXPECT_GT(part.kernel->registers, 0u) << part.name;
        EXPECT_GT(part.kernel->resident_blocks, 0u) << part.name;
        EXPECT_GT(part.kernel->occupancy, 0) << part.name;
        EXPECT_LE(part.kernel->occupancy, 1) << part.name;
      }
      EXPECT_NEAR(parts, step.microseconds, 1e-6) << step.name;
    }
    const MachineRates rates = measure_rates(session);
    EXPECT_GT(rates.copy_bytes_per_second, 0);
    EXPECT_GT(rates.operations_per_second.at("Half"), rates.operations_per_second.at("Single"));
    EXPECT_GT(sum, 0);
    expect_same_bits(run(session, graph, inputs), expected);
    EXPECT_GT(session.launches(), 0u);
    const MemoryAccount memory = session.memory();
    EXPECT_GT(memory.weights, 0u);
    EXPECT_GT(memory.arena, 0u);
    EXPECT_LE(memory.arena, memory.arena_without_reuse);
    EXPECT_GT(memory.io, 0u);
  }
}

TEST(Sessions, PlanForAnotherGpuIsRefused) {
  // The same plan, said to be for an architecture that this GPU is not.
  const Plan good = compile(encoder(), true);
  plan::PlanParts parts;
  parts.meta = PlanAccess::data(good)->meta;
  for (auto& module : parts.meta.modules) module->target = "sm_50";
  parts.meta.architectures = {"sm_50"};
  parts.weights.push_back({0, PlanAccess::data(good)->weights, PlanAccess::data(good)});
  parts.modules.push_back({0, PlanAccess::data(good)->modules, PlanAccess::data(good)});
  parts.sources.push_back({0, PlanAccess::data(good)->sources, PlanAccess::data(good)});
  const Plan foreign = Plan::from_memory(plan::serialize_plan(parts));
  try {
    Session session(foreign);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--target=cuda:" + architecture()));
  }
}

}  // namespace
}  // namespace sinter::gpu_test
