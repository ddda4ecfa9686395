// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/ranked_graph.h"

#include <random>

#include "codegen/compile.h"
#include "fusion/pipeline.h"
#include "ir/ranks/rank_parts.h"
#include "tests/fusion/support.h"

namespace sinter::testing {

ir::Graph with_constant_weights(const ir::Graph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  ir::GraphBuilder builder(graph.name());
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  std::vector<ir::ValueId> values;
  std::vector<int> kept(graph.inputs().size(), -1);
  int count = 0;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Value& input = graph.value(graph.inputs()[i]);
    const DType type = input.type.dtype;
    const bool is_code = type == DType::kInt8 || type == DType::kUInt8;
    bool is_weight = (is_arithmetic_float(type) || is_code) && i > 0;
    ir::Ints shape;
    for (const ir::Dim& dim : input.type.shape) {
      is_weight = is_weight && dim.is_constant();
      if (is_weight) shape.push_back(dim.value());
    }
    for (const ir::State& state : graph.states())
      is_weight = is_weight && state.input != static_cast<int>(i);
    if (!is_weight) {
      kept[i] = count++;
      values.push_back(builder.input(input.name, input.type));
      continue;
    }
    std::size_t elements = 1;
    for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
    std::vector<double> numbers(elements);
    for (double& number : numbers)
      number = is_code ? static_cast<double>(random() % 100) : normal(random);
    values.push_back(
        builder.constant(ir::Tensor::from_doubles(input.type.dtype, shape, numbers), input.name));
  }
  const auto outputs = ir::inline_graph(builder, graph, values);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder.output(graph.output_names()[i], outputs[i]);
  for (const ir::State& state : graph.states())
    builder.state({kept[static_cast<std::size_t>(state.input)], state.output});
  return builder.finish();
}

RankedPlan compile_for_ranks(const ir::Graph& graph, std::int64_t ranks, double start) {
  fusion::Context context;
  context.target = codegen::cpu_target().traits();
  context.sharding = fusion::test::ranks_of_slow_devices(ranks, start);
  const ir::Graph fused = fusion::run_pipeline(graph, context).graph;
  codegen::CompileOptions options;
  options.ranks = ranks;
  for (const auto& state : context.sharded.states)
    options.split_states.push_back({state.input, state.axis, state.parts});
  const auto compiled = codegen::compile(fused, options);
  if (context.sharded.reads) ir::check_ranks_agree(*context.sharded.reads, ranks);
  const auto bytes = plan::serialize_plan(compiled.parts);
  return {Plan::from_memory(bytes), context.sharded, bytes.size()};
}

std::vector<ir::Tensor> run_session(Session& session, const ir::Graph& graph,
                                    const std::vector<ir::Tensor>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    session.set_input(graph.value(graph.inputs()[i]).name,
                      {inputs[i].dtype(), inputs[i].shape(), inputs[i].bytes().data()});
  session.run();
  std::vector<ir::Tensor> outputs;
  for (const std::string& name : graph.output_names()) {
    const TensorView& view = session.output(name);
    const std::span bytes(static_cast<const std::byte*>(view.data), view.byte_count());
    outputs.emplace_back(view.dtype, view.shape, ir::Buffer::copy_of(bytes));
  }
  return outputs;
}

}  // namespace sinter::testing
