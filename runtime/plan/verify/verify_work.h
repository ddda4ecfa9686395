// SPDX-License-Identifier: Apache-2.0
// Verifies the work of a single step: its structure, and the buffers that it uses.
#pragma once

#include "runtime/plan/verify/checker.h"

namespace sinter::plan {

/// Throws as Checker::fail does if `work`, of `step` or of a part of its tactics, is malformed or
/// cannot run on the plan's target.
Uses verify_work(const Checker& check, const fb::StepT& step, const fb::WorkUnion& work);

}  // namespace sinter::plan
