// Convolutions as loop programs: for every type, grouping and rank, without a library.
#pragma once

#include <cstdint>
#include <span>

#include "codegen/families/gemm/gemm_graph.h"
#include "codegen/plan/expr_table.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// Lowers a region of kind "gemm" around a convolution: for each element of the result the sum
/// over window and channels, then what follows it in `body` (`with_epilogue`), or in the
/// convolution's own region alone. Throws Error(kUnsupported) if what follows needs a kernel of its
/// own.
plan::fb::LoopProgramT lower_conv_loops(const ir::Graph& body, bool with_epilogue,
                                        std::span<const std::uint32_t> inputs,
                                        std::span<const std::uint32_t> outputs, ExprTable& exprs);

}  // namespace sinter::codegen
