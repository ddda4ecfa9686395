// SPDX-License-Identifier: Apache-2.0
// Figures of one device, for schedules and estimates of time.
#pragma once

#include <cstdint>
#include <string>

namespace sinter::codegen {

struct FittedNumbers;

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
  double float32_flops = 0;     // of the device, exact float32
  double tf32_flops = 0;        // of the device, float32 rounded to TF32 by tensor cores, dense
  /// Of estimates and rules (codegen/targets/cuda/fitted); null for targets without kernels.
  const FittedNumbers* fitted = nullptr;

  bool has_clusters() const { return cluster_blocks > 1; }
};

// Row counts that kernels and TargetTraits share.
/// Rows of a GEMM up to which loading its weights determines its time: a fragment of tensor cores.
inline constexpr std::int64_t kFewRows = 16;
/// Rows of its left operand, and queries of attention that share keys, up to which each block
/// computes them itself.
inline constexpr std::int64_t kGemmPrologueRows = 8, kAttentionPrologueRows = 16;
/// Key channels of a LinearAttention whose states registers hold.
inline constexpr std::int64_t kMostStateRows = 256;

/// The device to which numbers of devices without a file of their own were fitted: an H200.
const DeviceModel& reference_device();

}  // namespace sinter::codegen
