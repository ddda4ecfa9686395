// SPDX-License-Identifier: Apache-2.0
#include "codegen/targets/cuda/fitted/fitted_numbers.h"

#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "codegen/targets/cuda/cuda_target.h"
#include "codegen/targets/cuda/fitted/fitted_rows.h"

namespace sinter::test {
namespace {

using codegen::FittedScale;

TEST(FittedNumbers, EachDeviceHasAllOfThem) {
  for (const codegen::DeviceModel& device : codegen::cuda_devices()) {
    ASSERT_NE(device.fitted, nullptr) << device.device;
    codegen::FittedNumbers numbers = *device.fitted;
    std::set<std::string> names;
    codegen::visit_fitted_rows(numbers, [&](const codegen::FittedRow& row, const auto& sets) {
      for (std::size_t set = 0; set < sets.size(); ++set) {
        const std::string name = full_name(row, set);
        EXPECT_TRUE(names.insert(name).second) << name;
        EXPECT_TRUE(std::isfinite(*sets[set]) && *sets[set] >= 0)
            << name << " on " << device.device;
      }
    });
    EXPECT_TRUE(names.contains("tma.latency"));
    EXPECT_TRUE(names.contains("warp_tile.windows.step"));
  }
}

TEST(FittedNumbers, AMeasuredDeviceHasItsOwn) {
  const codegen::FittedNumbers own = codegen::fitted_numbers("H200").value();
  const codegen::FittedNumbers& used = *codegen::reference_device().fitted;
  EXPECT_EQ(used.tma.latency, own.tma.latency);
  EXPECT_EQ(used.warp_tile.dense.all_bytes, own.warp_tile.dense.all_bytes);
  EXPECT_FALSE(codegen::fitted_numbers("A100").has_value());
}

TEST(FittedNumbers, OthersScaleWithTheirRates) {
  const codegen::DeviceModel &h200 = codegen::reference_device(),
                             &a100 = codegen::cuda_device("sm_80");
  const auto &from = *h200.fitted, &to = *a100.fitted;
  const double clock = a100.clock / h200.clock,
               memory = a100.memory_bandwidth / h200.memory_bandwidth,
               tensor = (a100.tensor_flops / a100.multiprocessors) /
                        (h200.tensor_flops / h200.multiprocessors);
  EXPECT_DOUBLE_EQ(to.warp_tile.dense.latency, from.warp_tile.dense.latency / clock);
  EXPECT_DOUBLE_EQ(to.warp_tile.windows.bytes, from.warp_tile.windows.bytes * clock);
  EXPECT_DOUBLE_EQ(to.warp_tile.dense.all_bytes, from.warp_tile.dense.all_bytes * memory);
  EXPECT_DOUBLE_EQ(to.small_m.flops, from.small_m.flops * tensor);
  EXPECT_EQ(to.small_m.row_bytes, from.small_m.row_bytes);
}

}  // namespace
}  // namespace sinter::test
