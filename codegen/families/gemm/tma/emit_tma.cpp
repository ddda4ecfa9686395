#include <fmt/format.h>

#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/tma/tma_schedule.h"

namespace sinter::codegen {

std::string Tma::header(const GemmProgram&) const { return "tma.cuh"; }

std::string Tma::type(const GemmText& text) const {
  const GemmSchedule& s = text.schedule();
  const GemmProgram& product = text.product();
  return fmt::format("WithAccumulators<TmaTile<{}, {}, {}, {}, {}, {}, {}, {}>>",
                     storage_name(product.type), s.m, s.n, warpgroups, s.stages, s.split_k,
                     product.rows_are_k, product.batch.size() + 2);
}

void Tma::write_operands(GemmText& text) const {
  for (std::string& line : text.mapped_operands()) text.line(std::move(line));
}

}  // namespace sinter::codegen
