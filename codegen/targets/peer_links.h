// SPDX-License-Identifier: Apache-2.0
// Costs of collectives among GPUs that reach each other's memory.
#pragma once

#include "ir/ranks/collective_rates.h"

namespace sinter::codegen {

/// Of up to 8 H200s of one host, fitted to all-reduces in CUDA graphs on 2 and 4 of them, of 8 KB
/// to 4 MB: kernels over symmetric memory, and NCCL 2 without multicast. Other links are taken as
/// these until they are measured.
const ir::CollectiveRates& peer_links();

}  // namespace sinter::codegen
