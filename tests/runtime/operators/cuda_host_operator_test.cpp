// SPDX-License-Identifier: Apache-2.0
// Operators that a library puts on the stream: what they put there is part of the run's graph.
#ifdef SINTER_WITH_CUDA

#include "tests/runtime/cuda/cuda_fixture.h"

namespace sinter::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Library {
  int calls = 0;
  std::uint64_t workspace = 0;
  bool fails = false;
};

std::int32_t workspace_of(const sinter_operator_call* call, std::size_t* bytes) {
  *bytes = static_cast<std::size_t>(call->inputs[0].shape[0]) * sizeof(float);
  return 0;
}

/// Copies x into the workspace, and that into y.
std::int32_t enqueue(const sinter_operator_call* call) {
  auto& library = *static_cast<Library*>(call->user);
  ++library.calls;
  library.workspace = call->workspace_bytes;
  if (library.fails) {
    std::snprintf(call->message, call->message_size, "no ink");
    return 9;
  }
  const auto address = [](const void* data) { return reinterpret_cast<CUdeviceptr>(data); };
  const auto stream = static_cast<CUstream>(call->stream);
  const graphs::Driver& driver = fake().driver();
  driver.memcpy_dtod_async(address(call->workspace), address(call->inputs[0].data),
                           call->workspace_bytes, stream);
  driver.memcpy_dtod_async(address(call->outputs[0].data), address(call->workspace),
                           call->workspace_bytes, stream);
  return 0;
}

class CudaHostOperatorTest : public CudaTest {
 protected:
  /// y[n] = Copy(x[n] + 1).
  static CudaPlanBuilder builder() {
    CudaPlanBuilder builder;
    const Id n = builder.symbol("n");
    const Id x = builder.input("x", DType::kFloat32, {n});
    const Id t = builder.arena(DType::kFloat32, {n});
    const Id y = builder.output("y", DType::kFloat32, {n});
    builder.kernel("first", "add_one", {x}, {t}, {{fb::ArgKind::Int64, n}});
    fb::HostStepT host;
    host.operator_name = "test::Copy";
    const auto tensor = [&](Id buffer) {
      auto made = std::make_unique<fb::HostTensorT>();
      made->buffer = buffer;
      made->shape = {n};
      return made;
    };
    host.inputs.push_back(tensor(t));
    host.outputs.push_back(tensor(y));
    static_cast<PlanBuilder&>(builder).host("second", std::move(host));
    return builder;
  }
  std::shared_ptr<const runtime::HostOperators> operators(bool on_gpu = true) {
    own = {"test::Copy",
           &library,
           nullptr,
           &workspace_of,
           on_gpu ? nullptr : &enqueue,
           on_gpu ? &enqueue : nullptr};
    return std::make_shared<const runtime::HostOperators>(std::vector{
        OperatorLibrary::of_table({SINTER_OPERATOR_ABI_VERSION, sizeof own, 1, &own}, "mine")});
  }
  void open_with(SessionOptions options = {}) {
    plan = builder().data();
    executor = runtime::make_cuda_executor(environment(), plan, options, operators());
    shapes = std::make_unique<runtime::BoundShapeCache>(plan, 64);
  }

  Library library;
  sinter_operator own{};
};

TEST_F(CudaHostOperatorTest, IsCapturedOnceAndReplayed) {
  open_with();
  set_input(0, {1, 2, 3}, {3});
  run({3});
  EXPECT_THAT(output(), ElementsAre(2, 3, 4));
  EXPECT_EQ(library.calls, 1);
  EXPECT_EQ(library.workspace, 12u);
  set_input(0, {5, 6, 7}, {3});
  run({3});
  EXPECT_THAT(output(), ElementsAre(6, 7, 8));
  EXPECT_EQ(library.calls, 1);
  set_input(0, {1, 2}, {2});
  run({2});
  EXPECT_THAT(output(), ElementsAre(2, 3));
  EXPECT_EQ(library.calls, 2);
  // Of both shapes, which stay captured.
  EXPECT_EQ(executor->memory().workspace, 20u);
}

TEST_F(CudaHostOperatorTest, WithoutGraphsItIsCalledInEachRun) {
  SessionOptions options;
  options.cuda_graphs = false;
  open_with(options);
  set_input(0, {1, 2, 3}, {3});
  for (int i = 1; i <= 3; ++i) {
    run({3});
    EXPECT_EQ(library.calls, i);
  }
  EXPECT_THAT(output(), ElementsAre(2, 3, 4));
}

TEST_F(CudaHostOperatorTest, AFailureEndsTheCapture) {
  open_with();
  library.fails = true;
  set_input(0, {1, 2, 3}, {3});
  const Error error = error_of([&] { run({3}); });
  EXPECT_EQ(error.code(), ErrorCode::kDevice);
  EXPECT_THAT(error.what(), HasSubstr("its 'enqueue' failed with code 9: no ink"));
  library.fails = false;
  run({3});
  EXPECT_THAT(output(), ElementsAre(2, 3, 4));
}

TEST_F(CudaHostOperatorTest, OneForTheCpuAloneIsRefused) {
  const Error error = error_of([&] { operators(false)->check(builder().data()->meta); });
  EXPECT_EQ(error.code(), ErrorCode::kUsage);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'test::Copy', whose library has no 'enqueue' for it"),
                                  HasSubstr("--target=cpu")));
}

}  // namespace
}  // namespace sinter::testing

#endif
