// Every case against the reference: fused and unfused, in every type, over changing shapes.
#include <gtest/gtest.h>

#include "tests/gpu/cases.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

struct Run {
  const Case* test;
  DType type;
  bool fuse;
};

std::vector<Run> runs() {
  std::vector<Run> all;
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

std::string name_of(const ::testing::TestParamInfo<Run>& info) {
  return info.param.test->name + "_" + std::string(to_string(info.param.type)) +
         (info.param.fuse ? "_fused" : "_unfused");
}

// Needs no GPU.
class Compile : public ::testing::TestWithParam<Run> {};

TEST_P(Compile, GivesAPlan) {
  const Run& param = GetParam();
  const ir::Graph graph = graph_of(*param.test, param.type);
  const Plan plan = compile(graph, param.fuse);
  EXPECT_EQ(plan.target(), "cuda");
  EXPECT_GT(plan.step_count(), 0u);
}

class Numerics : public ::testing::TestWithParam<Run> {};

TEST_P(Numerics, AgreesWithTheReference) {
  const Run& param = GetParam();
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

INSTANTIATE_TEST_SUITE_P(Cases, Compile, ::testing::ValuesIn(runs()), name_of);
INSTANTIATE_TEST_SUITE_P(Cases, Numerics, ::testing::ValuesIn(runs()), name_of);

const Case& case_named(const std::string& name) {
  for (const Case& test : cases())
    if (test.name == name) return test;
  throw std::logic_error("no case " + name);
}

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
