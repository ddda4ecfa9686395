// SPDX-License-Identifier: Apache-2.0
// Every case against the reference: fused and unfused, in every type, over changing shapes.
#include <gtest/gtest.h>

#include "runtime/binding.h"
#include "runtime/cuda/cuda_executor.h"
#include "runtime/plan/step_visitor.h"
#include "runtime/plan_access.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/support.h"
#include "tests/graphs/fake_driver.h"
#include "tests/runtime/cuda/fake_cublaslt.h"

namespace sinter::gpu_test {
namespace {

struct Setting {
  const Case* test;
  DType type;
  bool fuse;
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Case& test : cases()) {
    all.push_back({&test, DType::kFloat32, true});
    all.push_back({&test, DType::kFloat32, false});
    if (!test.has_half) continue;
    all.push_back({&test, DType::kFloat16, true});
    all.push_back({&test, DType::kFloat16, false});
    all.push_back({&test, DType::kBFloat16, true});
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  return info.param.test->name + "_" + std::string(to_string(info.param.type)) +
         (info.param.fuse ? "_fused" : "_unfused");
}

// Needs no GPU: the plan is bound and captured for every shape over a fake driver whose kernels do
// nothing, so that variants, grids, arguments and products are checked.
class Compile : public ::testing::TestWithParam<Setting> {};

/// Convolutions must bind without the library, too.
std::shared_ptr<const runtime::Cudnn> no_cudnn() {
  throw Error(ErrorCode::kDevice, "cuDNN is left out of this test");
}

TEST_P(Compile, GivesAPlanThatBinds) {
  const Setting& param = GetParam();
  const ir::Graph graph = graph_of(*param.test, param.type);
  const Plan plan = compile(graph, param.fuse);
  EXPECT_EQ(plan.target(), "cuda");
  EXPECT_GT(plan.step_count(), 0u);

  auto& driver = testing::fake();
  driver.reset();
  testing::fake_cublaslt().reset();
  testing::fake_cublaslt().computes = false;  // as the kernels, which do nothing
  driver.total_memory = std::uint64_t{16} << 30;
  driver.major = PlanAccess::data(plan)->meta.architectures[0][3] - '0';
  driver.minor = PlanAccess::data(plan)->meta.architectures[0][4] - '0';
  for (const auto& step : PlanAccess::data(plan)->meta.steps)
    plan::for_each_step_work(step->work, [&](const plan::fb::WorkUnion& work) {
      const auto* kernel = work.AsKernelStep();
      if (!kernel) return;
      // Ways of one step may name their kernels alike, in modules of their own: the fake, which
      // knows names alone, takes what all of them have.
      for (const auto& variant : kernel->variants) {
        auto& fake =
            driver.kernels
                .emplace(variant->function,
                         testing::FakeKernel{kernel->args.size(), [](const auto&, const auto&) {}})
                .first->second;
        fake.parameters = std::min(fake.parameters, kernel->args.size());
      }
    });
  const auto executor = runtime::make_cuda_executor(
      {&driver.driver(), &testing::load_fake_cublaslt, &no_cudnn}, PlanAccess::data(plan), {});
  runtime::BoundShapeCache shapes(PlanAccess::data(plan), 8);
  for (const ir::Bindings& sizes : param.test->sizes) {
    std::vector<std::int64_t> symbols;
    for (const auto& symbol : PlanAccess::data(plan)->meta.symbols)
      symbols.push_back(sizes.at(symbol->name));
    const auto shape = shapes.get(symbols);
    executor->prepare(shape);
    executor->run(shape, nullptr);
    executor->await();
    EXPECT_GT(executor->launches(), 0u);
  }
}

class Numerics : public ::testing::TestWithParam<Setting> {};

TEST_P(Numerics, AgreesWithTheReference) {
  const Setting& param = GetParam();
  const ir::Graph graph = graph_of(*param.test, param.type);
  const Plan plan = compile(graph, param.fuse);
  Session in_graph(plan);
  SessionOptions options;
  options.cuda_graphs = false;
  Session on_stream(plan, options);
  std::uint64_t seed = 0;
  for (const ir::Bindings& sizes : param.test->sizes) {
    std::string text;
    for (const auto& [symbol, value] : sizes) text += symbol + "=" + std::to_string(value) + " ";
    SCOPED_TRACE(text);
    const auto inputs = random_inputs(graph, sizes, ++seed);
    const auto outputs = run(in_graph, graph, inputs);
    expect_reference(graph, inputs, outputs, tolerance_of(param.type));
    expect_same_bits(run(on_stream, graph, inputs), outputs);
    expect_same_bits(run(in_graph, graph, inputs), outputs);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Compile, ::testing::ValuesIn(settings()), name_of);
INSTANTIATE_TEST_SUITE_P(Cases, Numerics, ::testing::ValuesIn(settings()), name_of);

TEST(Precision, Tf32IsCloseAndDoublesAreExact) {
  const ir::Graph graph = graph_of(case_named("matmul_bias"), DType::kFloat32);
  const ir::Bindings sizes{{"batch", 2}, {"seq", 50}};
  const auto inputs = random_inputs(graph, sizes);
  Session tf32(compile(graph, true, fusion::Precision::kTf32));
  expect_reference(graph, inputs, run(tf32, graph, inputs), 2e-3);

  const ir::Graph wide = graph_of(case_named("matmul"), DType::kFloat64);
  const auto wide_inputs = random_inputs(wide, sizes);
  Session session(compile(wide, true));
  expect_reference(wide, wide_inputs, run(session, wide, wide_inputs),
                   tolerance_of(DType::kFloat64));
}

TEST(Precision, LoweredGraphStaysClose) {
  const ir::Graph graph = graph_of(case_named("encoder_layer"), DType::kFloat32);
  const auto inputs = random_inputs(graph, {{"batch", 2}, {"seq", 40}});
  Session half(compile(graph, true, fusion::Precision::kFloat16));
  expect_reference(graph, inputs, run(half, graph, inputs), 5e-3);
}

}  // namespace
}  // namespace sinter::gpu_test
