// SPDX-License-Identifier: Apache-2.0
// Tests of kernels by each set of instructions that this processor has.
#pragma once

#include <bit>
#include <cstdint>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace sinter::testing {

/// Calls `check` with kernels of each instruction set, then leaves the best one chosen.
template <typename Check>
void for_each_instruction_set(const Check& check) {
  const std::int64_t all = hwy::SupportedTargets();
  for (std::int64_t left = all; left != 0; left &= left - 1) {
    SCOPED_TRACE(hwy::TargetName(left & -left));
    hwy::GetChosenTarget().Update(left);  // the best of these
    check();
  }
  hwy::GetChosenTarget().Update(all);
}

}  // namespace sinter::testing
