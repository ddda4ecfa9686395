// Schedules that tuning may choose compute on a GPU what the rules' do.
#include <cstdlib>

#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "ir/text/text.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

struct Case {
  const char* name;
  const char* text;
  ir::Bindings sizes;
  friend void PrintTo(const Case& value, std::ostream* os) { *os << value.name; }
};

const Case kCases[] = {{"rows",
                        R"(
graph @main(%x: f16[700, 2048], %w: f16[2048]) {
  %y = LayerNorm(%x, %w, %w) {axis = 1, epsilon = 1e-5}
  %r = Relu(%y)
  %z = Add(%r, %x)
  return z = %z
})",
                        {}},
                       {"few_long_rows",
                        R"(
graph @main(%x: f32[3, 40000]) {
  %y = Softmax(%x) {axis = 1}
  return y = %y
})",
                        {}},
                       {"rows_of_any_length",
                        R"(
graph @main(%x: f16[6, 40, seq]) ranges {seq: 1..700} {
  %y = Softmax(%x) {axis = 2}
  return y = %y
})",
                        {{"seq", 520}}},
                       {"columns",
                        R"(
graph @main(%x: f32[300, 520]) {
  %m = ReduceMax(%x) {axes = [0], keepdims = 1}
  %y = Sub(%x, %m)
  return y = %y
})",
                        {}},
                       {"transposed",
                        R"(
graph @main(%x: f16[512, 1024], %b: f16[512]) {
  %t = Transpose(%x) {perm = [1, 0]}
  %y = Add(%t, %b)
  return y = %y
})",
                        {}},
                       {"running",
                        R"(
graph @main(%x: f32[40, 3000]) {
  %y = Scan(%x) {axis = 1, combine = "sum"}
  return y = %y
})",
                        {}},
                       {"elements",
                        R"(
graph @main(%x: f16[300, 1000], %b: f16[1000]) {
  %s = Add(%x, %b)
  %y = Tanh(%s)
  return y = %y
})",
                        {}}};

class Candidates : public ::testing::TestWithParam<Case> {};

TEST_P(Candidates, GiveTheReferencesResults) {
  constexpr std::size_t kStride = 6;  // of each list: all of them take minutes
  const ir::Graph graph = ir::parse_graph(GetParam().text);
  const auto inputs = random_inputs(graph, GetParam().sizes);
  fusion::Context context;
  context.target = fusion::cuda_traits();
  const ir::Graph fused = fusion::run_pipeline(graph, context).graph;
  codegen::CompileOptions options;
  options.cuda = true;
  options.architectures = {architecture()};
  options.early_launch = true;
  options.list_candidates = true;
  if (const char* cache = std::getenv("SINTER_KERNEL_CACHE")) options.cache_dir = cache;
  const auto kernels = codegen::compile(fused, options).kernels;
  ASSERT_FALSE(kernels.empty());
  options.list_candidates = false;
  for (const codegen::KernelInfo& kernel : kernels)
    for (std::size_t v = 0; v < kernel.variants.size(); ++v)
      for (std::size_t c = 1; c < kernel.variants[v].candidates.size(); c += kStride) {
        const std::string& schedule = kernel.variants[v].candidates[c];
        SCOPED_TRACE(kernel.name + ": " + schedule);
        options.schedules = {{kernel.key, {{v, {schedule, "a test"}}}}};
        const auto compiled = codegen::compile(fused, options);
        Session session(Plan::from_memory(plan::serialize_plan(compiled.parts)));
        expect_reference(graph, inputs, run(session, graph, inputs),
                         tolerance_of(graph.type(graph.inputs()[0]).dtype));
      }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Candidates, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sinter::gpu_test
