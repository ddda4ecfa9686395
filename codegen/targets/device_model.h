// SPDX-License-Identifier: Apache-2.0
// Figures of one device, for schedules and estimates of time.
#pragma once

#include <cstdint>
#include <string>

namespace sinter::codegen {

/// A GPU architecture, represented by its most common device. Sizes are per multiprocessor unless
/// stated.
struct DeviceModel {
  std::string architecture;  // "sm_90"
  std::string device;        // that has these figures: "H200"
  int multiprocessors = 0;
  int threads = 0;             // resident threads
  int blocks = 0;              // resident blocks
  std::int64_t registers = 0;  // of 32 bits
  int shared_bytes = 0;        // for all resident blocks
  int block_shared_bytes = 0;  // maximum of one block
  int cluster_blocks = 1;      // maximum of a cluster; 1: no clusters
  /// Multiprocessors that clusters of more than 2 blocks can fill on every device of the kind;
  /// which of them share a GPC differs between devices.
  int clustered_multiprocessors = 0;
  bool has_wgmma = false;       // warpgroup MMAs (wgmma) with operands copied by TMA
  std::int64_t l2_bytes = 0;    // of the device
  double memory_bandwidth = 0;  // of the device, bytes per second
  double tensor_flops = 0;      // of the device, float16 with float32 accumulators, dense, per
                                // second
  double int8_ops = 0;          // of the device, int8, dense, per second
  double float8_flops = 0;      // likewise fp8; 0: not supported
  double clock = 0;             // of a multiprocessor, Hz

  bool has_clusters() const { return cluster_blocks > 1; }
};

/// Speed of a device relative to the one for which estimates were fitted.
struct RelativeRates {
  double clock = 1;   // latencies, barriers and on-chip data movement
  double memory = 1;  // the device's bandwidth
  double tensor = 1;  // tensor core operations of one multiprocessor
};
RelativeRates relative_rates(const DeviceModel& device);

/// Above this count of operations on the reference device, a library's wgmma kernels beat our
/// mma.sync kernels by more than a fused epilogue saves.
constexpr double kMostKernelFlops = 8e9;

/// The device for which the constants of estimates were fitted: an H200.
const DeviceModel& reference_device();

}  // namespace sinter::codegen
