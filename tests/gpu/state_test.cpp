// Caches on a real GPU: they stay there, and one captured graph serves every position.
#include <numeric>
#include <span>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sinter::gpu_test
