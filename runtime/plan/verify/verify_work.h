// The work of a step by itself: its structure, and what it touches.
#pragma once

#include <cstdint>
#include <set>

#include "runtime/plan/verify/checker.h"

namespace sinter::plan {

using Buffers = std::set<std::uint32_t>;

/// What the work of a step touches, to be compared with what the step declares.
struct Uses {
  Buffers reads, writes;
};

/// Throws what Checker::fail does if `work`, that of `step` or of one of its tactics' parts, is
/// malformed or cannot run on the plan's target.
Uses verify_work(const Checker& check, const fb::StepT& step, const fb::WorkUnion& work);

}  // namespace sinter::plan
