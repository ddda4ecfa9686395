// SPDX-License-Identifier: Apache-2.0
// Schedules that tuning may choose compute on a GPU what the rules' do.
#include <cstdlib>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

struct CandidateCase {
  const char* name;
  std::string text;
  ir::Bindings sizes;
  friend void PrintTo(const CandidateCase& value, std::ostream* os) { *os << value.name; }
};

/// y = silu(x w + b), with weights of any numbers and groups of 64.
std::string quantized_text(int bits, int m, int n, int k) {
  const int columns = bits == 8 ? k : k / 2;
  std::vector<int> numbers(static_cast<std::size_t>(n * columns));
  std::mt19937 random(1);
  for (int& number : numbers) number = static_cast<int>(random() % 256) - (bits == 8 ? 128 : 0);
  return fmt::format(R"(
graph @main(%x: f16[{0}, {2}], %b: f16[{1}]) {{
  %w = const {3}[{1}, {4}] {{{5}}}
  %s = const f16[{1}, {6}] splat(0.01)
  %p = MatMul(%x, %w, %s) {{w = "i{7} * f16 group 64"}}
  %t = Add(%p, %b)
  %y = Silu(%t)
  return y = %y
}})",
                     m, n, k, bits == 8 ? "i8" : "u8", columns, fmt::join(numbers, ", "), k / 64,
                     bits);
}

const CandidateCase kCases[] = {{"rows",
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
                                 {}},
                                {"quantized_one_row", quantized_text(4, 1, 200, 640), {}},
                                {"quantized_few_rows", quantized_text(8, 5, 136, 320), {}},
                                {"quantized_rows", quantized_text(4, 150, 136, 320), {}}};

class Candidates : public ::testing::TestWithParam<CandidateCase> {};

TEST_P(Candidates, GiveTheReferencesResults) {
  constexpr std::size_t kStride = 6;  // of each list: all of them take minutes
  const ir::Graph graph = ir::parse_graph(GetParam().text);
  const auto inputs = random_inputs(graph, GetParam().sizes);
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  const ir::Graph fused = fusion::run_pipeline(graph, context).graph;
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {architecture()};
  options.programmatic_launch = true;
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
