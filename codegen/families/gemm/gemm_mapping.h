// The text around the statements of a GEMM kernel's epilogue.
#pragma once

#include "codegen/emit/assemble.h"
#include "codegen/families/gemm/gemm_kernel.h"
#include "codegen/families/loops/body/thread_mapping.h"

namespace sinter::codegen {

/// A function that a block calls before it does anything else, number `block` of `blocks` times: it
/// makes the rows of the product's left operand.
struct PrologueRows {
  std::string name, text;
  ir::Dim blocks;
  std::vector<std::uint32_t> sizes;  // expressions: its parameters between the buffers and `block`
  std::vector<std::pair<std::uint32_t, std::int64_t>> weights;  // its buffers that may be fetched
                                                                // at once, and their bytes
};

/// What a GEMM kernel's text is made of.
struct GemmMapping {
  ThreadMapping epilogue;
  std::optional<PrologueRows> rows;
  std::vector<MapParameter> maps;  // parameters behind the kernel's arguments
};

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
