// SPDX-License-Identifier: Apache-2.0
// Tensor maps: descriptors that a kernel passes to the GPU's copy engine (TMA).
#pragma once

#include <cuda.h>

#include "graphs/driver.h"
#include "runtime/binding.h"

namespace sinter::runtime {

/// Encodes a plan's tensor map for a buffer at `address`. Throws Error(kUnsupported) for sizes that
/// TMA cannot handle: an extent of 0 or beyond 2^32, an address or stride that is no multiple of 16
/// bytes, or a stride beyond 2^40.
CUtensorMap encode_tensor_map(const graphs::Driver& driver, const plan::fb::PlanT& plan,
                              const plan::fb::TensorMapT& map, const BoundShape& shape,
                              CUdeviceptr address);

}  // namespace sinter::runtime
