// SPDX-License-Identifier: Apache-2.0
// Chooses kernels and tiles for a GEMM, and writes their text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/gemm/gemm_kernel.h"
#include "codegen/families/gemm/gemm_lowering.h"

namespace sinter::codegen {

/// The kernel of a schedule's text, and the schedule up to "cluster_n". Throws Error(kUsage) for
/// other text.
std::pair<const GemmKernel*, GemmSchedule> parse_gemm_schedule(const std::string& text);

/// Conditions on the sizes of a GEMM kernel: an upper bound on the operations. Above it the library
/// is faster; kernels are not timed.
std::vector<Condition> gemm_limits(const GemmProgram& product, ExprTable& exprs);

/// Conditions on the rows of a grouped matmul under which its groups have few of them.
std::vector<Condition> few_of_groups(const GemmProgram& product, ExprTable& exprs);
/// Conditions on the tokens under which one kernel adds up their rows.
std::vector<Condition> few_tokens(const GemmProgram& product, ExprTable& exprs);

/// True if some kernel accepts the program; otherwise `reason` says why not.
bool can_schedule_gemm(const ProgramAnalysis& analysis, const GemmProgram& product,
                       std::string& reason);

/// The schedules to emit, in the order in which their conditions are tested: for increasing row
/// counts, the one with the lowest estimate on the request's device. The last accepts all sizes on
/// every GPU, except for row reductions, which one kernel can do for few rows only. `forced`, if
/// not empty, is the only schedule, in to_string() form up to "cluster_n". Throws
/// Error(kUnsupported) if nothing fits.
std::vector<GemmSchedule> choose_gemm_schedules(const ProgramAnalysis& analysis,
                                                const GemmProgram& product,
                                                const std::string& forced = {});

/// Schedules that accept the GEMM, for measurements: every tile with every split_k, by increasing
/// estimate.
std::vector<GemmSchedule> all_gemm_schedules(const ProgramAnalysis& analysis,
                                             const GemmProgram& product);

/// Estimated nanoseconds of a schedule for `rows` rows on the request's device.
double estimated_time(const ProgramAnalysis& analysis, const GemmProgram& product,
                      const GemmSchedule& schedule, std::int64_t rows);

/// Schedules that accept all sizes of `rule`, one of the rules' schedules, under the same
/// conditions: `rule` first, then by increasing estimate. Bounded, unique and deterministic.
std::vector<GemmSchedule> gemm_candidates(const ProgramAnalysis& analysis,
                                          const GemmProgram& product, const GemmSchedule& rule,
                                          bool clusters);

/// Sets the request's GEMM and its program; `product` must outlive it.
void set_gemm(KernelRequest& request, const GemmProgram& product);

/// Chooses schedules for a GEMM's request and writes the kernel. Deterministic. Throws
/// Error(kUnsupported), which names the request, if no schedule accepts it.
EmittedKernel emit_gemm(const KernelRequest& request, ExprTable& exprs);

/// Whether a kernel is possible for a GEMM's request; otherwise `reason` says why not.
bool can_emit_gemm(const KernelRequest& request, ExprTable& exprs, std::string& reason);

}  // namespace sinter::codegen
