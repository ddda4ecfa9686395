// SPDX-License-Identifier: Apache-2.0
// The checks that let executors trust a plan's metadata.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/plan/plan_data.h"

namespace sinter::plan {

/// Sizes of the blobs that the metadata points into.
struct BlobSizes {
  std::uint64_t weights = 0, modules = 0, sources = 0;
};

/// Throws Error(kInvalidPlan) if a vector is misaligned, or if unpacking `root` would make more
/// than its bytes hold, as a crafted file can by letting many tables share one vector.
void verify_packed_size(const fb::Plan& root, std::uint64_t metadata_bytes);

/// Checks every index, enumeration, count and lifetime. After it, all indices may be followed and
/// every union and table pointer is set. Throws Error(kInvalidPlan).
void verify_plan(const fb::PlanT& plan, const BlobSizes& blobs);

/// Checks what depends on the bound sizes: extents and strides that are possible, and that no step
/// leaves its buffers. (Guarded and non-affine accesses of loop programs, and gathered indices,
/// depend on data; the executor checks them as it goes.) Throws Error(kInvalidPlan) naming the
/// step, or kUsage naming `dimensions`, if they are given: a model's range of a dimension may have
/// sizes in it that its steps do not allow. Only `steps`, and the buffers that they use.
void verify_bound(const fb::PlanT& plan, std::span<const std::int64_t> expressions,
                  StepRange steps = {}, std::string dimensions = {});

}  // namespace sinter::plan
