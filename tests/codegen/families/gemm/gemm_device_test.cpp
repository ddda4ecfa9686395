// SPDX-License-Identifier: Apache-2.0
// Schedules of products for devices other than the one that estimates were fitted on.
#ifdef SINTER_WITH_CUDA
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_schedule.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "gemm_check.h"
#include "gemm_graphs.h"
#include "quantized_graphs.h"

namespace sinter::test {
namespace {

using codegen::cuda_device;

/// Products that each kind of kernel is for, few and many rows, chosen for a device.
GemmCheck choices(const codegen::DeviceModel& device) {
  GemmCheck check({{"m", {1, 4096, nullptr}}});
  check.device = &device;
  check.add("wide", pointwise_graph("f16", "m", 3072, 768), "");
  check.add("deep", pointwise_graph("f16", "m", 768, 3072), "");
  check.add("transposed", transposed_graph("bf16", "m", 1024, 1024), "");
  check.add("norm", norm_graph("m", 96, 1536, false), "");
  check.add("bytes", quantized_graph("f16", "m", 2048, 2048, {8, 0}), "");
  check.add("nibbles", quantized_graph("f16", "m", 2048, 4096, {4, 128}), "");
  return check;
}

/// "wide: product 16x32x128 ..", a line for each variant.
std::vector<std::string> schedules(const GemmCheck& check) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < check.kernels.size(); ++i)
    for (const auto& variant : check.kernels[i].step.variants)
      all.push_back(fmt::format("{}: {}", i, variant->schedule));
  return all;
}

class GemmDevice : public testing::TestWithParam<const char*> {};

TEST_P(GemmDevice, SchedulesFitIt) {
  const codegen::DeviceModel& device = cuda_device(GetParam());
  const GemmCheck check = choices(device);
  for (const auto& kernel : check.kernels) {
    EXPECT_FALSE(kernel.step.variants.empty());
    for (const auto& variant : kernel.step.variants) {
      EXPECT_LE(variant->shared_bytes, static_cast<unsigned>(device.block_shared_bytes))
          << variant->schedule;
      EXPECT_LE(variant->cluster, static_cast<unsigned>(device.cluster_blocks))
          << variant->schedule;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, GemmDevice,
                         testing::Values("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"));

TEST(GemmDevices, EachHasItsOwnSchedules) {
  const auto h200 = schedules(choices(codegen::reference_device()));
  EXPECT_NE(schedules(choices(cuda_device("sm_80"))), h200);
  EXPECT_NE(schedules(choices(cuda_device("sm_89"))), h200);
}

/// A row of 768 elements is a cluster's on an H200, and more than a block of an L40S has room for.
TEST(GemmDevices, LongRowsAreReducedWhereThereAreClusters) {
  const auto add = [](const char* architecture) {
    GemmCheck check;
    check.device = &cuda_device(architecture);
    check.add("norm", norm_graph("16", 768, 768, false), "");
    return check.kernels[0].step.variants[0]->cluster;
  };
  EXPECT_GT(add("sm_90"), 1u);
  EXPECT_THROW(add("sm_89"), Error);
}

TEST(GemmDevices, KernelsWithoutClustersAreRight) {
  GemmCheck check({{"m", {1, 512, nullptr}}});
  check.device = &cuda_device("sm_89");
  check.add("rows", pointwise_graph("f16", "m", 96, 320), "", {{{"m", 1}}, {{"m", 70}}});
  check.add("bytes", quantized_graph("f16", "m", 64, 520, {8, 0}), "", {{{"m", 3}}});
  EXPECT_EQ(check.run(), "");
}

TEST(GemmDevices, WarpgroupsAreScheduledForADeviceThatHasThem) {
  const auto text = [](const char* architecture) {
    GemmCheck check;
    check.device = &cuda_device(architecture);
    check.by_warpgroups = true;
    check.add("p", pointwise_graph("f16", "512", 768, 768), "");
    return schedules(check);
  };
  EXPECT_EQ(text("sm_80"), text("sm_90"));
}

TEST(GemmKernels, EachParsesItsOwnSchedulesAlone) {
  const auto product_of = [](DType type, bool by_warpgroups, int bits) {
    codegen::GemmProgram product;
    product.type = type;
    product.m = 256, product.n = 1024, product.k = 2048;
    product.by_warpgroups = by_warpgroups;
    if (bits > 0) product.weights.emplace();
    if (bits == 4 || bits == 8)
      product.weights->format = ir::ScaleFormat::parse(fmt::format("i{} * f32 row", bits));
    return product;
  };
  std::vector<std::string> found;
  const codegen::GemmProgram products[] = {
      product_of(DType::kFloat16, false, 0),     product_of(DType::kFloat16, false, 4),
      product_of(DType::kFloat16, true, 0),      product_of(DType::kFloat16, true, 4),
      product_of(DType::kFloat8E4M3FN, true, 4), product_of(DType::kFloat32, false, 0)};
  for (const codegen::GemmProgram& product : products) {
    codegen::GemmProblem problem{product, codegen::reference_device()};
    problem.n = 1024, problem.k = 2048;
    problem.most_n = 1024, problem.most_k = 2048;
    for (const codegen::GemmKernel* kernel : codegen::gemm_kernels()) {
      if (!kernel->is_for(product)) continue;
      for (const codegen::GemmSchedule& s : kernel->schedules(problem)) {
        for (const codegen::GemmKernel* other : codegen::gemm_kernels()) {
          const auto parsed = other->parse(s.to_string());
          ASSERT_EQ(parsed.has_value(), other == kernel) << s.to_string();
          EXPECT_EQ(parsed.value_or(s).to_string(), s.to_string());
        }
        found.push_back(kernel->name);
      }
    }
  }
  for (const codegen::GemmKernel* kernel : codegen::gemm_kernels())
    EXPECT_THAT(found, testing::Contains(kernel->name));
}

}  // namespace
}  // namespace sinter::test
#endif
