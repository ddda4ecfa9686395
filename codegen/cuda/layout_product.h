// The text around a product kernel's body.
#pragma once

#include "codegen/cuda/layout.h"
#include "codegen/cuda/product_schedule.h"

namespace sinter::codegen {

/// A block multiplies its tile; then its threads, `lanes` to a row, walk the tile's elements.
Layout layout_product(const ProgramAnalysis& analysis, const ProductSchedule& schedule,
                      Arguments& args);

/// Dynamic shared memory of the kernel: the tile's and the reductions'.
std::uint32_t product_shared_bytes(const ProgramAnalysis& analysis,
                                   const ProductSchedule& schedule);

}  // namespace sinter::codegen
