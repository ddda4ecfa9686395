// The figures of one device that schedules and estimates of time are made from.
#pragma once

#include <cstdint>
#include <string>

namespace sinter::codegen {

/// A GPU architecture, by the device of it that is in most use. Sizes are of one multiprocessor
/// unless they say otherwise.
struct DeviceModel {
  std::string architecture;  // "sm_90"
  std::string device;        // whose figures these are: "H200"
  int multiprocessors = 0;
  int threads = 0;             // that a multiprocessor holds at once
  int blocks = 0;              // likewise
  std::int64_t registers = 0;  // of 32 bits
  int shared_bytes = 0;        // for all blocks that it holds
  int block_shared_bytes = 0;  // most that one block may have
  int cluster_blocks = 1;      // most of a cluster; 1: there are no clusters
  /// Multiprocessors that clusters of more than two blocks fill on every device of the kind: which
  /// of them are neighbours differs from one device to the next.
  int clustered_multiprocessors = 0;
  bool has_wgmma = false;       // products by warpgroups, whose operands the copy engine brings
  std::int64_t l2_bytes = 0;    // of the device
  double memory_bandwidth = 0;  // of the device, bytes per second
  double tensor_flops = 0;      // of the device, float16 into float32, dense, per second
  double int8_ops = 0;          // of the device, integers of 8 bits, dense, per second
  double float8_flops = 0;      // likewise floats of 8 bits; 0: tensor cores have none
  double clock = 0;             // of a multiprocessor, Hz

  bool has_clusters() const { return cluster_blocks > 1; }
};

/// How fast a device is beside the one that the constants of estimates were fitted on.
struct RelativeRates {
  double clock = 1;   // latencies, barriers and what a multiprocessor moves itself
  double memory = 1;  // the device's bandwidth
  double tensor = 1;  // operations of one multiprocessor's tensor cores
};
RelativeRates relative_rates(const DeviceModel& device);

/// Beyond so many operations on the reference device a library's pipelines (wgmma) are ahead of our
/// kernels by warps (mma.sync) by more than an epilogue can win back.
constexpr double kMostKernelFlops = 8e9;

/// The device that the constants of estimates were fitted on: an H200.
const DeviceModel& reference_device();

}  // namespace sinter::codegen
