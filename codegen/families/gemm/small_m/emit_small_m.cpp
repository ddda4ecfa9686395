#include <fmt/format.h>

#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/gemm/weights/packed_weights.h"

namespace sinter::codegen {

std::string SmallM::header(const GemmProgram&) const { return "small_m.cuh"; }

std::string SmallM::type(const GemmText& text) const {
  const GemmSchedule& s = text.schedule();
  const GemmProgram& product = text.product();
  const std::string weights = product.weights
                                  ? packed_weights_type(*product.weights, loop_group(product))
                              : product.rows_are_k ? "RowsAreK, NoScales"
                                                   : "RowsAreColumns, NoScales";
  return fmt::format(
      "WithAccumulators<SmallMTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}>>",
      storage_name(product.type), weights, s.m, s.n / warps_n, s.k / warps_k, warps_n, warps_k,
      s.stages, s.split_k, s.vector_a, s.vector_b, product.parts,
      product.rows ? fmt::format(", {}, {}", product.rows->most, product.rows->stride) : "");
}

void SmallM::write_operands(GemmText& text) const {
  const GemmProgram& product = text.product();
  if (!product.rows) text.write_strided_a();
  if (product.weights)
    text.write_packed_b();
  else
    text.write_strided_b();
  text.write_rows();
  text.write_columns();
}

}  // namespace sinter::codegen
