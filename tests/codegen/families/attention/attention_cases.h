// SPDX-License-Identifier: Apache-2.0
// Attention regions that tests of its kernels go through.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "cases/eight_bit.h"
#include "cases/float32.h"
#include "cases/plain.h"
#include "cases/scheduled.h"
#include "cases/scores.h"

namespace sinter::test {

inline std::vector<AttentionCase> joined(
    std::initializer_list<std::span<const AttentionCase>> lists) {
  std::vector<AttentionCase> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

inline const std::vector<AttentionCase> kAttentionCases =
    joined({kPlainAttention, kScheduledAttention, kEightBitAttention, kScoredAttention,
            kFloat32Attention});

}  // namespace sinter::test
