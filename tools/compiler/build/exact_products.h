// SPDX-License-Identifier: Apache-2.0
// What products that multiply float32 exactly cost on a GPU, and what TF32 would save.
#pragma once

#include <optional>
#include <string>

#include <sinter/compiler.h>

#include "codegen/targets/target.h"
#include "runtime/plan/plan_data.h"

namespace sinter::tools {

/// Products and convolutions of float32 that are not rounded, in microseconds.
struct ExactProducts {
  std::size_t steps = 0;
  double exact_us = 0, rounded_us = 0;  // as they are, with operands rounded to TF32
};

/// By the cost model: bytes at the memory's bandwidth or operations at a part of the peak, for
/// sizes that are the greatest of their range, at most 512, or one where it is unbounded.
ExactProducts exact_products(const plan::fb::PlanT& plan, const codegen::DeviceModel& device);
/// The same of a profile: `exact_us` is measured. None on machines without TF32.
ExactProducts exact_products(const ProfileReport& report);

/// One line; nothing if no product is exact. `source`: where the times are from.
std::optional<std::string> describe(const ExactProducts& products, const std::string& source);

}  // namespace sinter::tools
