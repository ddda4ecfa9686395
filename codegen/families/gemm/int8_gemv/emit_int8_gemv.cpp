#include <fmt/format.h>

#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/int8_gemv/int8_gemv_schedule.h"
#include "codegen/families/gemm/weights/packed_weights.h"

namespace sinter::codegen {

std::string Int8Gemv::header(const GemmProgram&) const { return "int8_gemv.cuh"; }

std::string Int8Gemv::type(const GemmText& text) const {
  const GemmSchedule& s = text.schedule();
  const GemmProgram& product = text.product();
  return fmt::format(
      "WithAccumulators<Int8Tile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>>",
      storage_name(product.type), packed_weights_type(*product.weights, loop_group(product)), s.m,
      s.n, s.k / warps_k, warps_k, s.stages, s.split_k, product.parts,
      product.rows ? product.rows->most : 0, product.rows ? product.rows->stride : 0, digits,
      count_steps(product, s));
}

}  // namespace sinter::codegen
