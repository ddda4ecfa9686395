// Schedules worth timing beside the rule's.
#pragma once

#include <vector>

#include "codegen/cuda/attention_schedule.h"
#include "codegen/cuda/product_schedule.h"
#include "codegen/cuda/schedule.h"

namespace sinter::codegen {

/// Schedules that take all sizes that `rule`, one of choose_schedules, takes, and under the same
/// conditions: `rule` first, then its neighbours, the nearest first: other vectors, vectors of a
/// thread, threads, rows of a block, blocks of a cluster (if `clusters`), registers held or not.
/// Bounded, without repetition, always the same. Those of families without a choice: `rule` alone.
std::vector<Schedule> schedule_candidates(const ProgramAnalysis& analysis, const Schedule& rule,
                                          bool clusters);
/// The same for products, by rising estimates of their time.
std::vector<ProductSchedule> product_candidates(const ProgramAnalysis& analysis,
                                                const ProductProgram& product,
                                                const ProductSchedule& rule, bool clusters);
/// The same for attention.
std::vector<AttentionSchedule> attention_candidates(const AttentionProgram& program,
                                                    ExprTable& exprs, const AttentionSchedule& rule,
                                                    bool clusters);

}  // namespace sinter::codegen
