// SPDX-License-Identifier: Apache-2.0
// Operators that a library puts on a real stream: captured into the plan's graph, between kernels.
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs/driver.h"
#include "ir/text/text.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

using ::testing::HasSubstr;

struct Library {
  int calls = 0;
  bool synchronizes = false;  // which no stream that is captured allows
};

std::int32_t workspace_of(const sinter_operator_call* call, std::size_t* bytes) {
  *bytes = sizeof(float);
  for (int d = 0; d < call->inputs[0].rank; ++d)
    *bytes *= static_cast<std::size_t>(call->inputs[0].shape[d]);
  return 0;
}

/// Copies its input by way of the workspace.
std::int32_t enqueue(const sinter_operator_call* call) {
  auto& library = *static_cast<Library*>(call->user);
  ++library.calls;
  const auto stream = static_cast<CUstream>(call->stream);
  const auto address = [](const void* data) { return reinterpret_cast<CUdeviceptr>(data); };
  try {
    const graphs::Driver& driver = graphs::Driver::system();
    if (library.synchronizes) driver.stream_synchronize(stream);
    driver.memcpy_dtod_async(address(call->workspace), address(call->inputs[0].data),
                             call->workspace_bytes, stream);
    driver.memcpy_dtod_async(address(call->outputs[0].data), address(call->workspace),
                             call->workspace_bytes, stream);
  } catch (const std::exception& error) {
    std::snprintf(call->message, call->message_size, "%s", error.what());
    return 1;
  }
  return 0;
}

class HostOperators : public ::testing::Test {
 protected:
  Session open(bool in_graph = true) {
    const sinter_operator own = {"test::Copy", &library, nullptr, &workspace_of, nullptr, &enqueue};
    SessionOptions options;
    options.cuda_graphs = in_graph;
    options.operator_libraries.push_back(
        OperatorLibrary::of_table({SINTER_OPERATOR_ABI_VERSION, sizeof own, 1, &own}, "mine"));
    return Session(compile(graph, true), options);
  }

  // The reference of Copy is what it does to numbers that are not negative.
  const ir::Graph graph = ir::parse_graph(R"(
graph @main(%x: f32[n, 100]) ranges {n: 1..1000} {
  %s = Sigmoid(%x)
  %c = HostOperator(%s) {operator = "test::Copy"} body (%s) {
    %r = Relu(%s)
    return r = %r
  }
  %y = Neg(%c)
  return y = %y
})");
  Library library;
};

TEST_F(HostOperators, AreReplayedWithTheGraph) {
  Session session = open();
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto inputs = random_inputs(graph, {{"n", 77}}, seed);
    expect_reference(graph, inputs, run(session, graph, inputs), tolerance_of(DType::kFloat32));
  }
  EXPECT_EQ(library.calls, 1);
  const auto inputs = random_inputs(graph, {{"n", 1000}});
  expect_reference(graph, inputs, run(session, graph, inputs), tolerance_of(DType::kFloat32));
  EXPECT_EQ(library.calls, 2);
}

TEST_F(HostOperators, AreCalledInEachRunWithoutGraphs) {
  Session session = open(false);
  const auto inputs = random_inputs(graph, {{"n", 77}});
  for (int i = 1; i <= 3; ++i) {
    expect_reference(graph, inputs, run(session, graph, inputs), tolerance_of(DType::kFloat32));
    EXPECT_EQ(library.calls, i);
  }
}

TEST_F(HostOperators, WhatACaptureDoesNotAllowIsAnError) {
  library.synchronizes = true;
  Session session = open();
  const auto inputs = random_inputs(graph, {{"n", 77}});
  try {
    run(session, graph, inputs);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    EXPECT_THAT(error.what(), HasSubstr("operator 'test::Copy': its 'enqueue' failed with code 1"));
  }
  library.synchronizes = false;
  expect_reference(graph, inputs, run(session, graph, inputs), tolerance_of(DType::kFloat32));
}

}  // namespace
}  // namespace sinter::gpu_test
