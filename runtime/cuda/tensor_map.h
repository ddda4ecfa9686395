// SPDX-License-Identifier: Apache-2.0
// Tensor maps: what a kernel hands to the GPU's copy engine.
#pragma once

#include <cuda.h>

#include "graphs/driver.h"
#include "runtime/binding.h"

namespace sinter::runtime {

/// The parameter that a plan's map stands for, for a buffer at `address`. Throws
/// Error(kUnsupported) if the copy engine does not take these sizes: an extent of 0 or beyond 2^32,
/// an address or a stride that is no multiple of 16 bytes or beyond 2^40.
CUtensorMap encode_tensor_map(const graphs::Driver& driver, const plan::fb::PlanT& plan,
                              const plan::fb::TensorMapT& map, const BoundShape& shape,
                              CUdeviceptr address);

}  // namespace sinter::runtime
