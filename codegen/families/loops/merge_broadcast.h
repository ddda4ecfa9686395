// Loops that are one but for values that many neighbours share.
#pragma once

#include "codegen/plan/expr_table.h"
#include "codegen/program/loop_lowering.h"

namespace sinter::codegen {

/// Joins the two innermost loops of a program without rows where that makes vectors longer: what
/// memory holds runs on from one to the other, but for a few loads that do not vary along the inner
/// one, as a group's mean. Those are then found by a division.
void merge_broadcast_loops(LoopProgramT& program, ExprTable& exprs);

}  // namespace sinter::codegen
