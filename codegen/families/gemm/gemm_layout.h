// The text around a product kernel's body.
#pragma once

#include "codegen/families/gemm/gemm_schedule.h"
#include "codegen/families/loops/body/layout.h"

namespace sinter::codegen {

/// A block multiplies its tile; then its threads, `lanes` to a row, walk the tile's elements.
Layout layout_product(const ProgramAnalysis& analysis, const ProductSchedule& schedule,
                      Arguments& args);

/// What makes the rows of the request's product in a block of `threads`.
RowsFunction rows_function(const KernelRequest& request, ExprTable& exprs, int threads);

/// Dynamic shared memory of the kernel: the tile's and the reductions'.
std::uint32_t product_shared_bytes(const ProgramAnalysis& analysis,
                                   const ProductSchedule& schedule);

}  // namespace sinter::codegen
