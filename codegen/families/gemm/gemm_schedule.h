// Which kernels of the family a product gets, on which tiles, and their text.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/gemm/gemm_kernel.h"
#include "codegen/families/gemm/gemm_lowering.h"

namespace sinter::codegen {

/// Which sizes a product kernel is for: an upper bound on the work, above which the library is
/// better without trying.
std::vector<Condition> gemm_limits(const GemmProgram& product, ExprTable& exprs,
                                   const DeviceModel& device = reference_device());

/// True if some kernel takes the program; else `reason` says why not.
bool can_schedule_gemm(const ProgramAnalysis& analysis, const GemmProgram& product,
                       std::string& reason);

/// The schedules to emit, in the order in which their conditions are tried: for rising numbers of
/// rows the one with the least estimated time on the request's device. The last takes all sizes on
/// every GPU unless rows are reduced, which one kernel does for few rows only. `forced`, if not
/// empty, is the one schedule to use, in the form of to_string() up to "cluster_n". Throws
/// Error(kUnsupported) if nothing fits.
std::vector<GemmSchedule> choose_gemm_schedules(const ProgramAnalysis& analysis,
                                                const GemmProgram& product,
                                                const std::string& forced = {});

/// Schedules that take the product, for measuring: every tile with every number of splits, by
/// rising estimates of their time.
std::vector<GemmSchedule> all_gemm_schedules(const ProgramAnalysis& analysis,
                                             const GemmProgram& product);

/// Nanoseconds that `rows` rows are estimated to take on the request's device by such a schedule.
double estimated_time(const ProgramAnalysis& analysis, const GemmProgram& product,
                      const GemmSchedule& schedule, std::int64_t rows);

/// Schedules that take all sizes that `rule`, one of the rules', takes, and under the same
/// conditions: `rule` first, then others by rising estimates of their time. Bounded, without
/// repetition, always the same.
std::vector<GemmSchedule> gemm_candidates(const ProgramAnalysis& analysis,
                                          const GemmProgram& product, const GemmSchedule& rule,
                                          bool clusters);

/// Makes the request one for `product`, which must outlive it, and its program.
void set_gemm(KernelRequest& request, const GemmProgram& product);

/// Chooses schedules for a request with a product and writes the kernel. Deterministic. Throws
/// Error(kUnsupported) naming the request if no schedule takes it.
EmittedKernel emit_gemm(const KernelRequest& request, ExprTable& exprs);

/// Whether a kernel can be made for a request with a product; else `reason` says why not.
bool can_emit_gemm(const KernelRequest& request, ExprTable& exprs, std::string& reason);

}  // namespace sinter::codegen
