// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/support.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/reference/evaluate.h"
#include "runtime/cuda/device_info.h"
#include "runtime/plan/plan_data.h"
#include "tests/support/random_inputs.h"

namespace sinter::gpu_test {

std::string architecture() {
  static const std::string found = [] {
    const runtime::CudaInfo info = runtime::query_cuda();
    if (!info.gpus.empty()) return info.gpus[0].architecture;
    const char* wanted = std::getenv("SINTER_GPU_ARCH");
    return std::string(wanted ? wanted : "sm_90");
  }();
  return found;
}

std::vector<std::byte> plan_bytes(const ir::Graph& graph, bool fuse, fusion::Precision precision) {
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  context.fuse = fuse;
  context.precision = precision;
  const ir::Graph fused = fusion::run_pipeline(graph, context).graph;
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {architecture()};
  options.tf32 = precision == fusion::Precision::kTf32;
  if (const char* cache = std::getenv("SINTER_KERNEL_CACHE")) options.cache_dir = cache;
  return plan::serialize_plan(codegen::compile(fused, options).parts);
}

Plan compile(const ir::Graph& graph, bool fuse, fusion::Precision precision) {
  return Plan::from_memory(plan_bytes(graph, fuse, precision));
}

Plan compile_with(const ir::Graph& graph, const std::string& schedule, bool tf32) {
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {architecture()};
  options.gemm = schedule;
  options.tf32 = tf32;
  const ir::Graph fused = fusion::run_pipeline(graph, context).graph;
  return Plan::from_memory(plan::serialize_plan(codegen::compile(fused, options).parts));
}

std::vector<ir::Tensor> random_inputs(const ir::Graph& graph, const ir::Bindings& sizes,
                                      std::uint64_t seed) {
  return test::random_inputs(graph, sizes, seed, 1);
}

TensorView view_of(const ir::Tensor& tensor) {
  return {tensor.dtype(), tensor.shape(), tensor.bytes().data(), Memory::kHost};
}

ir::Tensor tensor_of(const TensorView& host) {
  const std::span bytes(static_cast<const std::byte*>(host.data), host.byte_count());
  return ir::Tensor(host.dtype, host.shape, ir::Buffer::copy_of(bytes));
}

std::vector<ir::Tensor> run(Session& session, const ir::Graph& graph,
                            const std::vector<ir::Tensor>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    session.set_input(graph.value(graph.inputs()[i]).name, view_of(inputs[i]));
  session.run();
  std::vector<ir::Tensor> outputs;
  for (const std::string& name : graph.output_names())
    outputs.push_back(tensor_of(session.output(name)));
  return outputs;
}

double relative_error(const ir::Tensor& found, const ir::Tensor& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape()) return kInfinity;
  if (!is_float(found.dtype())) return found.to_ints() == expected.to_ints() ? 0 : kInfinity;
  double largest = 0;
  double difference = 0;
  for (std::int64_t i = 0; i < found.element_count(); ++i) {
    const double x = found.at(i);
    const double y = expected.at(i);
    if (std::isnan(x) != std::isnan(y)) return kInfinity;
    if (std::isnan(x) || x == y) continue;
    if (std::isinf(x) || std::isinf(y)) return kInfinity;
    difference = std::max(difference, std::abs(x - y));
  }
  for (std::int64_t i = 0; i < expected.element_count(); ++i)
    if (std::isfinite(expected.at(i))) largest = std::max(largest, std::abs(expected.at(i)));
  return difference == 0 ? 0 : difference / std::max(largest, 1e-30);
}

void expect_reference(const ir::Graph& graph, const std::vector<ir::Tensor>& inputs,
                      const std::vector<ir::Tensor>& outputs, double tolerance) {
  ir::EvaluateOptions wide;
  wide.keep_wide = true;
  const std::vector<ir::Tensor> expected = ir::evaluate(graph, inputs, wide);
  ASSERT_EQ(outputs.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_error(outputs[i], expected[i]), tolerance) << graph.output_names()[i];
}

void expect_same_bits(const std::vector<ir::Tensor>& found,
                      const std::vector<ir::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i] == expected[i])
        << "output " << i << " differs by " << relative_error(found[i], expected[i]);
}

double tolerance_of(DType type) {
  switch (type) {
    // Unfused, every one of a dozen operators rounds to 11 bits, which is 4e-4 each.
    case DType::kFloat16: return 5e-3;
    case DType::kBFloat16: return 2.5e-2;
    case DType::kFloat64: return 1e-12;
    default: return 2e-5;
  }
}

}  // namespace sinter::gpu_test
