// The text around the statements of a GEMM kernel's epilogue.
#pragma once

#include "codegen/families/gemm/gemm_text.h"

namespace sinter::codegen {

/// A block multiplies its tile; then its threads, `lanes` to a row, walk the tile's elements.
GemmMapping map_gemm(const ProgramAnalysis& analysis, const GemmSchedule& schedule,
                     Arguments& args);

/// The prologue: what makes the rows of the request's product in a block of `threads`.
PrologueRows prologue_function(const KernelRequest& request, ExprTable& exprs, int threads);

/// Alignment of what reductions need in dynamic shared memory, behind the tile's.
inline constexpr std::uint32_t kScratchAlignment = 16;
/// Dynamic shared memory of the kernel: the tile's and the reductions'.
std::uint32_t gemm_shared_bytes(const ProgramAnalysis& analysis, const GemmSchedule& schedule);

}  // namespace sinter::codegen
