// SPDX-License-Identifier: Apache-2.0
#include "tests/perf/fit/gemm_workloads.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/text/text.h"
#include "tests/perf/eight_bit_products.h"
#include "tests/perf/sixteen_bit_products.h"

namespace sinter::bench {
namespace {

ir::Graph fused(const std::string& text) {
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  return fusion::run_pipeline(ir::parse_graph(text), context).graph;
}

/// The same graph of exact float32.
std::string of_float32(std::string text) {
  for (std::size_t at = 0; (at = text.find("f16", at)) != text.npos;) text.replace(at, 3, "f32");
  return text;
}

}  // namespace

std::vector<Workload> workloads(const std::vector<std::string>& filter) {
  std::vector<Workload> all;
  for (const Shape& shape : kShapes)
    all.push_back({shape.name, shape.m, shape.n,
                   [&shape](int copies) { return fused(graph_text(shape, copies)); }});
  for (const DecoderShape& shape : kDecoderShapes)
    for (const int rows : kDecoderRows)
      for (const std::string order : kWeightOrders)
        all.push_back({fmt::format("{}_{}_{}", shape.name, rows, order), rows, shape.n,
                       [&shape, rows, order](int copies) {
                         return fused(graph_text(shape, rows, order, copies));
                       },
                       rows <= 64});
  for (const Conv& conv : kConvs)
    all.push_back({conv.name, conv.images * conv.out() * conv.out(), conv.outputs,
                   [&conv](int copies) { return ir::parse_graph(graph_text(conv, copies)); }});
  for (const Conv& conv : kConvs)
    all.push_back(
        {fmt::format("f32_{}", conv.name), conv.images * conv.out() * conv.out(), conv.outputs,
         [&conv](int copies) { return ir::parse_graph(of_float32(graph_text(conv, copies))); }});
  for (const EightBitTypes& types : kEightBitTypes)
    for (const EightBitShape& shape : kEightBitShapes)
      for (const std::string after : kEightBitEpilogues)
        all.push_back({fmt::format("{}_{}_{}", types.name, shape.name, after), shape.m, shape.n,
                       [&shape, &types, after](int copies) {
                         return fused(graph_text(shape, types, after, copies));
                       },
                       shape.m <= 64});
  for (const EightBitTypes& types : kEightBitTypes)
    for (const EightBitConv& conv : kEightBitConvs)
      all.push_back(
          {fmt::format("{}_conv_{}x{}_{}_{}", types.name, conv.images, conv.side, conv.channels,
                       conv.outputs),
           conv.images * conv.side * conv.side, conv.outputs,
           [&conv, &types](int copies) { return ir::parse_graph(graph_text(conv, types, copies)); },
           false, false});
  for (const EightBitShape& shape : kBlockShapes)
    all.push_back({fmt::format("block_{}_bare", shape.name), shape.m, shape.n,
                   [&shape](int copies) { return fused(block_graph_text(shape, copies)); }, false,
                   false});
  for (const FourBitTypes& types : kFourBitTypes)
    for (const EightBitShape& shape : kFourBitShapes)
      for (const int group : kFourBitGroups)
        all.push_back({fmt::format("{}_{}_g{}", types.name, shape.name, group), shape.m, shape.n,
                       [&shape, &types, group](int copies) {
                         return fused(graph_text(shape, types, group, copies));
                       },
                       shape.m <= 64, false});
  std::erase_if(all, [&](const Workload& workload) {
    return !filter.empty() && std::ranges::none_of(filter, [&](const std::string& text) {
      return workload.name.find(text) != std::string::npos;
    });
  });
  return all;
}

WorkloadGemm::WorkloadGemm(const ir::Graph& body, const Workload& workload)
    : exprs_(body.ranges()), rows_(workload.rows) {
  std::vector<std::uint32_t> inputs, outputs;
  std::vector<DType> types;
  const auto list = [&](std::span<const ir::ValueId> values, std::vector<std::uint32_t>& buffers) {
    for (const ir::ValueId value : values) {
      buffers.push_back(static_cast<std::uint32_t>(types.size()));
      types.push_back(body.type(value).dtype);
    }
  };
  list(body.inputs(), inputs);
  list(body.outputs(), outputs);
  std::string refusal;
  auto product = codegen::lower_gemm(body, true, {}, inputs, outputs, exprs_, refusal);
  if (!product) throw std::runtime_error(workload.name + ": " + refusal);
  product_ = *std::move(product);
  if (product_.weights)  // as they are packed
    product_.weights->format->scale = types[product_.program.buffers[product_.scales_buffer()]];
  for (const std::uint32_t buffer : product_.program.buffers)
    request_.buffer_types.push_back(buffer == codegen::kAccumulatorBuffer ? product_.result
                                                                          : types[buffer]);
}

std::unique_ptr<WorkloadGemm> WorkloadGemm::make(const Workload& workload, bool by_warpgroups,
                                                 bool packed, const codegen::DeviceModel& device) {
  const ir::Graph graph = workload.graph(1);
  for (const ir::Node& node : graph.nodes()) {
    if (node.op->kind != ir::OpKind::kFused || node.attrs.get_string("kind") != "gemm") continue;
    std::unique_ptr<WorkloadGemm> gemm(new WorkloadGemm(*node.body, workload));
    codegen::GemmProgram& product = gemm->product_;
    product.by_warpgroups = by_warpgroups;
    if (packed && !by_warpgroups && !product.weights && !product.windows &&
        !product.is_eight_bit() && workload.rows <= codegen::kFewRows)
      product.weights.emplace();
    gemm->request_.name = "product";
    gemm->request_.device = &device;
    set_gemm(gemm->request_, product);
    gemm->analysis_.emplace(gemm->request_, gemm->exprs_);
    return gemm;
  }
  return nullptr;
}

bool WorkloadGemm::has_kernel() const {
  std::string ignored;
  return codegen::can_schedule_gemm(*analysis_, product_, ignored);
}

}  // namespace sinter::bench
