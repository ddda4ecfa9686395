// SPDX-License-Identifier: Apache-2.0
// Plans that are damaged on purpose, and how they are refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/runtime/plan/plan_builder.h"

namespace sinter::testing {

using Bytes = std::vector<std::byte>;

/// A sample to damage. Step 0 is a product, step 1 a loop program, step 2 a convolution, step 3 a
/// sort, step 4 a copy, step 5 a loop program that changes a state.
PlanBuilder steps_of_all_kinds();
/// The sample as the only entry point, for batches of up to 8.
Bytes sample_as_entry();
/// Adds the entry point of `count` steps from `first` on.
void add_entry(fb::PlanT& plan, const char* name, Id first, Id count);

/// What a plan is refused for where it is read; "accepted" if it is not.
std::string refusal_of(const Bytes& bytes);
/// What it is refused for where sizes are bound; "accepted" if it is not.
std::string bound_refusal_of(const fb::PlanT& meta, std::int64_t batch);

struct DamageCase {
  const char* name;
  std::function<void(fb::PlanT&)> damage;
  const char* expected;
};
inline std::string damage_name(const ::testing::TestParamInfo<DamageCase>& info) {
  return info.param.name;
}
/// Damage to the sample that is refused where the plan is read; each kind of step has its own.
class PlanVerify : public ::testing::TestWithParam<DamageCase> {};
/// Damage that is refused where sizes are bound.
class PlanVerifyBound : public ::testing::TestWithParam<DamageCase> {};

}  // namespace sinter::testing
