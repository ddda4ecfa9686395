// SPDX-License-Identifier: Apache-2.0
// Costs of collectives among devices that reach each other's memory.
#pragma once

#include <cstdint>

#include "ir/ranks/collective_rates.h"

namespace sinter::codegen {

/// Of up to 8 H200s of one host, fitted to all-reduces in CUDA graphs on 2 and 4 of them, of 8 KB
/// to 4 MB: kernels over symmetric memory, and NCCL 2 without multicast. Other links are taken as
/// these until they are measured.
const ir::CollectiveRates& peer_links();

/// Devices of one host.
inline constexpr std::int64_t kHostDevices = 8;
/// The same of whole hosts of 8, each device with 400 Gb/s to its like in the others: what a host's
/// devices have combined, each an eighth, is combined among hosts by a library, and gathered. Not
/// measured: for estimates of 16 to 64 devices.
ir::CollectiveRates links_of_hosts(std::int64_t devices);

/// A rank of a plan for the CPU: a NUMA node, or cores of one, that reads others' memory in place.
struct CpuRank {
  double memory_bandwidth = 2e10, product_rate = 2e11;  // bytes and operations per second
  ir::CollectiveRates links;
};
const CpuRank& cpu_rank();

}  // namespace sinter::codegen
