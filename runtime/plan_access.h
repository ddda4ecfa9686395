// SPDX-License-Identifier: Apache-2.0
// The contents of a Plan, for the runtime itself, tools and tests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sinter/plan.h>

#include "runtime/operators/host_operators.h"
#include "runtime/plan/plan_data.h"

namespace sinter {

struct Plan::Impl {
  std::shared_ptr<const plan::PlanData> data;
  // The public description, built once so that members can return references.
  std::vector<BindingInfo> inputs, outputs;
  std::vector<StateInfo> states;
  std::vector<EntryInfo> entries;
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<MeasuredError> measured;
  std::vector<std::string> custom_code;
  std::shared_ptr<const runtime::HostOperators> operators;  // null: no library was named
};

struct PlanAccess {
  static Plan make(std::shared_ptr<const plan::PlanData> data);
  /// Throws Error(kUsage) for a moved-from plan.
  static const std::shared_ptr<const plan::PlanData>& data(const Plan& plan) {
    return plan.impl().data;
  }
  /// Null if no library was named.
  static const std::shared_ptr<const runtime::HostOperators>& operators(const Plan& plan) {
    return plan.impl().operators;
  }
};

/// Returns `index` if it is below `count`, the plan's number of `what` (bindings, states or entry
/// points); else throws Error(kUsage).
std::size_t checked_index(std::size_t index, std::size_t count, const char* what);

}  // namespace sinter
