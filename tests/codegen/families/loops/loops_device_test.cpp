// SPDX-License-Identifier: Apache-2.0
// Schedules of loops for devices other than the one that the rules were measured on.
#ifdef SINTER_WITH_CUDA
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/loops/emit_loops.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "tests/codegen/emit/cuda_programs.h"

namespace sinter::test {
namespace {

using codegen::cuda_device;
using testing::HasSubstr;

codegen::EmittedKernel emit_for(const ProgramBuilder& program, const codegen::DeviceModel& device,
                                codegen::ExprTable& exprs, bool list = false) {
  codegen::KernelRequest request = program.request("kernel");
  request.device = &device;
  request.requested.list = list;
  request.requested.clusters = device.has_clusters();
  return codegen::emit_loops(request, exprs);
}

std::vector<std::string> schedules_for(const ProgramBuilder& program,
                                       const codegen::DeviceModel& device,
                                       codegen::ExprTable& exprs) {
  std::vector<std::string> all;
  for (const auto& variant : emit_for(program, device, exprs).step.variants)
    all.push_back(variant->schedule);
  return all;
}

class LoopsDevice : public testing::TestWithParam<const char*> {};

TEST_P(LoopsDevice, SchedulesFitIt) {
  const codegen::DeviceModel& device = cuda_device(GetParam());
  codegen::ExprTable exprs{ir::Ranges{}};
  for (const int columns : {768, 8192, 65536})
    for (const int rows : {1, 200, 20000}) {
      const auto kernel =
          emit_for(layer_norm(exprs, rows, columns, DType::kFloat16), device, exprs, true);
      for (const auto& variant : kernel.step.variants) {
        EXPECT_LE(variant->cluster, static_cast<unsigned>(device.cluster_blocks))
            << variant->schedule;
        EXPECT_LE(variant->shared_bytes, static_cast<unsigned>(device.block_shared_bytes))
            << variant->schedule;
        EXPECT_LE(variant->block[0] * variant->block[1], static_cast<unsigned>(device.threads))
            << variant->schedule;
      }
      if (device.has_clusters()) continue;
      for (const auto& choice : kernel.choices)
        for (const std::string& candidate : choice.candidates)
          EXPECT_THAT(candidate, Not(HasSubstr("cluster=")));
    }
}

INSTANTIATE_TEST_SUITE_P(Architectures, LoopsDevice,
                         testing::Values("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"));

TEST(LoopsDevices, LongRowsAreLoopedOverWhereThereAreNoClusters) {
  codegen::ExprTable exprs{ir::Ranges{}};
  const ProgramBuilder rows = layer_norm(exprs, 4, 65536, DType::kFloat32);
  EXPECT_THAT(schedules_for(rows, cuda_device("sm_90"), exprs)[0], HasSubstr("cluster="));
  EXPECT_THAT(schedules_for(rows, cuda_device("sm_80"), exprs),
              testing::ElementsAre(HasSubstr("looped")));
}

TEST(LoopsDevices, MultiprocessorsDecideHowRowsAreSpread) {
  // A block holds several rows once there is one for each multiprocessor.
  codegen::ExprTable exprs{ir::Ranges{}};
  const ProgramBuilder rows = layer_norm(exprs, 4 * 120, 256, DType::kFloat16);
  EXPECT_NE(schedules_for(rows, cuda_device("sm_80"), exprs),
            schedules_for(rows, cuda_device("sm_90"), exprs));
}

TEST(LoopsDevices, ClustersAreRefusedWhereThereAreNone) {
  codegen::ExprTable exprs{ir::Ranges{}};
  ProgramBuilder rows = layer_norm(exprs, 4, 8192, DType::kFloat32);
  rows.schedule = "row vector=4 unroll=2 threads=256x1 cluster=4";
  EXPECT_EQ(schedules_for(rows, cuda_device("sm_90"), exprs)[0], rows.schedule);
  EXPECT_THROW(schedules_for(rows, cuda_device("sm_89"), exprs), Error);
}

}  // namespace
}  // namespace sinter::test
#endif
