// SPDX-License-Identifier: Apache-2.0
// Caches on a real GPU: they stay there, and one captured graph serves every position.
#include <numeric>
#include <span>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/decode_step.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

ir::Tensor integer(int value) {
  return ir::Tensor::from_doubles(DType::kInt64, {1},
                                  std::vector<double>{static_cast<double>(value)});
}

ir::Tensor zeros_like(const ir::Tensor& tensor) {
  return ir::Tensor::from_doubles(
      tensor.dtype(), tensor.shape(),
      std::vector<double>(static_cast<std::size_t>(tensor.element_count()), 0));
}

/// Steps of a session of kDecodeStep, each compared with the reference, whose inputs these are.
void take_steps(Session& session, const ir::Graph& graph, std::vector<ir::Tensor>& inputs,
                std::span<const int> positions) {
  for (const int position : positions) {
    inputs[0] = random_inputs(graph, {}, 100 + static_cast<std::uint64_t>(position))[0];
    inputs[1] = integer(position);
    session.set_input("x", view_of(inputs[0]));
    session.set_input("position", view_of(inputs[1]));
    session.run();
    const std::vector<ir::Tensor> expected = ir::evaluate(graph, inputs);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(relative_error(tensor_of(session.output(graph.output_names()[i])), expected[i]),
                tolerance_of(DType::kFloat16))
          << graph.output_names()[i] << " at " << position;
    inputs[2] = expected[1];
    inputs[3] = expected[2];
  }
}

TEST(States, ADecoderFillsItsCache) {
  const ir::Graph graph = ir::parse_graph(tests::kDecodeStep);
  Session session(compile(graph, true));
  std::vector<ir::Tensor> inputs = random_inputs(graph, {}, 3);
  for (const std::size_t cache : {2, 3}) inputs[cache] = zeros_like(inputs[cache]);
  std::vector<int> positions(40);
  std::iota(positions.begin(), positions.end(), 0);
  take_steps(session, graph, inputs, positions);
  const std::vector<ir::Tensor> last = {tensor_of(session.output("y"))};
  // The same again from nothing, at the last position alone, sees that position and zeros.
  session.reset_state();
  session.run();
  for (const std::size_t cache : {2, 3}) inputs[cache] = zeros_like(inputs[cache]);
  EXPECT_LE(relative_error(tensor_of(session.output("y")), ir::evaluate(graph, inputs)[0]),
            tolerance_of(DType::kFloat16));
  EXPECT_FALSE(tensor_of(session.output("y")) == last[0]);
}

// What a kernel copies before it knows the position is that of the run before at best.
TEST(States, PositionsMayJump) {
  const ir::Graph graph = ir::parse_graph(tests::kDecodeStep);
  Session session(compile(graph, true));
  std::vector<ir::Tensor> inputs = random_inputs(graph, {}, 3);
  for (const std::size_t cache : {2, 3}) inputs[cache] = zeros_like(inputs[cache]);
  constexpr int kPositions[] = {95, 0, 31, 32, 90, 3, 64, 5, 95, 95, 0};
  take_steps(session, graph, inputs, kPositions);
}

/// The decoder with caches in rows of 8 bits: the plan, and the graph that says what they are.
std::pair<Plan, ir::Graph> with_caches_of(DType type) {
  const ir::Graph graph = ir::parse_graph(tests::kDecodeStep);
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  context.states.cache_type = type;
  fusion::PipelineOptions until;
  until.stop_after = "quantize_caches";
  const ir::Graph exact = fusion::run_pipeline(graph, context, until).graph;
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {architecture()};
  const ir::Graph fused = fusion::run_pipeline(graph, context).graph;
  return {Plan::from_memory(plan::serialize_plan(codegen::compile(fused, options).parts)), exact};
}

class CachesOfEightBits : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CachesOfEightBits,
                         testing::Values(DType::kFloat8E4M3FN, DType::kInt8));

/// EXPECTs floats within `most` of the largest, and integers of 8 bits the nearest number or, where
/// it is close to the middle of two, the other: few are.
void expect_rounded(const ir::Tensor& found, const ir::Tensor& expected, double most,
                    const std::string& what) {
  ASSERT_EQ(found.dtype(), expected.dtype()) << what;
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  if (size_of(expected.dtype()) > 1) {
    EXPECT_LE(relative_error(found, expected), most) << what;
    return;
  }
  std::int64_t others = 0;
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    const double x = found.at(i), y = expected.at(i);
    others += x != y;
    ASSERT_LE(std::abs(x - y), 1.0) << what << ", element " << i;
  }
  EXPECT_LE(others, expected.element_count() / 10) << what;
}

/// EXPECTs rows of floats of 8 bits to stand for the same, up to how far numbers are apart: what
/// rows were in float16 may have another best scale.
void expect_same_rows(const ir::Tensor& found, const ir::Tensor& found_scales,
                      const ir::Tensor& expected, const ir::Tensor& scales,
                      const std::string& what) {
  ASSERT_EQ(found.dtype(), expected.dtype()) << what;
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  constexpr double kHalf = 448 * 0x1p-10;  // what rows were in float16 is off by, beside 448
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    const std::int64_t row = i / expected.shape().back();
    const double x = found.at(i) * found_scales.at(row), y = expected.at(i) * scales.at(row);
    ASSERT_LE(std::abs(x - y), std::abs(y) / 8 * 1.01 + kHalf * scales.at(row))
        << what << ", element " << i;
  }
}

TEST_P(CachesOfEightBits, AreFilledAndRead) {
  const auto [plan, graph] = with_caches_of(GetParam());
  Session session(plan);
  std::vector<ir::Tensor> inputs = random_inputs(graph, {}, 3);
  ASSERT_EQ(inputs.size(), 6u);
  for (std::size_t cache = 2; cache < inputs.size(); ++cache)
    inputs[cache] = zeros_like(inputs[cache]);
  // Rows are rounded from elements in float16.
  const bool is_float8 = GetParam() == DType::kFloat8E4M3FN;
  const double most = is_float8 ? 8e-2 : 4e-2;
  for (const int position : {0, 1, 2, 3, 4, 5, 31, 32, 33, 95, 64, 5, 95, 0}) {
    inputs[0] = random_inputs(graph, {}, 100 + static_cast<std::uint64_t>(position))[0];
    inputs[1] = integer(position);
    session.set_input("x", view_of(inputs[0]));
    session.set_input("position", view_of(inputs[1]));
    session.run();
    const std::vector<ir::Tensor> expected = ir::evaluate(graph, inputs);
    ASSERT_EQ(expected.size(), 5u);  // y, keys, values, scales of keys, of values
    std::vector<ir::Tensor> found;
    for (const std::string& name : graph.output_names())
      found.push_back(tensor_of(session.output(name)));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::string what = fmt::format("{} at {}", graph.output_names()[i], position);
      if (!is_float8 || i == 0)
        expect_rounded(found[i], expected[i], most, what);
      else if (i < 3)
        expect_same_rows(found[i], found[i + 2], expected[i], expected[i + 2], what);
    }
    for (std::size_t i = 1; i < expected.size(); ++i)  // what the session has
      inputs[i + 1] = tensor_of(session.output(graph.output_names()[i]));
  }
}

}  // namespace
}  // namespace sinter::gpu_test
