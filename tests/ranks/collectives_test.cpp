// SPDX-License-Identifier: Apache-2.0
// Every collective of the CPU, of every type, against the reference.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/sinter.h>

#include "codegen/compile.h"
#include "fusion/pipeline.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/fusion/support.h"
#include "tests/ranks/ranked_graph.h"

namespace sinter::testing {
namespace {

/// Ranks have x + rank; of what the collective makes of it all see all ranks'.
std::string graph_of(const std::string& collective, const std::string& attrs, DType type, int ranks,
                     const char* shape) {
  return fmt::format(
      "graph @main(%x: {0}[{1}]) ranges {{rank: 0..{2}, s: 1..64}} {{\n"
      "  %r = Size() {{dtype = {0}, value = [rank]}}\n  %v = Add(%x, %r)\n"
      "  %c = {3}(%v) {{{4}, ranks = {5}}}\n"
      "  %y = AllGather(%c) {{axis = 0, ranks = {5}}}\n  return y = %y\n}}",
      to_string(type), shape, ranks - 1, collective, attrs, ranks);
}

void expect_same(const std::string& text, int ranks, double tolerance) {
  SCOPED_TRACE(text);
  const ir::Graph graph = ir::parse_graph(text);
  fusion::Context context;
  context.target = codegen::cpu_target().traits();
  codegen::CompileOptions options;
  options.ranks = ranks;
  const auto compiled = codegen::compile(fusion::run_pipeline(graph, context).graph, options);
  Session session(Plan::from_memory(plan::serialize_plan(compiled.parts)));
  for (const std::int64_t size : {1, 7, 64}) {
    ir::Ints shape;
    std::int64_t count = 1;
    for (const ir::Dim& dim : graph.type(graph.inputs()[0]).shape) {
      shape.push_back(dim.evaluate({{"s", size}}));
      count *= shape.back();
    }
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * 37 % 23));
    const auto x = ir::Tensor::from_doubles(graph.type(graph.inputs()[0]).dtype, shape, values);
    const std::vector<std::vector<ir::Tensor>> all(static_cast<std::size_t>(ranks), {x});
    const auto expected = ir::evaluate_ranks(graph, all)[0];
    EXPECT_LE(fusion::test::relative_error(run_session(session, graph, {x})[0], expected[0]),
              tolerance);
  }
}

class Collectives : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(2, 3, 4, 8));

TEST_P(Collectives, Exchange) {
  const int ranks = GetParam();
  const std::string shape = fmt::format("{0}, s, {0}, 5, {0}", ranks);
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kInt64, DType::kInt8}) {
    for (int axis = 0; axis < 5; ++axis)
      expect_same(graph_of("AllGather", fmt::format("axis = {}", axis), type, ranks, shape.c_str()),
                  ranks, 0);
    for (const int split : {0, 2, 4})
      for (int concat = 0; concat < 5; ++concat)
        expect_same(graph_of("AllToAll", fmt::format("concat = {}, split = {}", concat, split),
                             type, ranks, shape.c_str()),
                    ranks, 0);
  }
}

TEST_P(Collectives, Combine) {
  const int ranks = GetParam();
  const std::string shape = fmt::format("{0}, s, 3, {0}", ranks);
  for (const DType type :
       {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64, DType::kInt8,
        DType::kUInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt64})
    for (const char* const combine : {"sum", "prod", "max", "min"}) {
      const double tolerance = is_float(type) ? 1e-6 : 0;
      const std::string with = fmt::format("combine = \"{}\"", combine);
      // A prod of many ranks is beyond float16.
      if (std::string_view(combine) == "prod" && ranks > 4) continue;
      expect_same(graph_of("AllReduce", with, type, ranks, shape.c_str()), ranks, tolerance);
      for (const int axis : {0, 3})
        expect_same(graph_of("ReduceScatter", fmt::format("axis = {}, {}", axis, with), type, ranks,
                             shape.c_str()),
                    ranks, tolerance);
    }
}

/// Long sums, of which each rank computes a part.
TEST_P(Collectives, CombineMuch) {
  const int ranks = GetParam();
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kInt32})
    expect_same(graph_of("AllReduce", "combine = \"sum\"", type, ranks, "s, 997"), ranks,
                is_float(type) ? 1e-6 : 0);
}

}  // namespace
}  // namespace sinter::testing
