// SPDX-License-Identifier: Apache-2.0
// Checks after which executors can trust a plan's metadata.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Sizes of the sections to which the metadata refers.
struct BlobSizes {
  std::uint64_t weights = 0, modules = 0, sources = 0;
};

/// Throws Error(kInvalidPlan) if a vector is misaligned, or if unpacking `root` needs more memory
/// than its bytes. A malicious file can cause that by letting many tables share one vector.
void verify_packed_size(const fb::Plan& root, std::uint64_t metadata_bytes);

/// Checks every index, enumeration, count and lifetime. Afterwards all indices are valid and every
/// union and table pointer is set. Throws Error(kInvalidPlan).
void verify_plan(const fb::PlanT& plan, const BlobSizes& blobs);

/// Checks what depends on bound sizes: valid extents and strides, and accesses within buffers.
/// Guarded and non-affine accesses of loop programs, and gathered indices, depend on data; the
/// executor checks them at run time. Throws Error(kInvalidPlan) naming the step. Given
/// `dimensions`, throws Error(kUsage) naming them instead: a dimension's range may contain sizes
/// that its steps do not allow. Checks only `steps` and the buffers that they use.
void verify_bound(const fb::PlanT& plan, std::span<const std::int64_t> expressions,
                  StepRange steps = {}, std::string dimensions = {});

}  // namespace sinter::plan
