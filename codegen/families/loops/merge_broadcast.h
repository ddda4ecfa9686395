// SPDX-License-Identifier: Apache-2.0
// Merges loops despite values that neighbouring elements share.
#pragma once

#include "codegen/plan/expr_table.h"
#include "codegen/program/loop_lowering.h"

namespace sinter::codegen {

/// Merges the two innermost loops of a program without rows, for longer vectors. All accesses must
/// be contiguous across both, except a few loads that do not vary along the inner loop, such as a
/// group's mean. Their index then needs a division.
void merge_broadcast_loops(LoopProgramT& program, ExprTable& exprs);

}  // namespace sinter::codegen
