// SPDX-License-Identifier: Apache-2.0
// Determinants and inverses on the emulator, against the reference: in shared memory and by panels.
#ifdef SINTER_WITH_CUDA
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/families/lu/emit_lu.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

struct LuCase {
  std::int64_t count, n;
  bool is_inverse = false;
  DType type = DType::kFloat32;
  std::int64_t least = 0, most = 0;  // of a size that the run finds; 0: it is known
  double special = 0;  // 1: a matrix is singular, 2: one has a NaN, 3: all are 2 and -0
  const char* architecture = "sm_90";
  int shared_bytes = 0;  // of a block; 0: the device's

  ir::Tensor matrices() const {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    std::vector<double> values(static_cast<std::size_t>(count * n * n));
    for (double& value : values) value = normal(random) / std::sqrt(static_cast<double>(n));
    const auto last = values.size() - static_cast<std::size_t>(n * n);
    // Whole numbers leave a pivot of zero, not a small one.
    if (special == 1)
      for (std::int64_t i = 0; i < n * n; ++i)
        values[last + static_cast<std::size_t>(i)] = i / n == i % n && i % n < n - 1 ? 2 : 0;
    for (std::size_t i = 0; special == 3 && i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i) % (n * n);
      values[i] = at / n == at % n ? 2 : -0.0;
    }
    if (special == 2) values[values.size() - static_cast<std::size_t>(n + 1)] = NAN;
    return ir::Tensor::from_doubles(type, {count, n, n}, values);
  }
};

std::vector<LuCase> all_cases() {
  std::vector<LuCase> cases;
  for (const bool is_inverse : {false, true}) {
    for (const std::int64_t n : {0, 1, 2, 7, 33, 70}) cases.push_back({3, n, is_inverse});
    cases.push_back({2, 20, is_inverse, DType::kFloat64});
    cases.push_back({2, 20, is_inverse, DType::kFloat16});
    cases.push_back({2, 20, is_inverse, DType::kBFloat16});
    cases.push_back({0, 5, is_inverse});
    cases.push_back({2, 9, is_inverse, DType::kFloat32, 0, 0, 1});
    cases.push_back({2, 9, is_inverse, DType::kFloat32, 0, 0, 2});
    cases.push_back({2, 9, is_inverse, DType::kFloat32, 0, 0, 3});
    cases.push_back({1, 40, is_inverse, DType::kFloat64, 0, 0, 3});
    cases.push_back({2, 9, is_inverse, DType::kFloat32, 0, 100});
    cases.push_back({1, 50, is_inverse, DType::kFloat32, 0, 100});
    // By panels.
    cases.push_back({2, 170, is_inverse});
    cases.push_back({1, 161, is_inverse, DType::kFloat16});
    cases.push_back({1, 120, is_inverse, DType::kFloat64});
    cases.push_back({1, 162, is_inverse, DType::kFloat32, 0, 0, 1});
    cases.push_back({1, 162, is_inverse, DType::kFloat32, 0, 0, 2});
    cases.push_back({1, 65, is_inverse, DType::kFloat32, 0, 5000});  // in shared memory after all
    cases.push_back({1, 162, is_inverse, DType::kFloat32, 160, 5000});
    cases.push_back({1, 162, is_inverse, DType::kFloat32, 0, 0, 0, "sm_80"});
    cases.push_back({1, 162, is_inverse, DType::kFloat32, 0, 3000});  // narrower
    cases.push_back({1, 121, is_inverse, DType::kFloat64, 120, 2500, 2});
    // Longer than shared memory holds.
    cases.push_back({2, 162, is_inverse, DType::kFloat32, 0, 5000, 0, "sm_90", 12 * 1024});
    cases.push_back({1, 120, is_inverse, DType::kFloat64, 115, 3000, 1, "sm_90", 20 * 1024});
  }
  return cases;
}

TEST(CudaLu, KernelsComputeWhatTheReferenceComputes) {
  const std::vector<LuCase> cases = all_cases();
  std::vector<codegen::EmittedKernel> kernels;
  std::vector<codegen::ExprTable> tables;
  std::vector<ir::Tensor> expected;
  std::vector<Memory> memories;
  std::vector<codegen::DeviceModel> devices;
  devices.reserve(cases.size());
  tables.reserve(cases.size());
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const LuCase& test = cases[c];
    const ir::Tensor x = test.matrices();
    const char* const op = test.is_inverse ? "Inverse" : "Determinant";
    expected.push_back(ir::evaluate_op(ir::get_op(op), {}, std::vector{x})[0]);
    auto& exprs = tables.emplace_back(
        ir::Ranges{{"n", ir::Range{test.least, test.most > 0 ? test.most : 1}}});
    codegen::LuProblem problem;
    problem.x = 0;
    problem.y = 1;
    problem.type = test.type;
    problem.count = test.count;
    problem.n = test.most > 0 ? ir::Dim::symbol("n") : ir::Dim(test.n);
    problem.is_inverse = test.is_inverse;
    Memory& memory = memories.emplace_back(2);
    memory[0].assign(x.bytes().begin(), x.bytes().end());
    memory[1].assign(expected[c].bytes().size(), std::byte{0xff});
    std::vector<std::uint32_t> scratch;
    for (const ir::Dim& bytes : problem.scratch_bytes(exprs)) {
      scratch.push_back(static_cast<std::uint32_t>(memory.size()));
      memory.emplace_back(static_cast<std::size_t>(bytes.evaluate({{"n", test.n}})),
                          std::byte{0xff});
    }
    codegen::KernelRequest request;
    request.name = fmt::format("lu_{}", c);
    auto& device = devices.emplace_back(codegen::cuda_device(test.architecture));
    if (test.shared_bytes > 0) device.block_shared_bytes = test.shared_bytes;
    request.device = &device;
    kernels.push_back(emit_lu(problem, scratch, request, exprs));
    EXPECT_EQ(kernels.back().more.size(), problem.kernels_behind(exprs));
  }
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const LuCase& test = cases[c];
    plan::fb::PlanT plan;
    tables[c].write(plan);
    const auto values =
        plan::evaluate_expressions(plan, std::vector<std::int64_t>(plan.symbols.size(), test.n));
    const auto& variants = kernels[c].step.variants;
    std::size_t variant = 0;
    while (variant < variants.size() && !may_run(*variants[variant], values)) ++variant;
    ASSERT_LT(variant, variants.size()) << "case " << c;
    SCOPED_TRACE(fmt::format("case {}: n {}, {}", c, test.n, variants[variant]->schedule));
    library.run(kernels[c].step, variant, values, memories[c]);
    for (const auto& step : kernels[c].more) library.run(step, 0, values, memories[c]);
    const ir::Tensor got(test.type, expected[c].shape(), ir::Buffer::take(memories[c][1]));
    const double most = test.type == DType::kFloat64   ? 1e-9
                        : test.type == DType::kFloat32 ? 2e-4
                                                       : 1e-2;
    double size = 0;
    for (std::int64_t i = 0; i < got.element_count(); ++i)
      if (!std::isnan(expected[c].at(i))) size = std::max(size, std::abs(expected[c].at(i)));
    for (std::int64_t i = 0; i < got.element_count(); ++i) {
      ASSERT_EQ(std::isnan(got.at(i)), std::isnan(expected[c].at(i))) << i;
      if (std::isnan(got.at(i))) continue;
      const double scale = test.is_inverse ? size : std::abs(expected[c].at(i));
      ASSERT_NEAR(got.at(i), expected[c].at(i), most * scale) << i;
    }
  }
}

TEST(CudaLu, KernelsCompileForEveryArchitecture) {
  const std::vector<std::string> architectures = {"sm_80", "sm_90", "sm_100"};
  std::vector<codegen::DeviceModel> devices;
  for (const std::string& each : architectures) devices.push_back(codegen::cuda_device(each));
  for (std::size_t a = 0; a < architectures.size(); ++a) {
    std::vector<std::string> sources;
    for (const DType type : {DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
      codegen::ExprTable exprs({{"n", ir::Range{1, 1024}}});
      codegen::LuProblem problem;
      problem.x = 0;
      problem.y = 1;
      problem.type = type;
      problem.n = ir::Dim::symbol("n");
      problem.is_inverse = type != DType::kFloat32;
      codegen::KernelRequest request;
      request.name = "lu";
      request.device = &devices[a];
      const std::vector<std::uint32_t> scratch = {2, 3, 4, 5, 6};
      sources.push_back(emit_lu(problem, scratch, request, exprs).source);
    }
    for (const auto& kernel : codegen::compile_cuda(sources, std::vector{architectures[a]}))
      EXPECT_GT(kernel[0].code.size(), 100u) << architectures[a];
  }
}

}  // namespace
}  // namespace sinter::test
#endif
