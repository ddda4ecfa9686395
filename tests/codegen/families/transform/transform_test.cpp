// SPDX-License-Identifier: Apache-2.0
// Fourier transforms on the emulator, against the reference.
#ifdef SINTER_WITH_CUDA
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/families/transform/emit_transform.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

struct TransformCase {
  std::int64_t rows, numbers, length, count;
  bool complex = false, half = false, inverse = false;
  std::int64_t step = 0;
  bool window = false;
  DType type = DType::kFloat32;

  ir::Attrs attrs() const {
    return {{"length", length},
            {"count", count},
            {"step", step},
            {"complex", std::int64_t{complex}},
            {"half", std::int64_t{half}},
            {"inverse", std::int64_t{inverse}}};
  }
  ir::Tensor draw(std::vector<std::int64_t> shape) const {
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(normal(random));
    return ir::Tensor::from_doubles(type, shape, values);
  }
  std::vector<ir::Tensor> inputs() const {
    std::vector<std::int64_t> shape = {rows, numbers};
    if (complex) shape.push_back(2);
    std::vector<ir::Tensor> all = {draw(shape), ir::roots_of_unity(length)};
    if (window) all.push_back(draw({length}));
    return all;
  }
};

std::vector<TransformCase> all_cases() {
  std::vector<TransformCase> cases;
  for (const std::int64_t n : {2,  3,  4,   5,   6,   7,   8,   9,    16,   25,   30,
                               49, 64, 100, 128, 240, 400, 512, 1000, 1024, 2048, 4096}) {
    cases.push_back({3, n, n, n / 2 + 1});
    cases.push_back({2, n, n, n, true});
    cases.push_back({2, n, n, n, true, false, true});
    cases.push_back({3, n / 2 + 1, n, n, true, true, true});
  }
  cases.push_back({4, 10, 16, 16});                                // zeros behind
  cases.push_back({4, 20, 16, 9});                                 // the rest left out
  cases.push_back({2, 5, 16, 16, true, true, true});               // of fewer frequencies
  cases.push_back({3, 9, 16, 16, false, true, true});              // that are real
  cases.push_back({70, 32, 32, 17});                               // several blocks
  cases.push_back({2, 100, 16, 9, false, false, false, 7, true});  // frames
  cases.push_back({2, 100, 25, 25, true, false, false, 5, true});  // of complex numbers
  cases.push_back({1, 16, 16, 9, false, false, false, 4});         // one frame
  cases.push_back({5, 40, 40, 21, false, false, true});            // inverse of real numbers
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    cases.push_back({3, 48, 48, 25, false, false, false, 0, true, type});
    cases.push_back({3, 48, 48, 48, true, false, true, 0, false, type});
  }
  return cases;
}

TEST(CudaTransform, KernelsComputeWhatTheReferenceComputes) {
  const std::vector<TransformCase> cases = all_cases();
  std::vector<codegen::EmittedKernel> kernels;
  std::vector<codegen::ExprTable> tables(cases.size(), codegen::ExprTable({}));
  std::vector<ir::Tensor> expected;
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const TransformCase& test = cases[c];
    expected.push_back(ir::evaluate_op(ir::get_op("Dft"), test.attrs(), test.inputs())[0]);
    const std::vector<std::int64_t> shape = expected.back().shape();
    codegen::TransformProblem problem{.transform = ir::Dft(test.attrs())};
    problem.x = 0;
    problem.roots = 1;
    if (test.window) problem.window = 2;
    problem.y = 3;
    problem.type = test.type;
    problem.rows = expected.back().element_count() / (shape.back() * shape[shape.size() - 2]);
    problem.pitch = test.numbers;
    if (test.step > 0) problem.frames = shape[1];
    codegen::KernelRequest request;
    request.name = fmt::format("transform_{}", c);
    kernels.push_back(emit_transform(problem, request, tables[c]));
  }
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const TransformCase& test = cases[c];
    SCOPED_TRACE(fmt::format("case {}: length {}, {}", c, test.length,
                             kernels[c].step.variants[0]->schedule));
    plan::fb::PlanT plan;
    tables[c].write(plan);
    Memory memory(4);
    const std::vector<ir::Tensor> inputs = test.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i)
      memory[i].assign(inputs[i].bytes().begin(), inputs[i].bytes().end());
    memory[3].assign(expected[c].bytes().size(), std::byte{0xff});
    library.run(kernels[c].step, 0, plan::evaluate_expressions(plan, {}), memory);
    const ir::Tensor got(test.type, expected[c].shape(), ir::Buffer::take(memory[3]));
    double error = 0, size = 0;
    for (std::int64_t i = 0; i < got.element_count(); ++i) {
      error += std::pow(got.at(i) - expected[c].at(i), 2);
      size += std::pow(expected[c].at(i), 2);
    }
    const double most = test.type == DType::kFloat32 ? 1e-6 : 5e-3;
    EXPECT_TRUE(std::sqrt(error) <= most * std::sqrt(size)) << std::sqrt(error / size);
  }
}

/// Shared memory is for what stages pass on: not for what is read, nor for what is written.
TEST(CudaTransform, MemoryIsReadAndWrittenByStages) {
  const auto copies = [](const TransformCase& test) {
    codegen::ExprTable table({});
    codegen::TransformProblem problem{.transform = ir::Dft(test.attrs())};
    problem.roots = 1;
    problem.y = 2;
    problem.rows = 1;  // together
    problem.pitch = test.numbers;
    codegen::KernelRequest request;
    request.name = "transform";
    const auto kernel = emit_transform(problem, request, table);
    const std::int64_t place = test.length + test.length / 16 + 1;
    return kernel.step.variants[0]->shared_bytes / (place * 8);
  };
  EXPECT_EQ(copies({1, 16, 16, 16, true}), 0);     // radix 16
  EXPECT_EQ(copies({1, 256, 256, 256, true}), 1);  // 16, 16
  EXPECT_EQ(copies({1, 2048, 2048, 2048, true}), 1);
  EXPECT_EQ(copies({1, 16, 16, 9}), 1);  // two real rows, which are parted
}

TEST(CudaTransform, RadicesMultiplyToTheLength) {
  EXPECT_EQ(ir::transform_radices(1024), (std::vector{16, 16, 4}));
  EXPECT_EQ(ir::transform_radices(400), (std::vector{16, 5, 5}));
  EXPECT_EQ(ir::transform_radices(22), std::vector<int>{});
  EXPECT_EQ(ir::transform_radices(1), std::vector<int>{});
  EXPECT_EQ(ir::transform_radices(8192), std::vector<int>{});
}

}  // namespace
}  // namespace sinter::test
#endif
